"""What makes a tabulation inconsistent, found when it is created: its columns, codes, cells and universe."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from typing import TYPE_CHECKING

from phsafe.model.code_lists import codes_text
from phsafe.model.conditions import Code, Where
from phsafe.model.levels import RACE_COLUMNS
from phsafe.model.schema import PERSONS, UNITS, Column
from phsafe.model.table_checks import listed

if TYPE_CHECKING:
    from phsafe.model.spec import Tabulation

#: The most overlapping cells of a tabulation that are reported.
MAX_OVERLAPS = 20


def universe_problems(tabulation: Tabulation) -> Iterator[str]:
    """Counting beyond a threshold that doesn't exist, or with another filter than that of the threshold."""
    beyond = tabulation.beyond
    if beyond is None:
        return
    if not beyond.is_truncated:
        yield f"{tabulation.name}: expected beyond to be a tabulation of persons with a threshold, got {beyond.name}"
    if tabulation.kind == "dropped" and tabulation.persons != beyond.persons:
        yield f"{tabulation.name}: expected the person filter of {beyond.name}, got another"
    if tabulation.kind == "dropped" and tabulation.units != Where():
        yield f"{tabulation.name}: dropped persons are counted without their unit, got a unit filter"


def column_problems(tabulation: Tabulation) -> Iterator[str]:
    """Columns and codes that a condition's row doesn't have. Refuses anything that isn't a plain condition.

    A filter reads its own record, a cell one joined row; dropped persons are not joined (claim C14). RTYPE is in
    persons and units, so only filters may use it.
    """
    person = {c.name: c for c in PERSONS.columns if c.name != "MAFID"}
    unit = {c.name: c for c in UNITS.columns if c.name != "MAFID"}
    rows = {"persons": unit | person, "units": unit, "dropped": person, "oversized": unit}[tabulation.kind]
    joined = {name: column for name, column in rows.items() if name != "RTYPE"}
    conditions = [("unit filter", tabulation.units, unit)]
    conditions += [("person filter", tabulation.persons, person)] if tabulation.persons is not None else []
    conditions += [(f"cell {number}", cell, joined) for number, cell in tabulation.cells.items()]
    for name, condition, allowed in conditions:
        context = f"{tabulation.name}, {name}"
        # The exact type: a subclass could call code.
        if type(condition) is not Where:
            raise TypeError(f"{context}: expected a condition built with where(), got {type(condition).__name__}")
        foreign = sorted(set(condition.columns) - set(allowed))
        if foreign:
            yield f"{context}: expected columns among {', '.join(sorted(allowed))}, got {', '.join(foreign)}"
        for term, codes in condition.on(allowed).terms:
            yield from _code_problems(context, allowed[term], codes)


def _code_problems(context: str, column: Column, codes: frozenset[Code]) -> Iterator[str]:
    code_type = int if column.is_integer else str
    if not all(isinstance(code, code_type) for code in codes):
        yield f"{context}: expected codes of {column.name} as {code_type.__name__}, got another type"
    elif foreign := sorted(map(str, (code for code in codes if code not in column.codes))):
        known = codes_text(column, column.codes)
        yield f"{context}: expected codes of {column.name} among {known}, got {listed(foreign)}"


def iteration_problems(tabulation: Tabulation) -> Iterator[str]:
    """Iterating by someone whose race and ethnicity the rows don't have."""
    by = tabulation.iterate_by
    if by not in (None, *RACE_COLUMNS):
        yield f"{tabulation.name}: expected iterate_by to be {', '.join(RACE_COLUMNS)} or None, got {by!r}"
    if by == "person" and not tabulation.counts_persons:
        yield f"{tabulation.name}: a tabulation of units can't iterate by person; use householder"
    if by == "householder" and tabulation.kind == "dropped":
        yield f"{tabulation.name}: dropped persons can't iterate by householder; use person or None"


def overlapping_cells(tabulation: Tabulation) -> Iterator[str]:
    """Cells that overlap: a row belongs to at most one cell (claim C3).

    Two conjunctions overlap unless some column has disjoint codes in the two.
    """
    pairs = combinations(tabulation.cells.items(), 2)
    overlapping = (f"{one[0]} and {other[0]}" for one, other in pairs if one[1].overlaps(other[1]))
    for cells in islice(overlapping, MAX_OVERLAPS):
        yield f"{tabulation.name}: cells {cells} overlap; a row may belong to only one cell"
