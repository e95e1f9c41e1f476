"""What must add up to what: the same people, counted more than once.

Nothing here names a table. Two measurements count the same people where their universes (person filter, unit
filter, threshold) are equal; then their sums over any region and iteration that both can be added up to are
equal: cell by cell within a tabulation, in total between tabulations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phsafe.config import Config
from phsafe.estimation.measured import Block, Measured, Positions
from phsafe.levels import TOTAL, digits
from phsafe.spec import Tabulation

#: An identity: positions with coefficient +1, positions with coefficient −1; their sum is zero.
Identity = tuple[Positions, Positions]
#: (region, iteration code).
Group = tuple[str, str]
#: Coefficients are eliminated modulo a large prime: exact, and no fractions grow.
PRIME = (1 << 61) - 1


def identities(measured: Measured, blocks: Sequence[Block] | None = None) -> list[Identity]:
    """All identities between pairs of measurements, shortest first; many follow from others."""
    chosen = list(measured.blocks.values()) if blocks is None else list(blocks)
    found: list[Identity] = []
    for i, one in enumerate(chosen):
        for other in chosen[i + 1 :]:
            if universe(measured.config, one.tabulation) == universe(measured.config, other.tabulation):
                found += _between(one, other)
    return sorted(found, key=lambda identity: len(identity[0]) + len(identity[1]))


def universe(config: Config, tabulation: Tabulation) -> tuple[object, object, int | None]:
    """Who is counted: person filter, unit filter, threshold."""
    return tabulation.persons, tabulation.units, config.tau.get(tabulation.name)


def independent(rows: Iterable[Identity], unknown: NDArray[np.bool_]) -> sparse.csr_array:
    """The identities that don't follow from earlier ones, as rows of a sparse matrix.

    Gaussian elimination on sparse rows: each identity kept defines one position (its pivot) by others. Positions
    that are not `unknown` are settled already, in agreement, and take no part in it.
    """
    pivots: dict[int, dict[int, int]] = {}
    kept: list[Identity] = []
    for identity in rows:
        # The shorter side comes first: it names the position that the longer one defines.
        plus, minus = sorted(identity, key=len)
        row = dict.fromkeys(plus[unknown[plus]].tolist(), 1) | dict.fromkeys(minus[unknown[minus]].tolist(), PRIME - 1)
        while found := [p for p in row if p in pivots]:
            for position in found:
                factor = row.pop(position, 0)
                for p, coefficient in pivots[position].items():
                    value = (row.get(p, 0) + factor * coefficient) % PRIME
                    if value:
                        row[p] = value
                    else:
                        row.pop(p, None)
        if row:
            pivot, coefficient = next(iter(row.items()))
            del row[pivot]
            inverse = pow(PRIME - coefficient, -1, PRIME)
            pivots[pivot] = {p: c * inverse % PRIME for p, c in row.items()}
            kept.append((plus, minus))
    return matrix(kept, len(unknown))


def matrix(rows: Sequence[Identity], columns: int) -> sparse.csr_array:
    """Identities as the rows of a sparse matrix."""
    where = [np.concatenate(row) for row in rows]
    values = [np.repeat([1.0, -1.0], [len(plus), len(minus)]) for plus, minus in rows]
    ends = np.cumsum([0, *map(len, where)])
    empty = np.empty(0)
    return sparse.csr_array(
        (np.concatenate([empty, *values]), np.concatenate([empty, *where]).astype(np.int64), ends),
        shape=(len(rows), columns),
    )


def _between(one: Block, other: Block) -> Iterator[Identity]:
    key = _common_group(one, other)
    if key is None:
        return
    same_cells = one.tabulation is other.tabulation
    for cells in [(cell,) for cell in one.tabulation.cells] if same_cells else [None]:
        left, right = _gather(one, key, cells), _gather(other, key, cells)
        for group in left:
            yield np.concatenate(left[group]), np.concatenate(right[group])


def _common_group(one: Block, other: Block) -> Callable[[str, str], Group] | None:
    """(region, iteration) → the smallest group that the groups of both blocks add up to; None if there is none."""
    geographies = (one.level.geography, other.level.geography)
    shared = [a for a, b in zip(*(g.columns for g in geographies), strict=False) if a == b]
    if any(len(g.columns) > len(shared) and not g.covers for g in geographies):
        return None
    width = sum(digits(column) for column in shared)
    levels = (one.level.iteration_level, other.level.iteration_level)
    same = levels[0] == levels[1]
    if same and levels[0].iterations != (TOTAL,):
        same = one.tabulation.iterate_by == other.tabulation.iterate_by
    if not same and not all(level.covers for level in levels):
        return None
    return lambda region, iteration: (region[:width], iteration if same else TOTAL.code)


def _gather(
    block: Block, key: Callable[[str, str], Group], cells: tuple[int, ...] | None
) -> dict[Group, list[Positions]]:
    """Group key → the positions of its cells, over all groups of the block that belong to it."""
    gathered: dict[Group, list[Positions]] = {}
    for group, positions in zip(block.groups, block.positions(cells), strict=True):
        gathered.setdefault(key(*group), []).append(positions)
    return gathered
