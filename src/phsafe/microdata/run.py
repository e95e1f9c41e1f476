"""Converting PUMS files: stage, map, check, and only then write, under a name that appears when all is there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl

from phsafe.engines import EngineOptions
from phsafe.errors import DataError, PHSafeError
from phsafe.files import check_absent, new_folder
from phsafe.microdata import checks, mapping
from phsafe.microdata.archive import csv_files
from phsafe.microdata.layout import HOUSING, PERSON, UNIT_CODES
from phsafe.microdata.stage import Staged, stage
from phsafe.progress import Progress, part, silent
from phsafe.readers.duckdb_errors import was_interrupted
from phsafe.schema import LAYOUTS, UNITS
from phsafe.scratch import temporary_folder
from phsafe.synthesis import FORMATS, MARK

MARK_TEXT = (
    "These records are the U.S. Census Bureau's public use microdata (ACS PUMS), converted by phsafe pums; "
    "anyone may see them.\n"
)
_TABLES = {"persons": mapping.PERSONS, "units": mapping.UNITS, "geo": mapping.GEO}
#: What is said of each state.
_SUMMARY = {
    "HOUSEHOLDS": "sum(copies) FILTER (occupied)",
    "PEOPLE_IN_HOUSEHOLDS": "sum(copies * persons) FILTER (occupied)",
    "VACANT_UNITS": "sum(copies) FILTER (NOT quarters AND NOT occupied)",
    "PEOPLE_IN_GROUP_QUARTERS": "sum(copies * persons) FILTER (quarters)",
}


@dataclass(frozen=True)
class Conversion:
    """What `pums` made: the folder, the years of the records, and how many units and people of each state.

    Without housing files tenure and vacant units are not known: then `has_housing` is false and TEN is 0 everywhere.
    """

    folder: Path
    years: tuple[int, ...]
    expanded: bool
    has_housing: bool
    states: pl.DataFrame


def pums(
    out: str | Path,
    files: Sequence[str | Path],
    *,
    expand: bool = False,
    format: str = "parquet",
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> Conversion:
    """Convert ACS PUMS person and housing files (CSV, or the Bureau's zips) to a data folder.

    `files` are of one year from 2018 on, or of the same five years, and of any number of states. Each household stands
    there once, or as often as its weight says with `expand`. Of `options`, DuckDB's threads, memory limit and folder
    for temporary files count. `out` must not exist; it appears only when it is complete. Raises `PHSafeError` with
    every reason.
    """
    out = Path(out)
    if format not in FORMATS:
        raise PHSafeError(f"format: expected one of {', '.join(FORMATS)}, got {format}")
    if not files:
        raise PHSafeError("expected PUMS files to convert, got none")
    check_absent(out)
    found = csv_files([Path(file) for file in files])
    options = options or EngineOptions()
    with _workplace(options) as (folder, database):
        staged = stage(found, folder, part(progress, 0.0, 0.6))
        checks.check_files(staged, expand=expand)
        years = checks.check_years(database, staged)
        progress("matching people and homes", 0.6)
        with_housing = any(file.kind is HOUSING for file in staged)
        _map(database, staged)
        progress("checking", 0.75)
        checks.check_records(database, with_housing=with_housing, expand=expand)
        copies = "weight" if expand else "1"
        first = UNITS["MAFID"].codes[0]
        database.execute(f"CREATE TABLE numbered AS {mapping.NUMBERED.format(copies=copies, first=first)}")
        states = _summary(database)
        with new_folder(out, private=False) as made:
            (made / MARK).write_text(MARK_TEXT, encoding="utf-8")
            _write(database, made, states["STATE"].to_list(), expand, format, part(progress, 0.8, 1.0))
    return Conversion(out, years, expand, with_housing, states)


def _map(database: duckdb.DuckDBPyConnection, staged: Sequence[Staged]) -> None:
    """The tables `people`, `heads`, `members` and `homes`, as they follow from the files."""
    persons = [file for file in staged if file.kind is PERSON]
    housing = [file for file in staged if file.kind is HOUSING]
    person_columns = frozenset.intersection(*(file.columns for file in persons))
    unit_columns = frozenset.intersection(*(file.columns for file in housing)) if housing else frozenset()
    for macro in mapping.MACROS:
        database.execute(macro)
    paths = [str(file.path) for file in persons]
    database.execute(f"CREATE TABLE people AS {mapping.people(person_columns)}", [paths])
    database.execute(f"CREATE TABLE heads AS {mapping.HEADS}")
    if "relship" not in person_columns:
        database.execute(mapping.same_sex())
    database.execute(f"CREATE TABLE members AS {mapping.members()}")
    from_members = "relship" not in person_columns or not unit_columns.issuperset(UNIT_CODES)
    query = mapping.homes(unit_columns, with_housing=bool(housing), from_members=from_members)
    database.execute(f"CREATE TABLE homes AS {query}", [[str(file.path) for file in housing]] if housing else [])


def _summary(database: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    sums = ", ".join(f"coalesce({value}, 0)::BIGINT" for value in _SUMMARY.values())
    rows = database.execute(f"SELECT state, {sums} FROM numbered GROUP BY state ORDER BY state").fetchall()  # noqa: S608
    return pl.DataFrame(rows, {"STATE": pl.String} | dict.fromkeys(_SUMMARY, pl.Int64), orient="row")


def _write(
    database: duckdb.DuckDBPyConnection,
    folder: Path,
    states: Sequence[str],
    expand: bool,
    format: str,
    progress: Progress,
) -> None:
    """A file for each table and state (Parquet), or for each table (CSV), by ascending MAFID."""
    mafid = "mafid + copy" if expand else "mafid"
    for done, layout in enumerate(LAYOUTS):
        if format == "csv":
            progress(f"writing {layout.name}", done / len(LAYOUTS))
            homes = _repeated("numbered", expand)
            _copy(database, _TABLES[layout.name].format(homes=homes, mafid=mafid), folder / f"{layout.name}.csv")
            continue
        (folder / layout.name).mkdir()
        for place, state in enumerate(states):
            progress(f"writing {layout.name}", (done + place / len(states)) / len(LAYOUTS))
            homes = _repeated(f"(SELECT * FROM numbered WHERE state = '{state}')", expand)  # noqa: S608
            query = _TABLES[layout.name].format(homes=homes, mafid=mafid)
            _copy(database, query, folder / layout.name / f"{state}.parquet")


def _repeated(homes: str, expand: bool) -> str:
    if not expand:
        return f"(SELECT * FROM {homes})"  # noqa: S608
    return f"(SELECT *, unnest(range(CAST(copies AS INTEGER)))::INTEGER AS copy FROM {homes})"  # noqa: S608


def _copy(database: duckdb.DuckDBPyConnection, query: str, path: Path) -> None:
    form = "FORMAT csv, HEADER" if path.suffix == ".csv" else "FORMAT parquet, COMPRESSION zstd"
    target = str(path.absolute()).replace("'", "''")
    database.execute(f"COPY ({query}) TO '{target}' ({form})")


@contextlib.contextmanager
def _workplace(options: EngineOptions) -> Iterator[tuple[Path, duckdb.DuckDBPyConnection]]:
    """A folder for its owner only, with a database in it that may be larger than memory; both vanish at the end."""
    scratch = temporary_folder(options.temp_dir)
    settings: dict[str, object] = {"temp_directory": str(scratch.path / "spill")}
    settings |= {} if options.threads is None else {"threads": options.threads}
    settings |= {} if options.memory_limit is None else {"memory_limit": options.memory_limit}
    try:
        with _opened(scratch.path / "work.duckdb", settings) as database:
            yield scratch.path, database
    except duckdb.Error as error:
        raise _in_words(error, scratch.path) from None
    except RuntimeError as error:
        if not was_interrupted(error):
            raise
        raise KeyboardInterrupt from None
    finally:
        scratch.remove()


def _opened(path: Path, settings: dict[str, object]) -> duckdb.DuckDBPyConnection:
    try:
        return duckdb.connect(path, config=settings)
    except duckdb.Error:
        raise PHSafeError(
            "can't open DuckDB with these threads and this memory limit: expected a whole number and a size such as 4GB"
        ) from None


def _in_words(error: duckdb.Error, folder: Path) -> PHSafeError:
    """DuckDB's own words may quote a record."""
    if isinstance(error, duckdb.OutOfMemoryException) or "no space left" in str(error).lower():
        return PHSafeError(
            f"converting ran out of memory or of room in {folder.parent}; raise the memory limit, "
            "name another temp folder, or free some"
        )
    return DataError(f"the files can't be converted ({type(error).__name__})")
