"""Exhaustive search over small populations, their neighbours, unit functions, local truncations and cell maps.

The domain: there are four base records. `a` and `A` are identical in the person table (they differ in something only a
unit function sees), `b` is different, and `z` does not pass the person filter. A unit record is `u` or `v`, or there is
none that counts (absent, repeated or filtered out). A population is two households of at most τ + 1 base records each,
in one region or in two.

The search covers everything the model leaves open. A unit function is any map from a household's base records to a unit
record, a truncation any map to τ of its records. A pair of neighbours evaluates both at two points (before and after),
and where these differ any two values can occur, so trying all pairs of values covers all functions: "the reduction" of
docs/privacy.md, claim C4. A cell map is any partial function from the four joined rows to cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, product

import numpy as np

BASE = ("a", "A", "b", "z")
PERSON = {"a": 0, "A": 0, "b": 1, "z": None}
UNITS = (None, 0, 1)
NOWHERE = -1
CELLS = 4

Household = tuple[str, ...]
Vector = tuple[int, ...]
#: The cell of the joined row (person, unit), at index 2·person + unit; for counts of units only the unit matters.
CellMap = tuple[int, ...]


def cell_maps(rows: int = 4) -> list[CellMap]:
    """All partial functions from the joined rows to cells, up to renaming the cells."""

    def grow(prefix: CellMap) -> Iterator[CellMap]:
        if len(prefix) == rows:
            yield prefix
            return
        for cell in (NOWHERE, *range(max(prefix, default=NOWHERE) + 2)):
            yield from grow((*prefix, cell))

    return list(grow(()))


def households(max_size: int) -> list[Household]:
    """All multisets of at most `max_size` base records."""
    return [h for n in range(max_size + 1) for h in combinations_with_replacement(BASE, n)]


def kept(household: Household, tau: int) -> Iterator[tuple[int, int]]:
    """What a local truncation can keep, as numbers of persons (like a, like b): τ in total, or everyone if fewer."""
    seen = [PERSON[r] for r in household]
    first, second = seen.count(0), seen.count(1)
    for n in range(min(first, tau) + 1):
        m = min(tau, first + second) - n
        if 0 <= m <= second:
            yield n, m


def person_contributions(household: Household, tau: int, cells: CellMap) -> frozenset[Vector]:
    """Every contribution a household can make to a person tabulation."""
    contributions = set()
    for unit, (first, second) in product(UNITS, kept(household, tau)):
        vector = [0] * CELLS
        for person, n in ((0, first), (1, second)):
            if unit is not None and cells[2 * person + unit] != NOWHERE:
                vector[cells[2 * person + unit]] += n
        contributions.add(tuple(vector))
    return frozenset(contributions)


def unit_contributions(household: Household, tau: int, cells: CellMap) -> frozenset[Vector]:
    """Every contribution a household can make to a unit tabulation."""
    contributions = set()
    for unit in UNITS:
        vector = [0] * CELLS
        if unit is not None and cells[unit] != NOWHERE:
            vector[cells[unit]] = 1
        contributions.add(tuple(vector))
    return frozenset(contributions)


def without(household: Household) -> Iterator[Household]:
    """The household with one record removed, for each of its records."""
    for i in range(len(household)):
        yield household[:i] + household[i + 1 :]


def _differences(pairs: set[tuple[frozenset[Vector], frozenset[Vector]]]) -> np.ndarray:
    rows = {
        tuple(q - p for p, q in zip(old, new, strict=True))
        for before, after in pairs
        for old, new in product(before, after)
    }
    return np.array(sorted(rows), dtype=np.int64)


class Changes:
    """All changes of one household's contribution under a cell map: one record removed, or one replaced."""

    def __init__(self, contributions, tau: int, cells: CellMap) -> None:
        of = {h: contributions(h, tau, cells) for h in households(tau + 1)}
        self.leaving = _differences({(of[h], of[rest]) for h in of for rest in without(h)})
        named = {tuple(sorted(h)): h for h in of}
        swaps = ((h, named[tuple(sorted((*rest, r)))]) for h in of for rest in without(h) for r in BASE)
        self.replaced = _differences({(of[h], of[other]) for h, other in swaps if h != other})

    def unbounded(self) -> tuple[int, int]:
        """The largest L1 and squared L2 distances. An added record is a removal in reverse."""
        return largest(self.leaving)

    def bounded(self) -> tuple[int, int]:
        """The same for a replaced record: within a household, or moved to another one in the same or another region."""
        joining = -self.leaving
        one_region = (self.leaving[:, None, :] + joining[None, :, :]).reshape(-1, CELLS)
        l1, l2 = largest(self.leaving)
        return tuple(max(ns) for ns in zip(largest(self.replaced), largest(one_region), (2 * l1, 2 * l2), strict=True))


def largest(changes: np.ndarray) -> tuple[int, int]:
    return int(np.abs(changes).sum(axis=1).max()), int((changes**2).sum(axis=1).max())
