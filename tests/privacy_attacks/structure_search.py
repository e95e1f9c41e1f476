"""An independent search for the largest changes of a tabulation, from the model alone (claims C16 to C20).

A *place* is a population group and cell of a level. A person has, under a unit *signature*, one place or none, and none
if no unit counts (⊥: absent, repeated, group quarters). One record added or removed changes the kept persons from K to
K′ and the signature from s to s′, which may be any two: the household's records differ, so a unit function may return
anything for them. `kept_pairs` lists every (K, K′) that truncation in a fixed order allows.

`Table.largest` maximises over tables of places too large to try every household. It relies on convexity: for given s
and s′, the change is Σ g(z) over the persons z kept both times, plus what the person who comes or goes adds, and for
any convex distance f(u + g(a) + g(b)) ≤ ½ f(u + 2g(a)) + ½ f(u + 2g(b)). So some largest change has copies of a single
kind of person for z. A test compares it with the search without this step.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product

import numpy as np

#: No place; and the signature of a household without a countable unit.
NOWHERE = -1
#: A person outside the person filter.
OUTSIDE = -1


def first(people: tuple[int, ...], tau: int) -> tuple[int, ...]:
    """The kinds of the persons kept, from the kinds of all persons in truncation's order."""
    return tuple(sorted([p for p in people if p != OUTSIDE][:tau]))


@cache
def kept_pairs(kinds: int, tau: int) -> frozenset[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All (kept before, kept after) of a household of at most τ + 2 persons that loses one, in any order."""
    pairs = set()
    for size in range(1, tau + 3):
        for people in product((OUTSIDE, *range(kinds)), repeat=size):
            pairs |= {(first(people, tau), first(people[:i] + people[i + 1 :], tau)) for i in range(size)}
    return frozenset(pairs)


@cache
def replaced_pairs(kinds: int, tau: int) -> frozenset[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The same for a household of which one record is replaced by any other."""
    pairs = set()
    for size in range(1, tau + 3):
        for people in product((OUTSIDE, *range(kinds)), repeat=size):
            kept = first(people, tau)
            for i, j, kind in product(range(size), range(size), (OUTSIDE, *range(kinds))):
                rest = people[:i] + people[i + 1 :]
                pairs.add((kept, first((*rest[:j], kind, *rest[j:]), tau)))
    return frozenset(pairs)


#: places[kind][signature], the last signature being ⊥.
Places = tuple[tuple[int, ...], ...]


def contribution(kept: tuple[int, ...], signature: int, places: Places, cells: int) -> tuple[int, ...]:
    counts = Counter(places[kind][signature] for kind in kept)
    return tuple(counts[cell] for cell in range(cells))


def changes(places: Places, cells: int, pairs) -> np.ndarray:
    """All changes of the contribution over pairs of kept persons and pairs of signatures."""
    signatures = range(len(places[0]))
    found = set()
    for (before, after), s, t in product(pairs, signatures, signatures):
        one, two = contribution(before, s, places, cells), contribution(after, t, places, cells)
        found.add(tuple(y - x for x, y in zip(one, two, strict=True)))
    return np.array(sorted(found), dtype=np.int64)


def largest(vectors: np.ndarray) -> tuple[int, int]:
    """The largest L1 and squared L2 norm."""
    return int(np.abs(vectors).sum(axis=1).max()), int((vectors**2).sum(axis=1).max())


def unbounded(places: Places, cells: int, tau: int) -> tuple[int, int]:
    return largest(changes(places, cells, kept_pairs(len(places), tau)))


def bounded(places: Places, cells: int, tau: int) -> tuple[int, int]:
    """One record replaced: in one household, or leaving one and joining another, in the same region or in two."""
    leaving = changes(places, cells, kept_pairs(len(places), tau))
    same_region = (leaving[:, None, :] - leaving[None, :, :]).reshape(-1, cells)
    l1, l2 = largest(leaving)
    within = largest(changes(places, cells, replaced_pairs(len(places), tau)))
    return tuple(max(ns) for ns in zip(within, largest(same_region), (2 * l1, 2 * l2), strict=True))


class Table:
    """The places of every kind of person under every signature, at each level of a tabulation.

    `rows[level][kind, signature]` is the place, NOWHERE for none. Kind and signature 0 are a person outside of the
    filter and ⊥: nowhere at every level.
    """

    def __init__(self, rows: dict[str, np.ndarray]) -> None:
        self.levels = list(rows)
        table = np.stack([rows[key] for key in self.levels])
        table = np.unique(table, axis=1)
        self.rows = dict(zip(self.levels, np.unique(table, axis=2), strict=True))
        self.kinds, self.signatures = table.shape[1], self.rows[self.levels[0]].shape[1]

    def _vectors(self, level: str) -> np.ndarray:
        """One-hot places, [kind, signature, place]."""
        rows = self.rows[level]
        return (rows[:, :, None] == np.arange(rows.max() + 1)[None, None, :]).astype(np.int64)

    def largest(self, tau: int, weights: dict[str, float], norm: str = "l2") -> float:
        """The largest weighted sum over levels of squared L2 (or L1) distances, over all households and signatures."""
        vectors = {key: self._vectors(key) for key, weight in weights.items() if weight}
        best = 0.0
        for s, t in product(range(self.signatures), repeat=2):
            gone = [
                w * vectors[k][:, s] if norm == "l1" else w**0.5 * vectors[k][:, s] for k, w in weights.items() if w
            ]
            come = [
                w * vectors[k][:, t] if norm == "l1" else w**0.5 * vectors[k][:, t] for k, w in weights.items() if w
            ]
            before, after = np.concatenate(gone, axis=1), np.concatenate(come, axis=1)
            # Some persons z are kept both times; x goes and y comes, or (for kind 0, outside of the filter) nobody.
            for copies, swap in [(n, slice(None)) for n in range(tau)] + [(tau, slice(1))]:
                best = max(best, _largest_sum(copies * (before - after), before[swap], -after[swap], norm))
        return best

    def differences(self, tau: int, keys: list[str]) -> np.ndarray:
        """Changes of all levels side by side: every kept pair of `kept_pairs`, every pair of signatures."""
        kinds = self.kinds
        vectors = np.concatenate([self._vectors(key) for key in keys], axis=2)
        found = set()
        for before, after in kept_pairs(kinds, tau):
            one, two = (vectors[list(kept)].sum(axis=0) for kept in (before, after))
            found |= set(map(tuple, (two[None, :, :] - one[:, None, :]).reshape(-1, vectors.shape[2]).tolist()))
        return np.array(sorted(found), dtype=np.int64)

    def largest_bounded(self, tau: int, weights: dict[str, float]) -> float:
        """The largest weighted sum of squares if a person leaves one household and joins another in the region."""
        keys = list(weights)
        scale = np.sqrt(np.concatenate([np.full(self._vectors(key).shape[2], weights[key]) for key in keys]))
        leaving = self.differences(tau, keys) * scale
        square = (leaving**2).sum(axis=1)
        return float((square[:, None] + square[None, :] - 2 * leaving @ leaving.T).max())


def _largest_sum(z: np.ndarray, x: np.ndarray, y: np.ndarray, norm: str) -> float:
    """The largest norm of a sum of three vectors, one of each array; squared for L2."""
    if norm == "l1":
        return float(np.abs(z[:, None, None] + x[None, :, None] + y[None, None, :]).sum(axis=3).max())
    squares = [(v**2).sum(axis=1) for v in (z, x, y)]
    one_by_one = squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None, :]
    return float((one_by_one + 2 * ((z @ x.T)[:, :, None] + (z @ y.T)[:, None, :] + (x @ y.T)[None])).max())


