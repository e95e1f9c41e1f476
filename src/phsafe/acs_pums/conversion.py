"""Convert PUMS files: stage, map and check records, repeat them by weight on request, write the folder atomically."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl

from phsafe.acs_pums import code_mapping, pums_checks
from phsafe.acs_pums.pums_archive import csv_files
from phsafe.acs_pums.pums_columns import HOUSING, PERSON, UNIT_CODES
from phsafe.acs_pums.staging import Staged, stage
from phsafe.engines import EngineOptions
from phsafe.errors import DataError, PHSafeError
from phsafe.model.schema import LAYOUTS, UNITS
from phsafe.readers.duckdb_errors import was_interrupted
from phsafe.synthetic import FORMATS, MARK
from phsafe.system.atomic_writes import check_new_folder, new_folder
from phsafe.system.progress import Progress, part, silent
from phsafe.system.scratch import temporary_folder

MARK_TEXT = (
    "These records are the U.S. Census Bureau's public use microdata (ACS PUMS), converted by phsafe pums; "
    "anyone may see them.\n"
)
_TABLES = {"persons": code_mapping.PERSONS, "units": code_mapping.UNITS, "geo": code_mapping.GEO}
#: The summary columns for each state.
_SUMMARY = {
    "HOUSEHOLDS": "sum(copies) FILTER (occupied)",
    "PEOPLE_IN_HOUSEHOLDS": "sum(copies * persons) FILTER (occupied)",
    "VACANT_UNITS": "sum(copies) FILTER (NOT quarters AND NOT occupied)",
    "PEOPLE_IN_GROUP_QUARTERS": "sum(copies * persons) FILTER (quarters)",
}


@dataclass(frozen=True)
class Conversion:
    """The result of `pums`.

    Attributes:
        folder: The new data folder.
        years: The survey years of the records: one, or five in a row.
        expanded: Whether households were repeated by their weights.
        has_housing: Whether housing files were given. Without them, tenure and vacant units are unknown and TEN is 0
            everywhere.
        states: Numbers of households, vacant units and people, one row for each state.

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
    r"""Convert ACS PUMS person and housing files to a data folder.

    The folder is written atomically: it appears only when it is complete.

    Args:
        out: The folder to create; it must not exist yet.
        files: Person files and, optionally, housing files: CSV files, or zips as the Census Bureau publishes them. All
            must cover the same single year (2018 or later) or the same five years; any number of states.
        expand: Repeat each household by its survey weight, which gives a full population. By default each sampled
            household appears once.
        format: "parquet" (one file for each table and state) or "csv" (one file for each table).
        options: DuckDB's threads and memory limit, and the folder for temporary files; other options are ignored.
        progress: Called with the current stage and the share of the work that is done.

    Returns:
        The folder with a summary of its content.

    Raises:
        PHSafeError: The files, an argument or the output folder can't be used; lists every reason.

    Example:
        >>> import tempfile
        >>> parent = tempfile.TemporaryDirectory()
        >>> file = Path(parent.name, "psam_p44.csv")
        >>> flags = "RACWHT,RACBLK,RACAIAN,RACASN,RACNH,RACPI,RACSOR"
        >>> header = f"SERIALNO,ST,SPORDER,AGEP,SEX,HISP,RELSHIPP,{flags}"
        >>> _ = file.write_text(f"{header}\n2021HU0000001,44,1,35,2,1,20,1,0,0,0,0,0,0\n")
        >>> conversion = pums(f"{parent.name}/data", [file])
        >>> conversion.years, conversion.states["HOUSEHOLDS"].to_list(), conversion.has_housing
        ((2021,), [1], False)
        >>> parent.cleanup()

    """
    out = Path(out)
    if format not in FORMATS:
        raise PHSafeError(f"format: expected one of {', '.join(FORMATS)}, got {format}")
    if not files:
        raise PHSafeError("expected PUMS files to convert, got none")
    check_new_folder(out)
    found = csv_files([Path(file) for file in files])
    options = options or EngineOptions()
    with _scratch_database(options) as (scratch, database):
        staged = stage(found, scratch, part(progress, 0.0, 0.6))
        pums_checks.check_files(staged, expand=expand)
        years = pums_checks.check_years(database, staged)
        progress("matching people and homes", 0.6)
        with_housing = any(file.file_type is HOUSING for file in staged)
        _map(database, staged)
        progress("checking", 0.75)
        pums_checks.check_records(database, with_housing=with_housing, expand=expand)
        copies = "weight" if expand else "1"
        first = UNITS["MAFID"].codes[0]
        database.execute(f"CREATE TABLE numbered AS {code_mapping.NUMBERED.format(copies=copies, first=first)}")
        states = _summary(database)
        with new_folder(out, private=False) as folder:
            (folder / MARK).write_text(MARK_TEXT, encoding="utf-8")
            _write(database, folder, states["STATE"].to_list(), expand, format, part(progress, 0.8, 1.0))
    return Conversion(out, years, expand, with_housing, states)


