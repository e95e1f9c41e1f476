"""Finished tables as a Python object with methods to look up, convert, plot and write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.names import NATION, iteration_names, region_names
from phsafe.display import Svg
from phsafe.display.charts import Interval, intervals
from phsafe.display.frames import Frames
from phsafe.display.notebook import estimates_html
from phsafe.display.numbers import texts
from phsafe.errors import OutputError, PHSafeError
from phsafe.model.schema import POSTAL_CODES
from phsafe.model.spec import Line, Table
from phsafe.releases.release_folder import Release

if TYPE_CHECKING:
    from phsafe.estimation.combinations import Combination
    from phsafe.estimation.joint_model import Joint

#: Other names for the nation.
NATION_ALIASES = ("us", "usa", "united states")
Method = Literal["independent", "joint"]
Target = Literal["everybody", "truncated"]
STD_ERROR = "STD_ERROR"
VALUES = ("ESTIMATE", "LOWER_90", "UPPER_90", STD_ERROR)
COLUMNS = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL", "LABEL", *VALUES)


@dataclass(frozen=True)
class Estimates(Frames):
    """Finished tables: an estimate and a 90 % interval for every line of every table shell.

    `phsafe.estimate` returns one. Every table has the columns REGION_TYPE, REGION_ID, ITERATION_CODE, CELL (the line
    number), LABEL, ESTIMATE, LOWER_90, UPPER_90 and STD_ERROR.

    Attributes:
        method: The estimation method, "joint" or "independent".
        config: The config of the release.
        tables: The finished tables as Polars frames, by name.
        diagnostics: How well the measurements agree with each other, and which tables were left out and why.
        release_id: The id of the release that the tables were estimated from; empty if unknown.
        model: The fit behind the tables, for `combine` and `draws`; None for tables that were read from files and for
            the independent method.

    Example:
        >>> estimates  # doctest: +ELLIPSIS
        Estimates(method='joint', release_id='...')
        >>> list(estimates.tables)
        ['PH1', 'PH2', 'PH3', 'PH4', 'PH5', 'PH6']
    """

    method: Method
    config: Config = field(repr=False)
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    diagnostics: Mapping[str, Any] = field(repr=False)
    release_id: str = ""
    model: Joint | None = field(default=None, repr=False, compare=False)

    @classmethod
    def read(cls, folder: str | Path, release: Release | Config) -> Estimates:
        """Read finished tables that `phsafe estimate` or `Estimates.write` wrote.

        Args:
            folder: The folder with the tables and `diagnostics.json`.
            release: The release that the tables were estimated from, or its config.

        Returns:
            The finished tables.

        Raises:
            PHSafeError: If the folder can't be read, or its tables don't belong to the release.

        Example:
            >>> folder = estimates.write(home / "tables")
            >>> Estimates.read(folder, release).table("PH3").equals(estimates.table("PH3"))
            True
        """
        from phsafe.estimation.read_estimates import read  # noqa: PLC0415  (imports this module)

        found = read(Path(folder), release.config if isinstance(release, Release) else release)
        if isinstance(release, Release):
            found.check_made_from(release)
        return found

    def check_made_from(self, release: Release) -> None:
        """Check that the tables were estimated from a given release.

        Tables without a release id pass.

        Args:
            release: The expected release.

        Raises:
            OutputError: If the tables carry the id of another release.

        Example:
            >>> estimates.check_made_from(release)
        """
        if self.release_id not in ("", release.release_id):
            raise OutputError(
                f"expected tables estimated from release {release.release_id:.50}, got tables from another release"
            )

    def table(self, name: str, *, region: str | None = None, iteration: str | None = None) -> pl.DataFrame:
        """Return a finished table, or its rows for one region or iteration.

        Args:
            name: The name of the table, such as "PH3".
            region: The name or code of a region, in upper or lower case. The default is all regions.
            iteration: The code or label of a race or ethnicity iteration, such as "A". The default is all iterations.

        Returns:
            One row per region, iteration and line.

        Raises:
            PHSafeError: If the table, region or iteration doesn't exist.

        Example:
            >>> frame = estimates.table("PH2", region="Rhode Island")
            >>> frame["LABEL"].head(2).to_list()
            ['Total:', 'In married couple household:']
        """
        if name not in self.tables:
            raise PHSafeError(f"expected one of {', '.join(self.tables)}, got {name!r}")
        frame = self.tables[name]
        if region is not None:
            region_type, code = self.region_key(region)
            frame = frame.filter(REGION_TYPE=region_type, REGION_ID=code)
        if iteration is not None:
            frame = frame.filter(ITERATION_CODE=self.iteration_code(iteration))
        return frame

    def combine(self, expression: str) -> Combination:
        """Estimate a sum, difference or ratio of published cells, with the exact covariance of their errors.

        Args:
            expression: Cells, numbers, ``+ - * /`` and parentheses. A cell is ``TABLE[region, iteration, line]``, such
                as ``PH3[WY, *, 2]``; without an iteration it is for everyone. Regions are names, FIPS codes or postal
                codes.

        Returns:
            The estimate, its 90 % interval and its standard error.

        Raises:
            PHSafeError: If the expression can't be parsed, a cell doesn't exist, or a denominator can't be
                distinguished from zero.

        Example:
            >>> estimates.combine("PH2[RI, 2] / PH2[RI, 1]").expression
            'PH2[RI, 2] / PH2[RI, 1]'
        """
        from phsafe.estimation.combinations import combine  # noqa: PLC0415  (imports this module)

        return combine(self, self._model("combine"), expression)

    def draws(self, count: int) -> pl.DataFrame:
        """Draw all published values jointly, from a distribution that reproduces the published intervals.

        The same release always gives the same draws.

        Args:
            count: The number of draws.

        Returns:
            One row per draw and line: DRAW, TABLE, REGION_TYPE, REGION_ID, ITERATION_CODE, CELL and VALUE.

        Raises:
            PHSafeError: If the number is not from 1 to 10,000.

        Example:
            >>> estimates.draws(2).columns
            ['DRAW', 'TABLE', 'REGION_TYPE', 'REGION_ID', 'ITERATION_CODE', 'CELL', 'VALUE']
        """
        from phsafe.estimation.posterior_draws import check_draws, draws  # noqa: PLC0415

        check_draws(count)
        return pl.concat(draws(self._model("draw from"), self.tables, count))

    def _model(self, purpose: str) -> Joint:
        if self.model is None:
            raise PHSafeError(
                f"expected tables just estimated by the joint method to {purpose}, got others; call phsafe.estimate"
            )
        return self.model

    def to_polars(self) -> pl.DataFrame:
        """Return all tables in one frame, with the name of the table in a first column, TABLE.

        Returns:
            The rows of all tables. Estimates and bounds are floats, for counts as well.

        Example:
            >>> estimates.to_polars().columns[:4]
            ['TABLE', 'REGION_TYPE', 'REGION_ID', 'ITERATION_CODE']
        """
        return pl.concat(
            frame.select(pl.lit(name).alias("TABLE"), pl.exclude(VALUES), pl.col(VALUES).cast(pl.Float64))
            for name, frame in self.tables.items()
        )

    def plot(self, name: str, *, region: str | None = None, iteration: str = "*", line: int | None = None) -> Svg:
        """Plot a table with its intervals: all lines for one region, or one line for all regions.

        Args:
            name: The name of the table, such as "PH3".
            region: The name or code of a region, to plot all lines of the table for it.
            iteration: The code or label of a race or ethnicity iteration. The default is everyone.
            line: The number of a line, to plot it for all regions. The default is the first line, the total.

        Returns:
            A chart that notebooks display; `Svg.write` saves it to a file.

        Raises:
            PHSafeError: If the table, region, iteration or line doesn't exist, or both a region and a line are given.

        Example:
            >>> estimates.plot("PH3", region="Rhode Island").title  # doctest: +ELLIPSIS
            'PH3 ... Rhode Island: Total population, with 90 % intervals'
        """
        spec = next((table for table in self.config.catalog.tables if table.name == name), None)
        if region is not None and line is not None:
            raise PHSafeError("expected a region (for all lines) or a line (for all regions), got both")
        frame = self.table(name, region=region, iteration=iteration)
        assert spec is not None
        if frame.is_empty():
            raise PHSafeError(f"{name} is not published for this region and iteration {iteration!r}")
        who = iteration_names(self.config)[self.iteration_code(iteration)]
        if region is not None:
            title = f"{name} {spec.title}"
            where = region_names(self.config)[self.region_key(region)]
            rows = [_row(spec, row, shown.label, shown.indent) for shown, row in _by_line(spec, frame)]
            return intervals(title, f"{where}: {who}, with 90 % intervals", rows)
        number = spec.shell[0].number if line is None else line
        chosen = next((shown for shown in spec.shell if shown.number == number), None)
        if chosen is None:
            raise PHSafeError(f"line: expected the number of one of the {len(spec.shell)} lines of {name}, got {line}")
        names = region_names(self.config)
        parts = frame.filter(CELL=number).iter_rows(named=True)
        rows = [_row(spec, row, names[row["REGION_TYPE"], row["REGION_ID"]]) for row in parts]
        if len({row["REGION_TYPE"] for row in frame.iter_rows(named=True)}) > 1 and spec.average is None:
            # On a scale that fits the nation, the states would be invisible.
            rows = rows[1:]
        rows.sort(key=lambda row: -row.estimate)
        title = f"{name} {spec.title}: {chosen.label.rstrip(':')}"
        return intervals(title, f"{who}, with 90 % intervals", rows, from_zero=spec.average is None)

    def write(self, out: str | Path, format: str = "csv", draws: int = 0, *, sdmx: bool = False) -> Path:
        """Write the tables, the same with names (`tables/`), a workbook and the diagnostics to a new folder.

        The write is atomic: the folder appears only once it is complete.

        Args:
            out: The folder to create.
            format: The file format of the tables, "csv" or "parquet".
            draws: The number of joint draws to write to `draws.parquet` (see `draws`). The default is none.
            sdmx: Also write each table as SDMX-CSV, to the folder `sdmx`.

        Returns:
            The path of the folder.

        Raises:
            PHSafeError: If the folder already exists or can't be written, or the format is unknown.

        Example:
            >>> folder = estimates.write(home / "parquet", format="parquet")
            >>> sorted(path.name for path in folder.iterdir())[:3]
            ['PH1.parquet', 'PH2.parquet', 'PH3.parquet']
        """
        from phsafe.estimation.estimates_output import write  # noqa: PLC0415  (the workbook library is slow to load)

        return write(self, Path(out), format, draws, sdmx=sdmx)

    def _repr_html_(self) -> str:
        return estimates_html(self)

    def region_key(self, region: str) -> tuple[str, str]:
        """Return (region type, code) of a region.

        Args:
            region: Its name, its code, its postal code, or an alias of the nation.

        Returns:
            The region type and the region code.

        Raises:
            PHSafeError: If there is no such region.

        Example:
            >>> estimates.region_key("RI")
            ('STATE', '44')
        """
        wanted = region.casefold()
        for key, name in region_names(self.config).items():
            if wanted in (name.casefold(), key[1].casefold()) or (key == NATION and wanted in NATION_ALIASES):
                return key
            if POSTAL_CODES.get(region.upper()) == key[1]:
                return key
        known = ", ".join(list(region_names(self.config).values())[:5])
        raise PHSafeError(f"region: expected a name or code, such as {known}, got {region!r}")

    def iteration_code(self, iteration: str) -> str:
        """Return the code of a race or ethnicity iteration.

        Args:
            iteration: Its code or label.

        Returns:
            The code.

        Raises:
            PHSafeError: If there is no such iteration.

        Example:
            >>> estimates.iteration_code("Asian alone")
            'D'
        """
        for code, label in iteration_names(self.config).items():
            if iteration.casefold() in (code.casefold(), label.casefold()):
                return code
        raise PHSafeError(
            f"iteration: expected one of {', '.join(iteration_names(self.config))} or its label, got {iteration!r}"
        )


def _by_line(spec: Table, frame: pl.DataFrame) -> list[tuple[Line, dict[str, Any]]]:
    rows = {row["CELL"]: row for row in frame.iter_rows(named=True)}
    return [(line, rows[line.number]) for line in spec.shell if line.number in rows]


def _row(table: Table, row: Mapping[str, Any], label: str, indent: int = 0) -> Interval:
    cell = (row["ESTIMATE"], row["LOWER_90"], row["UPPER_90"])
    estimate, interval = texts(cell, table)
    return Interval(label, *cell, f"{estimate}  ({interval})", indent)
