"""Identities: sums that must be equal because they count the same people.

No table is hard-coded. Two measurements count the same people if their universes (person filter, unit filter,
threshold) are equal. Their sums are then equal in every region and iteration to which both can be aggregated: cell by
cell within a tabulation, and in total between tabulations, where the declarations prove that they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phsafe.configs.config import Config
from phsafe.estimation.measurement_vector import LevelBlock, Measured, Positions
from phsafe.estimation.provable_sums import adds_up, is_covered, same_cells
from phsafe.model.levels import TOTAL, Level, digits
from phsafe.model.spec import Tabulation

#: Positions with coefficient +1 and positions with coefficient −1; the signed sum is zero.
Identity = tuple[Positions, Positions]
#: (region, iteration code).
Group = tuple[str, str]
#: Elimination works modulo a large prime: exact, without growing fractions.
PRIME = (1 << 61) - 1


def identities(measured: Measured, blocks: Sequence[LevelBlock] | None = None) -> list[Identity]:
    """All identities between pairs of measurements, shortest first, including those implied by others."""
    chosen = list(measured.blocks.values()) if blocks is None else list(blocks)
    found: list[Identity] = []
    for i, one in enumerate(chosen):
        for other in chosen[i + 1 :]:
            if counts_the_same(measured.config, one.tabulation, other.tabulation):
                found += _between(measured.config, one, other)
    return sorted(found, key=lambda identity: len(identity[0]) + len(identity[1]))


def same_people(config: Config, blocks: Iterable[LevelBlock]) -> Iterator[tuple[Level, list[Identity]]]:
    """Yield, for each group, sums in two universes that count the same people if everybody is counted.

    With thresholds, they differ: each universe drops people of its own from large households.
    """
    for one, other in combinations([block for block in blocks if block.tabulation.is_truncated], 2):
        key = common_group(one, other)
        if key is None or one.level.key != other.level.key:
            continue
        if universe(config, one.tabulation) == universe(config, other.tabulation):
            continue
        sides = [
            (gather_groups(one, key, mine), gather_groups(other, key, theirs))
            for mine, theirs in same_cells(one.tabulation, other.tabulation)
        ]
        for group in sides[0][0] if sides else ():
            yield one.level, [(np.concatenate(left[group]), np.concatenate(right[group])) for left, right in sides]


def universe(config: Config, tabulation: Tabulation) -> tuple[object, ...]:
    """The universe of a tabulation: what it counts, person filter, unit filter and threshold."""
    source = tabulation.beyond or tabulation
    return tabulation.kind, source.persons, tabulation.units, config.tau_of(tabulation)


def counts_the_same(config: Config, one: Tabulation, other: Tabulation) -> bool:
    """Whether two tabulations count the same people or units: in the same universe, and in cells of both."""
    return universe(config, one) == universe(config, other) and is_covered(one, other) and is_covered(other, one)


def is_beyond(config: Config, tabulation: Tabulation, members: Iterable[Tabulation]) -> bool:
    """Whether a tabulation measures what the threshold of a universe drops, given its members."""
    source = tabulation.beyond
    return source is not None and any(counts_the_same(config, source, member) for member in members)


def independent(rows: Iterable[Identity], unknown: NDArray[np.bool_]) -> sparse.csr_array:
    """The identities that are not implied by earlier ones, as rows of a sparse matrix.

    Gaussian elimination on sparse rows: each identity that is kept expresses one position (its pivot) in terms of
    others.

    Args:
        rows: Identities, shortest first.
        unknown: Which positions are unknowns. All others have consistent values already and are ignored.
    """
    pivots: dict[int, dict[int, int]] = {}
    kept: list[Identity] = []
    for identity in rows:
        # The shorter side comes first, so that the pivot is the position that the longer side adds up to.
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
    """Return identities as the rows of a sparse matrix."""
    where = [np.concatenate(row) for row in rows]
    values = [np.repeat([1.0, -1.0], [len(plus), len(minus)]) for plus, minus in rows]
    ends = np.cumsum([0, *map(len, where)])
    empty = np.empty(0)
    return sparse.csr_array(
        (np.concatenate([empty, *values]), np.concatenate([empty, *where]).astype(np.int64), ends),
        shape=(len(rows), columns),
    )


def _between(config: Config, one: LevelBlock, other: LevelBlock) -> Iterator[Identity]:
    """Yield the identities between two measurements of the same universe.

    Cells that are counted without truncation count more people than others, so both sides must be of one type.
    """
    key = common_group(one, other)
    if key is None:
        return
    choices: list[tuple[int, ...] | None]
    untruncated = [set(untruncated_cells(config, block)) for block in (one, other)]
    if one.tabulation is other.tabulation:
        choices = [(cell,) for cell in one.tabulation.cells if len({cell in cells for cells in untruncated}) == 1]
    else:
        whole = [len(cells) / len(b.tabulation.cells) for cells, b in zip(untruncated, (one, other), strict=True)]
        choices = [None] if whole in ([0, 0], [1, 1]) else []
    for cells in choices:
        left, right = gather_groups(one, key, cells), gather_groups(other, key, cells)
        for group in (one for one in left if one in right):  # Two lists of regions may differ.
            yield np.concatenate(left[group]), np.concatenate(right[group])


def untruncated_cells(config: Config, block: LevelBlock) -> Iterator[int]:
    """Yield the cells of a measurement of persons that are counted without truncation."""
    if block.tabulation.is_truncated:
        for part in config.blocks(block.tabulation, block.level):
            yield from part.cells if part.is_blind else ()


def common_group(one: LevelBlock, other: LevelBlock) -> Callable[[str, str], Group] | None:
    """Map (region, iteration) to the smallest group to which both blocks aggregate; None if there is no such group."""
    geographies = (one.level.geography, other.level.geography)
    shared = [a for a, b in zip(*(g.columns for g in geographies), strict=False) if a == b]
    if any(len(g.columns) > len(shared) and not g.covers for g in geographies):
        return None
    width = sum(digits(column) for column in shared)
    levels = (one.level.iteration_level, other.level.iteration_level)
    same = levels[0] == levels[1]
    if same and levels[0].iterations != (TOTAL,):
        same = one.tabulation.iterate_by == other.tabulation.iterate_by
    if not same and not (adds_up(one) and adds_up(other)):
        return None
    return lambda region, iteration: (region[:width], iteration if same else TOTAL.code)


def gather_groups(
    block: LevelBlock, key: Callable[[str, str], Group], cells: tuple[int, ...] | None
) -> dict[Group, list[Positions]]:
    """Map each aggregated group to the positions of its cells, collected from the groups of the block."""
    gathered: dict[Group, list[Positions]] = {}
    for group, positions in zip(block.groups, block.positions(cells), strict=True):
        gathered.setdefault(key(*group), []).append(positions)
    return gathered
