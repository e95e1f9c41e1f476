"""What must hold before a folder is written: files that belong together, and values that are codes.

Every problem is told at once, in words with a count; no value of a record is ever part of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import duckdb

from phsafe.errors import DataError
from phsafe.microdata.layout import FIRST_YEAR, PERSON
from phsafe.microdata.stage import Staged
from phsafe.schema import PERSONS, STATES, UNITS, Column, Digits

#: Files of five years hold records of five years; other files of one.
SPANS = (1, 5)
MAX_WEIGHT = 9_999
#: As many addresses as MAFIDs can tell apart.
MAX_UNITS = len(UNITS["MAFID"].codes)
_PERSON_COLUMNS = {"age": "QAGE", "hispanic": "CENHISP", "race": "CENRACE", "relation": "RELSHIP"}
_UNIT_COLUMNS = ("RTYPE", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT")
#: What the values of a census column come from, for people who look into the files.
_ORIGINS = {
    "QAGE": "AGEP", "CENHISP": "HISP", "CENRACE": "the race flags (RACWHT and so on)", "RELSHIP": "RELSHIPP or RELP",
    "RTYPE": "TYPEHUGQ or TYPE", "FINAL_POP": "NP",
    "HHSPAN": "the householder's HISP", "HHRACE": "the householder's race flags",
}  # fmt: skip


def check_files(staged: Sequence[Staged], *, expand: bool) -> None:
    """That the files make a whole: persons at least, one way to say relationships, weights if they are needed."""
    problems = []
    persons = [file for file in staged if file.kind is PERSON]
    if not persons:
        problems.append(
            "expected a person file at least, got housing files only: name the person file (psam_p…) of each state too"
        )
    ways = {way for file in persons for way in ("relship", "relp") if way in file.columns}
    problems += [
        f"{file.name}: column RELSHIPP or RELP is missing from this person file"
        for file in persons
        if not file.columns & {"relship", "relp"}
    ]
    if len(ways) > 1:
        problems.append(
            "expected files of one year, got some with RELP (to 2018) and some with RELSHIPP (from 2019)"
        )
    if expand:
        problems += [
            f"{file.name}: column {file.kind.columns['weight'][0]} is missing, which --expand needs"
            for file in staged
            if "weight" not in file.columns
        ]
    if problems:
        raise DataError(problems)


def check_years(database: duckdb.DuckDBPyConnection, staged: Sequence[Staged]) -> tuple[int, ...]:
    """The years of the records, the same in every file: one, or five in a row."""
    found = {}
    for file in staged:
        rows = database.execute("SELECT DISTINCT substr(serial, 1, 4) FROM read_parquet(?)", [str(file.path)])
        found[file.name] = {text for (text,) in rows.fetchall()}
    problems = [
        f"{name}: expected serial numbers (SERIALNO) that begin with a year, got others"
        for name, texts in found.items()
        if not all(text and text.isdecimal() and text.isascii() and len(text) == 4 for text in texts)
    ]
    if problems:
        raise DataError(problems)
    years = {name: tuple(sorted(map(int, texts))) for name, texts in found.items()}
    different = sorted(set(years.values()))
    if len(different) > 1:
        said = "; ".join(f"{name} holds {_span(span)}" for name, span in years.items())
        raise DataError(f"expected files of one year (or the same five years), got a mixture: {said}")
    (span,) = different
    if len(span) not in SPANS or span[-1] - span[0] != len(span) - 1:
        raise DataError(f"expected records of one year or of five in a row, got a mixture: {_span(span)}")
    if span[-1] < FIRST_YEAR:
        raise DataError(f"expected files of {FIRST_YEAR} or later, got {_span(span)}")
    return span


def check_records(database: duckdb.DuckDBPyConnection, *, with_housing: bool, expand: bool) -> None:
    """That persons and homes fit each other, and every value is a code."""
    problems = [*_states(database, with_housing)]
    # Files that don't belong together break every rule below too; saying so once is enough.
    problems = (
        problems or [*_keys(database, with_housing)] or [*_values(database), *_weights(database, expand)]
    )
    if problems:
        raise DataError(problems)


def _states(database: duckdb.DuckDBPyConnection, with_housing: bool) -> Iterator[str]:
    persons, homes = (
        {state for (state,) in database.execute(f"SELECT DISTINCT state FROM {table}").fetchall()}  # noqa: S608
        for table in ("people", "homes")
    )
    if any(state not in STATES for state in persons | homes):
        yield "expected a state's code (STATE or ST) in every record, got others"
        return
    if with_housing and homes - persons:
        yield f"a housing file without its person file: {_named(homes - persons)}; name the person files too"
    if with_housing and persons - homes:
        yield (
            f"a person file without its housing file: {_named(persons - homes)}; "
            "name the housing file of every state, or of none"
        )


def _keys(database: duckdb.DuckDBPyConnection, with_housing: bool) -> Iterator[str]:
    for table, key, what in (
        ("people", "state, serial, number", "persons"),
        ("homes", "state, serial", "housing records"),
    ):
        number = _count(database, f"(SELECT {key} FROM {table} GROUP BY {key} HAVING count(*) > 1)", "true")  # noqa: S608
        if number:
            yield f"{number:,} {what} stand more than once; was a file named twice?"
    if with_housing:
        number = _count(database, "people ANTI JOIN homes USING (state, serial)", "true")
        if number:
            yield f"{number:,} persons have no housing record; were the files made at different times?"
        number = _count(database, "homes", "people IS DISTINCT FROM persons")
        if number:
            yield f"{number:,} units have another number of persons (NP) than there are person records"
    number = _count(database, "homes", "occupied AND householders <> 1")
    if number:
        yield f"{number:,} occupied housing units have no householder, or several"


def _values(database: duckdb.DuckDBPyConnection) -> Iterator[str]:
    columns = [("people", name, PERSONS[column]) for name, column in _PERSON_COLUMNS.items()]
    columns += [("homes", name, UNITS[name]) for name in _UNIT_COLUMNS]
    for table, name, column in columns:
        number = _count(database, table, f"({_in_domain(name, column)}) IS NOT TRUE")
        if number:
            origin = _ORIGINS.get(column.name, column.name)
            yield f"{number:,} {table} have no valid value of {origin} (for {column.name})"
    number = _count(database, "people", "sex IS NULL")
    if number:
        yield f"{number:,} people have no valid value of SEX"


def _weights(database: duckdb.DuckDBPyConnection, expand: bool) -> Iterator[str]:
    if not expand:
        return
    number = _count(database, "homes", f"(weight BETWEEN 1 AND {MAX_WEIGHT}) IS NOT TRUE")
    if number:
        yield (
            f"{number:,} units have a weight of zero, or none from 1 to {MAX_WEIGHT:,}, so --expand can't repeat them; "
            "repair the files, or convert without --expand"
        )
        return
    (units,) = database.execute("SELECT sum(weight) FROM homes").fetchone() or (0,)
    if units > MAX_UNITS:
        yield f"expected at most {MAX_UNITS:,} units after --expand, got {units:,}; convert fewer states at once"


def _count(database: duckdb.DuckDBPyConnection, table: str, condition: str) -> int:
    row = database.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()  # noqa: S608
    return int(row[0]) if row else 0


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