def representatives(conditions, columns) -> list[dict[str, object]]:
    """One row for each combination of codes that some condition treats differently, and unknown codes."""
    rows: list[dict[str, object]] = [{}]
    for column in columns:
        sets = [codes for c in conditions if (codes := c.codes(column)) is not None]
        if not sets:
            continue
        named = sorted(frozenset().union(*sets))
        patterns = {tuple(code in s for s in sets): code for code in named}
        patterns.setdefault((False,) * len(sets), "unknown")
        rows = [row | {column: code} for row in rows for code in patterns.values()]
    return rows


def table_of(tabulation, levels) -> Table:
    """The places of a tabulation at some levels, by evaluating its conditions on one row at a time."""
    from phsafe.model.conditions import Where
    from phsafe.model.schema import PERSONS, UNITS

    by = tabulation.iterate_by

    def iterations(level):
        return [Where() if by is None else i.condition(by) for i in level.iteration_level.iterations]

    cells = list(tabulation.cells.values())
    both = [*cells, *(c for level in levels for c in iterations(level))]
    person_filter = Where() if tabulation.persons is None else tabulation.persons
    people = representatives([person_filter, *(c.on(set(PERSONS.names)) for c in both)], PERSONS.names)
    units = representatives([tabulation.units, *(c.on(set(UNITS.names)) for c in both)], UNITS.names)
    rows = {}
    for level in levels:
        conditions = iterations(level)
        places = np.full((len(people) + 1, len(units) + 1), NOWHERE)
        for (i, person), (j, unit) in product(enumerate(people, 1), enumerate(units, 1)):
            if not (person_filter.allows(person) and tabulation.units.allows(unit)):
                continue
            row = unit | person
            found = [
                a * len(cells) + b
                for (a, iteration), (b, cell) in product(enumerate(conditions), enumerate(cells))
                if iteration.allows(row) and cell.allows(row)
            ]
            assert len(found) <= 1
            places[i, j] = found[0] if found else NOWHERE
        rows[level.key] = places
    return Table(rows)