def _map(database: duckdb.DuckDBPyConnection, staged: Sequence[Staged]) -> None:
    """Create the tables `people`, `heads`, `members` and `homes` from the files."""
    persons = [file for file in staged if file.file_type is PERSON]
    housing = [file for file in staged if file.file_type is HOUSING]
    person_columns = frozenset.intersection(*(file.columns for file in persons))
    unit_columns = frozenset.intersection(*(file.columns for file in housing)) if housing else frozenset()
    for macro in code_mapping.MACROS:
        database.execute(macro)
    paths = [str(file.path) for file in persons]
    database.execute(f"CREATE TABLE people AS {code_mapping.people(person_columns)}", [paths])
    database.execute(f"CREATE TABLE heads AS {code_mapping.HEADS}")
    if "relship" not in person_columns:
        database.execute(code_mapping.same_sex())
    database.execute(f"CREATE TABLE members AS {code_mapping.members()}")
    from_members = "relship" not in person_columns or not unit_columns.issuperset(UNIT_CODES)
    query = code_mapping.homes(unit_columns, with_housing=bool(housing), from_members=from_members)
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
    """Write a file for each table and state (Parquet) or for each table (CSV), by ascending MAFID."""
    mafid = "mafid + copy" if expand else "mafid"
    for done, layout in enumerate(LAYOUTS):
        if format == "csv":
            progress(f"writing {layout.name}", done / len(LAYOUTS))
            homes = _repeated("numbered", expand)
            _copy(database, _TABLES[layout.name].format(homes=homes, mafid=mafid), folder / f"{layout.name}.csv")
            continue
        (folder / layout.name).mkdir()
        for number, state in enumerate(states):
            progress(f"writing {layout.name}", (done + number / len(states)) / len(LAYOUTS))
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
def _scratch_database(options: EngineOptions) -> Iterator[tuple[Path, duckdb.DuckDBPyConnection]]:
    """Open a database that may exceed memory, in a scratch folder only its owner can read; remove both at the end."""
    scratch = temporary_folder(options.temp_dir)
    settings: dict[str, object] = {"temp_directory": str(scratch.path / "spill")}
    settings |= {} if options.threads is None else {"threads": options.threads}
    settings |= {} if options.memory_limit is None else {"memory_limit": options.memory_limit}
    try:
        with _opened(scratch.path / "work.duckdb", settings) as database:
            yield scratch.path, database
    except duckdb.Error as error:
        raise _translated(error, scratch.path) from None
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
            "can't open DuckDB with this number of threads and memory limit: "
            "expected a whole number and a size such as 4GB"
        ) from None


def _translated(error: duckdb.Error, folder: Path) -> PHSafeError:
    """Replace DuckDB's message, which may quote a record."""
    if isinstance(error, duckdb.OutOfMemoryException) or "no space left" in str(error).lower():
        return PHSafeError(
            f"converting ran out of memory or of disk space in {folder.parent}; raise the memory limit, "
            "name another temporary folder, or free some space"
        )
    return DataError(f"the files can't be converted ({type(error).__name__})")
