"""Finished tables as a Python object with methods to look up, compare, draw, convert, plot, cite and write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.names import find_iteration, find_region
from phsafe.display import Svg
from phsafe.display.frames import Frames
from phsafe.display.notebook import estimates_html
from phsafe.errors import OutputError, PHSafeError, did_you_mean
from phsafe.estimation.combinations import Combination, Difference, combine, compared
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.named_tables import NAMED_COLUMNS, NAMED_KEY, named
from phsafe.estimation.posterior_draws import check_draws, draws
from phsafe.model.spec import Table
from phsafe.releases.release_folder import Release
from phsafe.system.public_calls import checked

Method = Literal["independent", "joint"]
Target = Literal["everybody", "truncated"]
STD_ERROR = "STD_ERROR"
VALUES = ("ESTIMATE", "LOWER_90", "UPPER_90", STD_ERROR)
#: The columns of `Estimates.table` that a printed frame shows: Polars shows the first and last four.
PRINTED_FIRST = ("REGION", "RACE_ETHNICITY", "CELL", "LABEL")
PRINTED_LAST = ("ESTIMATE", "LOWER_90", "UPPER_90", "NOTE")
COLUMNS = (*NAMED_KEY, "LABEL", *VALUES)


@dataclass(frozen=True)
class Estimates(Frames):
    """Finished tables: an estimate and a 90 % interval for every line of every table shell.

    `phsafe.estimate` returns one. `table` returns a table with names; `tables` holds them as they are in files, with
    the columns REGION_TYPE, REGION_ID, ITERATION_CODE, CELL (the line number), LABEL, ESTIMATE, LOWER_90, UPPER_90 and
    STD_ERROR.

    Attributes:
        method: The estimation method, "joint" or "independent".
        config: The config of the release.
        tables: The finished tables as Polars frames, by name.
        diagnostics: How well the measurements agree with each other, and which tables were left out and why.
        release_id: The id of the release that the tables were estimated from; empty if unknown.
        model: The fit behind the tables, for `interval`, `compare` and `draws`; None for tables that were read from
            files and for the independent method.

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
    def read(cls, folder: str | Path, release: Release | Config | str | Path) -> Estimates:
        """Read finished tables that `phsafe estimate` or `Estimates.write` wrote.

        Args:
            folder: The folder with the tables and `diagnostics.json`.
            release: The release that the tables were estimated from, the path of its folder, or its config.

        Returns:
            The finished tables.

        Raises:
            PHSafeError: If the folder can't be read, or its tables don't belong to the release.

        Example:
            >>> folder = estimates.write(home / "tables")
            >>> Estimates.read(folder, release).table("PH3").equals(estimates.table("PH3"))
            True
            >>> Estimates.read(folder, release.path).release_id == release.release_id
            True
        """
        from phsafe.estimation.read_estimates import read  # noqa: PLC0415  (imports this module)

        if isinstance(release, str | Path):
            release = Release.open(release)
        if isinstance(release, Release):
            return read(Path(folder), release.config, release.release_id)
        return read(Path(folder), release)

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

    @checked
    def table(self, name: str, region: str | int | None = None, iteration: str | None = None) -> pl.DataFrame:
        """Return a finished table with names, or its rows for one region or iteration.

        Args:
            name: The name of the table, such as "PH3", in upper or lower case.
            region: A region: its name ("Wyoming"), postal code ("WY") or FIPS code ("56" or 56), or "US" for the
                nation. The default is all regions.
            iteration: The code or label of a race or ethnicity iteration, such as "A", or how only its label begins,
                such as "Asian". The default is all iterations.

        Returns:
            One row per region, iteration and line, with REGION and RACE_ETHNICITY, the names of the region and of the
            iteration, and NOTE, which is empty unless the interval is wider than the estimate. Codes and standard
            errors are in the middle, because Polars leaves the middle out where it prints a frame of many columns.

        Raises:
            PHSafeError: If the table, region or iteration doesn't exist, or the table isn't published for them.

        Example:
            >>> frame = estimates.table("ph2", "RI")
            >>> frame["REGION"][0], frame["LABEL"].head(2).to_list()
            ('Rhode Island', ['Total:', 'In married couple household:'])
        """
        frame = self.tables[self.spec(name).name]
        if region is not None:
            region_type, code = find_region(self.config, region)
            frame = frame.filter(REGION_TYPE=region_type, REGION_ID=code)
        if iteration is not None:
            frame = frame.filter(ITERATION_CODE=find_iteration(self.config, iteration))
        if frame.is_empty():
            raise PHSafeError(f"{self.spec(name).name} is not published for this region and iteration")
        return named(self.config, frame).select(
            *PRINTED_FIRST, pl.exclude(*PRINTED_FIRST, *PRINTED_LAST), *PRINTED_LAST
        )

    def spec(self, name: str) -> Table:
        """Return the specification of a table: its title, universe and lines.

        Args:
            name: The name of the table, in upper or lower case.

        Returns:
            The specification.

        Raises:
            PHSafeError: If there is no such table.

        Example:
            >>> estimates.spec("ph3").universe
            'Population in households under 18 years'
        """
        for table in self.config.catalog.tables:
            if table.name in self.tables and table.name.casefold() == name.strip().casefold():
                return table
        for left_out, reason in self.diagnostics["left_out"].items():
            if left_out.casefold() == name.strip().casefold():
                raise PHSafeError(f"{left_out}: {reason}")
        hint = did_you_mean(name, self.tables)
        raise PHSafeError(f"expected one of {', '.join(self.tables)}, got {name!r:.60}{hint}")

    @checked
    def interval(self, expression: str) -> Combination:
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
            >>> estimates.interval("PH2[RI, 2] + PH2[RI, 5]").expression
            'PH2[RI, 2] + PH2[RI, 5]'
        """
        return combine(self, self._model("combine"), expression)

    #: The earlier name of `interval`, which scripts use.
    combine = interval

    @checked
    def compare(self, first: str, second: str) -> Difference:
        """Compare two published cells, or expressions of cells: their difference, and whether it is more than noise.

        Args:
            first: A cell or an expression as for `interval`, such as ``PH1[WY, 1]``.
            second: What to subtract from it, such as ``PH1[RI, 1]``.

        Returns:
            The difference with its 90 % interval; `Difference.verdict` says which of the two is larger, if that can be
            told.

        Raises:
            PHSafeError: As for `interval`.

        Example:
            >>> difference = estimates.compare("PH2[RI, 2]", "PH2[RI, 5]")
            >>> difference.expression, difference.is_more_than_noise in (True, False)
            ('PH2[RI, 2] - PH2[RI, 5]', True)
        """
        return compared(self, self._model("compare"), first, second)

    @checked
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
        check_draws(count)
        return pl.concat(draws(self._model("draw from"), self.tables, count))

    def _model(self, purpose: str) -> Joint:
        if self.model is None:
            raise PHSafeError(
                f"expected tables just estimated by the joint method to {purpose}, got others; call "
                "phsafe.estimate(release), which is joint unless you choose another method"
            )
        return self.model

    def to_polars(self) -> pl.DataFrame:
        """Return all tables in one frame, with the name of the table in a first column, TABLE.

        Returns:
            The rows of all tables, with names as in `table`. Estimates and bounds are floats, for counts as well.

        Example:
            >>> estimates.to_polars().columns[:5]
            ['TABLE', 'REGION_TYPE', 'REGION_ID', 'REGION', 'ITERATION_CODE']
        """
        return pl.concat(
            named(self.config, frame).select(pl.lit(name).alias("TABLE"), pl.all().exclude(VALUES), *_floats())
            for name, frame in self.tables.items()
        ).select("TABLE", *(column.name for column in NAMED_COLUMNS))

    @checked
    def plot(self, name: str, *, region: str | int | None = None, iteration: str = "*", line: int | None = None) -> Svg:
        """Plot a table with its intervals: all lines for one region, or one line for all regions.

        Needs Matplotlib, which comes with ``pip install 'phsafe[plot]'``.

        Args:
            name: The name of the table, such as "PH3".
            region: A region as for `table`, to plot all lines of the table for it.
            iteration: The code or label of a race or ethnicity iteration. The default is everyone.
            line: The number of a line, to plot it for all regions. The default is the first line, the total.

        Returns:
            A chart that notebooks display; `Svg.write` saves it as SVG, PNG or PDF, and `Svg.figure` is the Matplotlib
            figure.

        Raises:
            PHSafeError: If the table, region, iteration or line doesn't exist, both a region and a line are given, or
                Matplotlib isn't installed.

        Example:
            >>> estimates.plot("PH3", region="Rhode Island").title  # doctest: +ELLIPSIS
            'PH3 ... Rhode Island: Total population, with 90 % intervals'
        """
        from phsafe.estimation import estimate_plots  # noqa: PLC0415  (needed for charts only)

        spec = self.spec(name)
        if region is not None and line is not None:
            raise PHSafeError("expected a region (for all lines) or a line (for all regions), got both")
        if region is not None:
            return estimate_plots.lines_of_region(self, spec, region, iteration)
        return estimate_plots.regions_of_line(self, spec, line, iteration)

    def cite(self) -> str:
        """How to cite the tables: as the config's `publication` says, or composed of what it has.

        Returns:
            The citation, with the id of the release.

        Example:
            >>> estimates.cite()  # doctest: +ELLIPSIS
            'Tables about people in their households. Release ...'
        """
        from phsafe.estimation.tables_folder import product_title  # noqa: PLC0415  (needed for files only)

        return self.config.publication.cite(product_title(self.config), self.release_id)

    @checked
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


def _floats() -> list[pl.Expr]:
    return [pl.col(name).cast(pl.Float64) for name in VALUES]
