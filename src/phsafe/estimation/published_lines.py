"""The published lines of all count tables as sums of measured cells: what point estimates and intervals refer to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from phsafe.estimation.densities import Array
from phsafe.estimation.measurement_vector import LevelBlock, Measured, Positions
from phsafe.estimation.table_lines import basis, counted
from phsafe.model.levels import TOTAL

#: The weight of a sum that no table shows, relative to one that a table shows.
UNPUBLISHED = 0.5


@dataclass(frozen=True)
class PublishedLines:
    """Sums of measured cells, one row each: the lines of every count table, then sums over regions and iterations.

    Attributes:
        sums: The matrix of the sums.
        where: (tabulation, level) → its rows, lines × groups.
        weights: The weight of each row in the distance from the fit: √n for a line that adds up n regions, less for a
            sum that no table shows.
        blocks: The measurements that count tables show.
    """

    sums: sparse.csr_array = field(repr=False)
    where: Mapping[tuple[str, str], Positions] = field(repr=False)
    weights: Array = field(repr=False)
    blocks: Sequence[LevelBlock] = field(repr=False)


def published_lines(measured: Measured) -> PublishedLines:
    """Collect the lines of all count tables at all levels, and the sums over regions that no level publishes."""
    tables = {tabulation: table for table in measured.config.catalog.tables if (tabulation := counted(table))}
    blocks = measured.of(list(tables))
    rows: list[Positions] = []
    weights: list[float] = []
    where: dict[tuple[str, str], Positions] = {}
    for block in blocks:
        table = tables[block.tabulation]
        lines = [basis(measured.config.catalog, table, block.tabulation, line.number) for line in table.shell]
        first = len(rows)
        within = _regions_within(block, blocks)
        for cells in lines:
            rows += list(block.positions(cells))
            weights += [np.sqrt(within[region]) for region, _ in block.groups]
        shape = (len(lines), len(block.groups))
        where[block.tabulation.name, block.level.key] = first + np.arange(np.prod(shape)).reshape(shape)
        for members in _unpublished_sums(block, blocks):
            regions = len({block.groups[i][0] for i in members})
            for cells in lines:
                rows.append(block.positions(cells)[members].ravel())
                weights.append(UNPUBLISHED * np.sqrt(regions))
    return PublishedLines(sum_rows(rows, len(measured.counts)), where, np.array(weights), blocks)


def sum_rows(rows: Sequence[Positions], columns: int) -> sparse.csr_array:
    """A sparse matrix whose rows add up the given positions."""
    ends = np.cumsum([0, *map(len, rows)])
    indices = np.concatenate([np.empty(0, np.int64), *rows])
    return sparse.csr_array((np.ones(len(indices)), indices, ends), shape=(len(rows), columns))


def _regions_within(block: LevelBlock, blocks: Sequence[LevelBlock]) -> dict[str, int]:
    """How many regions of the finest published level of the same tabulation make up each region of a block."""
    width = block.level.geography.width
    found = dict.fromkeys((region for region, _ in block.groups), 1)
    for other in blocks:
        if other.tabulation is block.tabulation and other.level.geography.width > width:
            inside = Counter(region[:width] for region in {region for region, _ in other.groups})
            found = {region: max(n, inside[region if width else ""]) for region, n in found.items()}
    return found


def _unpublished_sums(block: LevelBlock, blocks: Sequence[LevelBlock]) -> Iterator[list[int]]:
    """Yield the rows of sums of a block that aren't published: over all regions, and over all iterations of a region.

    Without them, small groups raised to zero would bias a sum that no line of the objective holds.
    """
    level, groups = block.level, block.groups
    peers = [other.level for other in blocks if other.tabulation is block.tabulation and other is not block]
    if len(level.geography.within([g[0][:2] for g in groups])) > 1 and not any(
        peer.geography.width < level.geography.width and peer.iteration_level == level.iteration_level for peer in peers
    ):
        for iteration in level.iteration_level.iterations:
            yield [i for i, (_, code) in enumerate(groups) if code == iteration.code]
    totals = [peer for peer in peers if peer.geography == level.geography and peer.iteration_level.is_total]
    if level.iteration_level.covers and level.iteration_level.iterations != (TOTAL,) and not totals:
        for region in dict.fromkeys(region for region, _ in groups):
            yield [i for i, (r, _) in enumerate(groups) if r == region]
