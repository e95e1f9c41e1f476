"""Checks before a folder is written: files and years belong together, and codes and weights are valid.

All problems are reported together, each with a count; no message contains a value of a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import duckdb

from phsafe.acs_pums.pums_columns import FIRST_YEAR, PERSON
from phsafe.acs_pums.staging import Staged
from phsafe.errors import DataError
from phsafe.model.schema import PERSONS, STATES, UNITS, Column, Digits

#: Years covered by a file: one-year or five-year.
SPANS = (1, 5)
MAX_WEIGHT = 9_999
#: The number of possible MAFIDs.
MAX_UNITS = len(UNITS["MAFID"].codes)
#: Columns of the mapped tables → their column in the census layout, and their source in the files.
PEOPLE = {
    "age": (PERSONS["QAGE"], "AGEP"),
    "hispanic": (PERSONS["CENHISP"], "HISP"),
    "race": (PERSONS["CENRACE"], "the race flags"),
    "relation": (PERSONS["RELSHIP"], "RELSHIPP or RELP"),
}
HOMES = {
    "RTYPE": (UNITS["RTYPE"], "TYPEHUGQ or TYPE"),
    "FINAL_POP": (UNITS["FINAL_POP"], "NP"),
    "HHSPAN": (UNITS["HHSPAN"], "the householder's HISP"),
    "HHRACE": (UNITS["HHRACE"], "the householder's race flags"),
    **{name: (UNITS[name], name) for name in ("NPF", "TEN", "HHT", "HHT2", "CPLT")},
}


def check_files(staged: Sequence[Staged], *, expand: bool) -> None:
    """Check that there are person files, that all use the same relationship codes, and that needed weights exist."""
    problems = []
    persons = [file for file in staged if file.file_type is PERSON]
    if not persons:
        problems.append(
            "expected at least one person file, got only housing files: name the person file (psam_p…) of each state"
        )
    codes = {code for file in persons for code in ("relship", "relp") if code in file.columns}
    problems += [
        f"{file.name}: column RELSHIPP or RELP is missing from this person file"
        for file in persons
        if not file.columns & {"relship", "relp"}
    ]
    if len(codes) > 1:
        problems.append("expected files of one year, got some with RELP (to 2018) and some with RELSHIPP (from 2019)")
    if expand:
        problems += [
            f"{file.name}: column {file.file_type.columns['weight'][0]} is missing, which --expand needs"
            for file in staged
            if "weight" not in file.columns
        ]
    if problems:
        raise DataError(problems)


def check_years(database: duckdb.DuckDBPyConnection, staged: Sequence[Staged]) -> tuple[int, ...]:
    """Return the years of the records, which must be the same in every file: one year, or five in a row."""
    found = {}
    for file in staged:
        rows = database.execute("SELECT DISTINCT substr(serial, 1, 4) FROM read_parquet(?)", [str(file.path)])
        found[file.name] = {text for (text,) in rows.fetchall()}
    problems = [
        f"{name}: expected serial numbers (SERIALNO) that begin with a year, got other values"
        for name, texts in found.items()
        if not all(text and text.isdecimal() and text.isascii() and len(text) == 4 for text in texts)
    ]
    if problems:
        raise DataError(problems)
    years = {name: tuple(sorted(map(int, texts))) for name, texts in found.items()}
    different = sorted(set(years.values()))
    if len(different) > 1:
        details = "; ".join(f"{name} covers {_span(span)}" for name, span in years.items())
        raise DataError(f"expected files of one year (or the same five years), got a mixture: {details}")
    (span,) = different
    if len(span) not in SPANS or span[-1] - span[0] != len(span) - 1:
        raise DataError(f"expected records of one year or of five in a row, got a mixture: {_span(span)}")
    if span[-1] < FIRST_YEAR:
        raise DataError(f"expected files of {FIRST_YEAR} or later, got {_span(span)}")
    return span


def check_records(database: duckdb.DuckDBPyConnection, *, with_housing: bool, expand: bool) -> None:
    """Check that persons and homes match, and that every value is a valid code."""
    problems = [*_states(database, with_housing)]
    # Mismatched files violate every rule below too, so report only the first group of problems.
    problems = problems or [*_keys(database, with_housing)] or [*_values(database), *_weights(database, expand)]
    if problems:
        raise DataError(problems)


def _states(database: duckdb.DuckDBPyConnection, with_housing: bool) -> Iterator[str]:
    persons, homes = (
        {state for (state,) in database.execute(f"SELECT DISTINCT state FROM {table}").fetchall()}  # noqa: S608
        for table in ("people", "homes")
    )
    if any(state not in STATES for state in persons | homes):
        yield "expected a state's code (STATE or ST) in every record, got other values"
        return
    if with_housing and homes - persons:
        yield f"housing file without its person file: {_named(homes - persons)}; name the person files too"
    if with_housing and persons - homes:
        yield (
            f"person file without its housing file: {_named(persons - homes)}; "
            "name the housing file of every state, or of none"
        )


def _keys(database: duckdb.DuckDBPyConnection, with_housing: bool) -> Iterator[str]:
    for table, key, what in (
        ("people", "state, serial, number", "persons"),
        ("homes", "state, serial", "housing records"),
    ):
        duplicates = f"(SELECT {key} FROM {table} GROUP BY {key} HAVING count(*) > 1)"  # noqa: S608
        yield from _problem(database, duplicates, "true", f"duplicate {what}: {{}}; was a file named twice?")
    if with_housing:
        yield from _problem(
            database, "people ANTI JOIN homes USING (state, serial)", "true",
            "persons without a housing record: {}; are the files from the same survey?",
        )  # fmt: skip
        yield from _problem(
            database, "homes", "people IS DISTINCT FROM persons",
            "units whose number of persons (NP) differs from their number of person records: {}",
        )  # fmt: skip
    yield from _problem(
        database, "homes", "occupied AND householders <> 1",
        "occupied housing units with no householder or more than one: {}",
    )  # fmt: skip


def _values(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    for table, what, columns in (("people", "persons", PEOPLE), ("homes", "units", HOMES)):
        for name, (column, origin) in columns.items():
            sentence = f"{what} without a valid value of {origin}, for {column.name}: {{}}"
            yield from _problem(database, table, f"({_in_domain(name, column)}) IS NOT TRUE", sentence)
    yield from _problem(database, "people", "sex IS NULL", "persons without a valid value of SEX: {}")


def _weights(database: duckdb.DuckDBPyConnection, expand: bool) -> Iterator[str]:
    if not expand:
        return
    problems = [*_problem(
        database, "homes", f"(weight BETWEEN 1 AND {MAX_WEIGHT}) IS NOT TRUE",
        f"units without a weight from 1 to {MAX_WEIGHT:,}: {{}}; --expand can't repeat them, "
        "so repair the files or convert without it",
    )]  # fmt: skip
    yield from problems
    (units,) = database.execute("SELECT sum(weight) FROM homes").fetchone() or (0,)
    if not problems and units > MAX_UNITS:
        yield f"expected at most {MAX_UNITS:,} units after --expand, got {units:,}; convert fewer states at a time"


def _problem(database: duckdb.DuckDBPyConnection, table: str, condition: str, sentence: str) -> Iterator[str]:
    """Yield the sentence with the number of rows that meet the condition, if there are any."""
    row = database.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()  # noqa: S608
    if row and row[0]:
        yield sentence.format(f"{row[0]:,}")


def _in_domain(name: str, column: Column) -> str:
    if isinstance(column.domain, Digits):
        raise TypeError(column.name)
    if isinstance(column.domain, range):
        return f"{name} BETWEEN {column.domain[0]} AND {column.domain[-1]}"
    return f"{name} IN ({', '.join(map(repr, column.domain))})"


def _span(years: Sequence[int]) -> str:
    return " and ".join(map(str, years)) if len(years) < 3 else f"{years[0]} to {years[-1]}"


def _named(states: Collection[str]) -> str:
    return ", ".join(f"{STATES[state]} ({state})" for state in sorted(states))
