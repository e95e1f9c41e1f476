"""Finished tables as people hold them: to look at, to take on in other libraries, to draw, to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from phsafe.config import Config
from phsafe.display import Svg
from phsafe.display.charts import Interval, intervals
from phsafe.display.names import NATION, iteration_names, region_names
from phsafe.display.notebook import estimates_html
from phsafe.display.numbers import texts
from phsafe.errors import OutputError, PHSafeError
from phsafe.folder import Release
from phsafe.frames import Frames
from phsafe.spec import Line, Table

#: Other words for a nation.
NATIONS = ("usa", "united states")
Method = Literal["independent", "joint"]
COLUMNS = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL", "LABEL", "ESTIMATE", "LOWER_90", "UPPER_90")


@dataclass(frozen=True)
class Estimates(Frames):
    """Finished tables: `table("PH3")` is a Polars frame with estimates and 90 % intervals of all shell lines.

    `tables` has all of them by name, `plot` draws one, `write` makes a folder of them. `diagnostics` says how well the
    measurements agree with each other, and which tables were left out and why.
    """

    method: Method
    config: Config = field(repr=False)
    tables: Mapping[str, pl.DataFrame] = field(repr=False)
    diagnostics: Mapping[str, Any] = field(repr=False)
    #: The release that they were made from, where that is known.
    release_id: str = ""

    @classmethod
    def read(cls, folder: str | Path, release: Release | Config) -> Estimates:
        """Finished tables that `phsafe estimate` wrote, of a given release (or config); refused if they aren't."""
        from phsafe.estimation.reading import read  # noqa: PLC0415  (it makes estimates, so it imports this module)

        found = read(Path(folder), release.config if isinstance(release, Release) else release)
        if isinstance(release, Release):
            found.check_made_from(release)
        return found

    def check_made_from(self, release: Release) -> None:
        """Refuse tables that say that they were made from another release."""
        if self.release_id not in ("", release.release_id):
            raise OutputError(
                f"expected tables made from the release {release.release_id:.50}, got those of another one"
            )

    def table(self, name: str, *, region: str | None = None, iteration: str | None = None) -> pl.DataFrame:
        """One finished table, or its rows for a region (a name or code) or a race or ethnicity iteration."""
        if name not in self.tables:
            raise PHSafeError(f"expected one of {', '.join(self.tables)}, got {name!r}")
        frame = self.tables[name]
        if region is not None:
            kind, code = self._region(region)
            frame = frame.filter(REGION_TYPE=kind, REGION_ID=code)
        if iteration is not None:
            frame = frame.filter(ITERATION_CODE=self._iteration(iteration))
        return frame

    def to_polars(self) -> pl.DataFrame:
        """All tables in one frame, with the name of its table before each row; every value is a float."""
        values = pl.col("ESTIMATE", "LOWER_90", "UPPER_90").cast(pl.Float64)
        return pl.concat(
            frame.select(pl.lit(name).alias("TABLE"), pl.exclude(COLUMNS[5:]), values)
            for name, frame in self.tables.items()
        )

    def plot(self, name: str, *, region: str | None = None, iteration: str = "*", line: int | None = None) -> Svg:
        """A chart with intervals: all lines of a table for one region, or one line of it for every region.

        Give a region (a name or code), or a line of the shell (default: the first, the total).
        """
        spec = next((table for table in self.config.catalog.tables if table.name == name), None)
        if region is not None and line is not None:
            raise PHSafeError("expected a region (all its lines) or a line (all regions), got both")
        frame = self.table(name, region=region, iteration=iteration)
        assert spec is not None
        if frame.is_empty():
            raise PHSafeError(f"{name} is not published for this region and iteration {iteration!r}")
        who = iteration_names(self.config)[self._iteration(iteration)]
        if region is not None:
            title = f"{name} {spec.title}"
            where = region_names(self.config)[self._region(region)]
            rows = [_row(spec, row, shown.label, shown.indent) for shown, row in _by_line(spec, frame)]
            return intervals(title, f"{where}: {who}, with 90 % intervals", rows)
        number = spec.shell[0].number if line is None else line
        chosen = next((shown for shown in spec.shell if shown.number == number), None)
        if chosen is None:
            raise PHSafeError(f"line: expected one of {len(spec.shell)} lines of {name}, got {line}")
        names = region_names(self.config)
        parts = frame.filter(CELL=number).iter_rows(named=True)
        rows = [_row(spec, row, names[row["REGION_TYPE"], row["REGION_ID"]]) for row in parts]
        if len({row["REGION_TYPE"] for row in frame.iter_rows(named=True)}) > 1 and spec.average is None:
            # A nation's count would flatten every state's.
            rows = rows[1:]
        rows.sort(key=lambda row: -row.estimate)
        title = f"{name} {spec.title}: {chosen.label.rstrip(':')}"
        return intervals(title, f"{who}, with 90 % intervals", rows, from_zero=spec.average is None)

    def write(self, out: str | Path, format: str = "csv") -> Path:
        """Write all tables, one workbook of them, and the diagnostics to a new folder: whole, or not at all."""
        from phsafe.estimation.output import write  # noqa: PLC0415  (the workbook's library is slow to load)

        return write(self, Path(out), format)

    def _repr_html_(self) -> str:
        return estimates_html(self)

    def _region(self, region: str) -> tuple[str, str]:
        """The key of a region, by its name, its code or (a nation) its type."""
        wanted = region.casefold()
        for key, name in region_names(self.config).items():
            if wanted in (name.casefold(), key[1].casefold()) or (key == NATION and wanted in NATIONS):
                return key
        known = ", ".join(list(region_names(self.config).values())[:5])
        raise PHSafeError(f"region: expected a name or code, such as {known}, got {region!r}")

    def _iteration(self, iteration: str) -> str:
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
