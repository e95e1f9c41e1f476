"""What the declarations of tabulations prove about their sums: who falls in a cell, and who has a race.

Identities and inequalities between tabulations are imposed only where they follow from filters, cells and the code
lists. A catalog may declare cells for part of a universe, or count vacant units, which have no householder.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod

from phsafe.estimation.measurement_vector import LevelBlock
from phsafe.model.conditions import Code, Where
from phsafe.model.schema import PERSONS, UNITS
from phsafe.model.spec import Tabulation

#: The code of columns of the unit table for units without a household.
VACANT = {"HHRACE": "00", "HHSPAN": 0, "TEN": "0", "HHT": "0", "HHT2": "00", "CPLT": "0", "FINAL_POP": 0}
#: Household types with couples, and the couple types that they can have.
COUPLES = {"01": "12", "02": "12", "03": "34", "04": "34"}
#: With more combinations of codes than this, nothing is proven.
MOST = 100_000


def is_occupied(tabulation: Tabulation) -> bool:
    """Whether every unit that counts has a household: with persons in it, or according to the unit filter."""
    if tabulation.kind != "units":
        return True
    return any(name in VACANT and VACANT[name] not in codes for name, codes in tabulation.units.terms)


def adds_up(block: LevelBlock) -> bool:
    """Whether the iterations of a level add up to everyone. Vacant units have no race, so they are in no iteration."""
    level = block.level.iteration_level
    return level.is_total or (level.covers and is_occupied(block.tabulation))


@lru_cache(maxsize=1024)
def is_covered(small: Tabulation, large: Tabulation) -> bool:
    """Whether every row in a cell of `small` is in a cell of `large` too."""
    filters = [condition.terms for condition in (small.persons or Where(), small.units)]
    within = [Where(tuple(term for term in terms if term[0] != "RTYPE")) for terms in filters]
    cells, around = list(small.cells.values()), list(large.cells.values())
    occupied = is_occupied(small)
    columns = sorted({name for condition in (*within, *cells, *around) for name in condition.columns})
    choices = [list(_representatives(name, [*within, *cells, *around], occupied)) for name in columns]
    if prod(map(len, choices)) > MOST:
        return False
    for codes in product(*choices):
        row = dict(zip(columns, codes, strict=True))
        counted = _is_possible(row) and all(w.allows(row) for w in within) and any(c.allows(row) for c in cells)
        if counted and not any(cell.allows(row) for cell in around):
            return False
    return True


def _representatives(name: str, conditions: list[Where], occupied: bool) -> Iterator[Code]:
    """One code of every set of codes that the conditions don't distinguish; couples are always distinguished."""
    column = PERSONS[name] if name in PERSONS else UNITS[name]
    seen = set()
    for code in column.codes:
        if occupied and name in VACANT and code == VACANT[name]:
            continue
        kinds = tuple(codes is None or code in codes for codes in (c.codes(name) for c in conditions))
        key = (kinds, code) if name == "CPLT" else (kinds, COUPLES.get(str(code)) if name == "HHT2" else None)
        if key not in seen:
            seen.add(key)
            yield code


def _is_possible(row: dict[str, Code]) -> bool:
    """Whether a combination of codes is possible: couples have the couple type of their household type."""
    couple = COUPLES.get(str(row.get("HHT2", "")))
    return couple is None or "CPLT" not in row or str(row["CPLT"]) in couple
