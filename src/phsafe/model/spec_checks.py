"""What a tabulation may declare: checks of its columns, codes, cells and universe when it is constructed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from phsafe.model.conditions import Where
from phsafe.model.schema import PERSONS, UNITS, Column

if TYPE_CHECKING:
    from phsafe.model.spec import Tabulation


def refuse_other_universe(tabulation: Tabulation) -> None:
    """Refuse to count beyond a threshold that doesn't exist, or with another filter than that of the threshold."""
    if tabulation.beyond is None:
        return
    if not tabulation.beyond.is_truncated:
        raise ValueError(
            f"{tabulation.name}: expected beyond to be a tabulation of persons with a threshold, "
            f"got {tabulation.beyond.name}"
        )
    if tabulation.kind == "dropped" and tabulation.persons != tabulation.beyond.persons:
        raise ValueError(f"{tabulation.name}: expected the person filter of {tabulation.beyond.name}, got another")
    if tabulation.kind == "dropped" and tabulation.units != Where():
        raise ValueError(f"{tabulation.name}: dropped persons are counted without their unit, got a unit filter")


def refuse_foreign_columns(tabulation: Tabulation) -> None:
    """Refuse columns and codes that a condition's row doesn't have, and anything that isn't a plain condition.

    A filter reads its own record, a cell one joined row; dropped persons are not joined (claim C14). RTYPE is in
    persons and units, so only filters may use it.
    """
    person = {c.name: c for c in PERSONS.columns if c.name != "MAFID"}
    unit = {c.name: c for c in UNITS.columns if c.name != "MAFID"}
    rows = {"persons": unit | person, "units": unit, "dropped": person, "oversized": unit}[tabulation.kind]
    joined = {name: column for name, column in rows.items() if name != "RTYPE"}
    checks = [("unit filter", tabulation.units, unit)]
    checks += [("person filter", tabulation.persons, person)] if tabulation.persons is not None else []
    checks += [(f"cell {number}", cell, joined) for number, cell in tabulation.cells.items()]
    for name, condition, allowed in checks:
        # The exact type: a subclass could call code.
        if type(condition) is not Where:
            raise TypeError(
                f"{tabulation.name}, {name}: expected a condition built with where(), got {type(condition).__name__}"
            )
        foreign = sorted(set(condition.columns) - set(allowed))
        if foreign:
            raise ValueError(
                f"{tabulation.name}, {name}: expected columns among {', '.join(sorted(allowed))}, "
                f"got {', '.join(foreign)}"
            )
        _refuse_foreign_codes(f"{tabulation.name}, {name}", condition, allowed)
    if tabulation.iterate_by == "person" and not tabulation.counts_persons:
        raise ValueError(f"{tabulation.name}: a tabulation of units can't iterate by person; use householder")
    if tabulation.iterate_by == "householder" and tabulation.kind == "dropped":
        raise ValueError(f"{tabulation.name}: dropped persons can't iterate by householder; use person or None")


def _refuse_foreign_codes(context: str, condition: Where, columns: Mapping[str, Column]) -> None:
    for name, codes in condition.terms:
        code_type = int if columns[name].is_integer else str
        if not all(isinstance(code, code_type) for code in codes):
            raise ValueError(f"{context}: expected codes of {name} as {code_type.__name__}, got another type")


def refuse_overlapping_cells(tabulation: Tabulation) -> None:
    """Refuse cells that overlap: a row belongs to at most one cell (claim C3).

    Two conjunctions overlap unless some column has disjoint codes in the two.
    """
    cells = list(tabulation.cells.items())
    for i, (number, cell) in enumerate(cells):
        for other_number, other in cells[i + 1 :]:
            if cell.overlaps(other):
                raise ValueError(
                    f"{tabulation.name}: cells {number} and {other_number} overlap; a row may belong to only one cell"
                )
