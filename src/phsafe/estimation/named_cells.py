"""Cells that expressions name: found in finished tables, and the counts behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.names import find_iteration, find_region
from phsafe.errors import PHSafeError, Reasons
from phsafe.estimation.expression_draws import PublishedAverage
from phsafe.estimation.expressions import CellName
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.measurement_vector import Positions
from phsafe.estimation.quotients import Linear, Quotient
from phsafe.estimation.table_lines import basis, counted, ratios
from phsafe.model.levels import Level
from phsafe.model.spec import Table

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates


@dataclass(frozen=True)
class Named:
    """A cell of a finished table: where it is, and its published values."""

    table: Table
    level: Level
    group: tuple[str, str]
    line: int
    published: tuple[float, float, float, float]


def find_cell(estimates: Estimates, cell: CellName) -> Named:
    """Find a cell of an expression in finished tables."""
    config = estimates.config
    reasons = Reasons()
    spec = reasons.check(estimates.spec, cell.table)
    region = reasons.check(find_region, config, cell.region)
    iteration = reasons.check(find_iteration, config, cell.iteration)
    try:
        reasons.settle()
    except PHSafeError as problem:
        raise PHSafeError([f"{cell}: {reason}" for reason in problem.reasons]) from None
    assert spec is not None and region is not None and iteration is not None
    frame = estimates.tables[spec.name].filter(REGION_TYPE=region[0], REGION_ID=region[1], ITERATION_CODE=iteration)
    if frame.is_empty():
        raise PHSafeError(f"{cell}: {spec.name} is not published for this region and iteration")
    row = frame.filter(pl.col("CELL").cast(pl.String) == cell.line)
    if row.is_empty():
        lines = f"{len(frame)} lines of {spec.name}"
        raise PHSafeError(f"{cell}: expected the number of one of the {lines}, got {cell.line}")
    estimate, lower, upper, error = row.select("ESTIMATE", "LOWER_90", "UPPER_90", "STD_ERROR").row(0)
    published = (float(estimate), float(lower), float(upper), float(error))
    return Named(spec, level_of(config, region[0], iteration), (region[1], iteration), int(cell.line), published)


def level_of(config: Config, kind: str, iteration: str) -> Level:
    """The level of an iteration in regions of a kind, such as STATE."""
    return next(
        level
        for level in config.catalog.levels
        if level.geography.region_type == kind and iteration in [i.code for i in level.iteration_level.iterations]
    )


def quotient_of(model: Joint, cell: Named) -> Quotient:
    """The quotient of counts that a cell shows."""
    return Quotient(*(Linear.of(positions.tolist()) for positions in positions_of(model, cell)))


def positions_of(model: Joint, cell: Named) -> list[Positions]:
    """The positions that a cell sums: of its count, or of its numerator and denominator."""
    config = model.measured.config
    if (tabulation := counted(cell.table)) is not None:
        return [_group(model, tabulation.name, cell, basis(config.catalog, cell.table, tabulation, cell.line))]
    for ratio in ratios(config.catalog, cell.table):
        for number, parts in ratio.lines:
            if number == cell.line:
                people = [c for part in parts for c in ratio.parts[part]]
                return [
                    _group(model, ratio.numerator.name, cell, people),
                    _group(model, ratio.denominator.name, cell, ratio.per),
                ]
    raise AssertionError(cell.line)


def _group(model: Joint, tabulation: str, cell: Named, cells: Sequence[int]) -> Positions:
    block = model.measured.blocks[tabulation, cell.level.key]
    positions: Positions = block.positions(cells)[block.groups.index(cell.group)]
    return positions


def published_average(model: Joint, cell: Named) -> PublishedAverage:
    """The posterior of a cell that shows an average."""
    ratio = next(r for r in ratios(model.measured.config.catalog, cell.table) if cell.line in dict(r.lines))
    above, below = (model.measured.blocks[t.name, cell.level.key] for t in (ratio.numerator, ratio.denominator))
    bounds, line = model.bounds(ratio, above), dict(ratio.lines)[cell.line]
    of_line = list(dict(ratio.lines)).index(cell.line)
    quantiles = model.quantiles(ratio, above, below)[below.groups.index(cell.group), of_line]
    return PublishedAverage((bounds.at_least if len(line) == len(ratio.parts) else 0, bounds.tau), quantiles)
