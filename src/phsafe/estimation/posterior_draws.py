"""Joint draws of all published values, from a fixed seed, which reproduce the published intervals.

Counts are drawn from the normal distribution of the fit, which has the exact covariance of all lines. Each line is then
carried over to its own posterior, quantile by quantile: where no bound is near, nothing changes, so lines add up; near
zero, the marginal distribution is the one whose interval is published. (A flat prior on all cells at once would not do:
it moves the totals of many small cells far from their measurements.) Sums of the same people in two tables are equal in
every draw, so draws of the table that knows them less vary differently from its intervals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl
from scipy import sparse, special

from phsafe.errors import PHSafeError
from phsafe.estimation.averages import SEED, carried_over, median
from phsafe.estimation.densities import NORMAL, Array
from phsafe.estimation.fit import NormalDraws
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.named_tables import NAMED_KEY
from phsafe.estimation.published_lines import sum_rows
from phsafe.estimation.table_lines import counted, ratios
from phsafe.model.spec import Table

MAX_DRAWS = 10_000
#: Draws at a time, to bound memory.
BATCH = 64


def check_draws(count: int, method: str = "joint") -> None:
    """Raise PHSafeError if the number of draws is out of range, or the method has no joint draws."""
    if method != "joint":
        raise PHSafeError(f"draws: expected the joint method, because others have no joint draws; got {method}")
    if not 1 <= count <= MAX_DRAWS:
        raise PHSafeError(f"draws: expected a number from 1 to {MAX_DRAWS}, got {count}")


def draws(model: Joint, tables: Mapping[str, pl.DataFrame], count: int) -> Iterator[pl.DataFrame]:
    """Yield frames of joint draws of all lines of the tables, in order."""
    rng = np.random.default_rng(SEED)
    chosen = [table for table in model.measured.config.catalog.tables if table.name in tables]
    keys = {table.name: tables[table.name].select(NAMED_KEY) for table in chosen}
    scale = np.sqrt(model.agreeing.variance(model.lines.sums))
    for first in range(0, count, BATCH):
        size = min(BATCH, count - first)
        cells = model.agreeing.draws(_standard(rng, size))
        found = {}
        for table in chosen:
            lines = _lines(model, table, cells, scale)
            found[table.name] = keys[table.name].join(lines, on=NAMED_KEY, how="left", maintain_order="left")
        for draw in range(size):
            yield pl.concat(
                frame.select(
                    pl.lit(first + draw + 1, pl.Int32).alias("DRAW"), pl.lit(name).alias("TABLE"), *NAMED_KEY,
                    pl.col(str(draw)).alias("VALUE"),
                )
                for name, frame in found.items()
            )  # fmt: skip


def _standard(rng: np.random.Generator, size: int) -> NormalDraws:
    return lambda rows: rng.standard_normal((rows, size))


def _lines(model: Joint, table: Table, cells: Array, scale: Array) -> pl.DataFrame:
    """Draws of all lines of a table, one column per draw, from draws of cells and the deviation of every line."""
    parts = []
    if (tabulation := counted(table)) is not None:
        for block in model.measured.of([tabulation]):
            rows = model.lines.where[tabulation.name, block.level.key]
            sums = model.lines.sums[rows.ravel()]
            center, spread = (sums @ model.agreeing.estimates)[:, None], scale[rows.ravel()][:, None]
            values = center + spread * _restricted((sums @ cells - center) / spread, -center / spread)
            numbers = [line.number for line in table.shell]
            parts.append(_frame(block.level.geography.region_type, block.groups, numbers, values))
    for ratio in ratios(model.measured.config.catalog, table):
        for below in model.measured.of([ratio.denominator]):
            above = model.measured.block(ratio.numerator, below.level)
            if above is None:
                continue
            grid = model.quantiles(ratio, above, below)
            per = sum_rows(list(below.positions(ratio.per)), len(cells))
            for i, (number, line) in enumerate(ratio.lines):
                people = sum_rows(list(above.positions([c for p in line for c in ratio.parts[p]])), len(cells))
                values = _carried(model, people, per, cells, grid[:, i])
                parts.append(_frame(below.level.geography.region_type, below.groups, [number], values))
    return pl.concat(parts)


def _restricted(z: Array, low: Array) -> Array:
    """Carry standard normal draws over to the normal restricted to values above `low`."""
    near = np.broadcast_to(low > -8, z.shape)
    return np.where(near, NORMAL.quantile_between(special.ndtr(z), low)[0], z)


def _carried(model: Joint, people: sparse.csr_array, units: sparse.csr_array, cells: Array, grid: Array) -> Array:
    """Draws of averages: the normal draw of N − r D, carried over to the posterior of N / D by its quantiles."""
    sums = people - units.multiply(median(grid)[:, None]).tocsr()
    center, scale = sums @ model.agreeing.estimates, np.sqrt(model.agreeing.variance(sums))
    standard = (sums @ cells - center[:, None]) / np.maximum(scale, 1e-12)[:, None]
    return np.array([carried_over(row, values) for row, values in zip(standard, grid, strict=True)])


def _frame(region_type: str, groups: Sequence[tuple[str, str]], numbers: Sequence[int], values: Array) -> pl.DataFrame:
    """Name the rows of values, which are ordered by line, then by group."""
    return pl.DataFrame(
        {
            "REGION_TYPE": [region_type] * (len(numbers) * len(groups)),
            "REGION_ID": [region for region, _ in groups] * len(numbers),
            "ITERATION_CODE": [code for _, code in groups] * len(numbers),
            "CELL": pl.Series([number for number in numbers for _ in groups], dtype=pl.Int64),
            **{str(i): column for i, column in enumerate(values.T)},
        }
    )
