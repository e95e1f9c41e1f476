"""Constraints on published counts: sums that are equal, subgroups, and smaller universes.

Like the identities, inequalities are derived from the table specs: an iteration within another (I within A), disjoint
iterations within the total (H + I within `*`), and one universe within another (people in families within people in
households).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np

from phsafe.configs.config import Config
from phsafe.estimation.fit import CellEstimates
from phsafe.estimation.identities import Identity, identities, universe
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.provable_sums import is_covered
from phsafe.model.conditions import Where
from phsafe.model.levels import TOTAL, Iteration, Level
from phsafe.model.spec import Tabulation


def equalities(measured: Measured, cells: CellEstimates, blocks: Sequence[LevelBlock]) -> list[Identity]:
    """All sums of some measurements whose published counts are equal, shortest first."""
    found = [pair for alike in cells.alike(blocks) for pair in identities(measured, alike)]
    return sorted([*found, *cells.same_people(measured.config, blocks)], key=lambda pair: sum(map(len, pair)))


def smaller_universes(config: Config, cells: CellEstimates, blocks: Sequence[LevelBlock]) -> Iterator[Identity]:
    """Yield (larger, smaller) positions of totals of the same group, where one universe contains the other."""
    for alike in cells.alike(blocks):
        for small, large in permutations(alike, 2):
            same = small.level.key == large.level.key
            if same and nesting(config, small.level, small.tabulation, large.tabulation) > 0:
                yield from zip(large.positions(), small.positions(), strict=True)


def subgroups(blocks: Sequence[LevelBlock]) -> Iterator[Identity]:
    """Yield (larger, smaller) positions, cell by cell, for iterations contained in others in the same region."""
    for small, large in permutations(blocks, 2):
        if small.tabulation is not large.tabulation or small.level.geography != large.level.geography:
            continue
        if small.level.iteration_level.covers:
            continue
        whole = large.level.iteration_level.iterations == (TOTAL,)
        rows = {group: row for row, group in enumerate(large.groups)}
        inner, outer = small.positions(), large.positions()
        by_region: dict[str, list[int]] = {}
        for row, (region, _) in enumerate(small.groups):
            by_region.setdefault(region, []).append(row)
        for region, members in by_region.items():
            if whole:
                yield from zip(outer[rows[region, TOTAL.code]][:, None], inner[members].T, strict=True)
                continue
            for row, inside in zip(members, small.level.iteration_level.iterations, strict=True):
                for around in large.level.iteration_level.iterations:
                    if _is_contained(inside, around):
                        pairs = zip(outer[rows[region, around.code]], inner[row], strict=True)
                        yield from ((np.array([a]), np.array([b])) for a, b in pairs)


def nesting(config: Config, level: Level, one: Tabulation, other: Tabulation) -> int:
    """1 if `one` can't exceed `other` in any group of the level, −1 if `other` can't exceed `one`, otherwise 0."""
    if level.iteration_level.iterations != (TOTAL,) and one.iterate_by != other.iterate_by:
        return 0
    return int(is_within(config, one, other)) - int(is_within(config, other, one))


def is_within(config: Config, small: Tabulation, large: Tabulation) -> bool:
    """Whether the count of `small` can't exceed that of `large` in any household.

    Truncation preserves the order, because min(n, τ) is increasing in n and in τ. Group quarters are never counted,
    so a unit filter without RTYPE is equivalent to one that selects housing units.
    """
    if universe(config, small) == universe(config, large) or small.kind != large.kind or small.beyond is not None:
        return False
    if small.is_truncated and config.sensitivity == "structured":  # Some of its cells may be untruncated.
        return False
    thresholds = [config.tau.get(t.name, 1) for t in (small, large)]
    return (
        thresholds[0] <= thresholds[1]
        and (small.persons or Where()).implies(large.persons or Where())
        and small.units.implies(large.units.on(set(large.units.columns) - {"RTYPE"}))
        and is_covered(small, large)
    )


def _is_contained(inside: Iteration, around: Iteration) -> bool:
    """Whether everyone in one iteration is also in another."""
    races = around.races is None or (inside.races is not None and inside.races <= around.races)
    ethnicities = around.ethnicities is None or (
        inside.ethnicities is not None and inside.ethnicities <= around.ethnicities
    )
    return races and ethnicities
