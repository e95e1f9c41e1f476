"""What the declarations of tabulations prove about their sums: who falls in a cell, and who has a race.

Identities and inequalities between tabulations are imposed only where they follow from filters, cells and the code
lists. A catalog may declare cells for part of a universe, or count vacant units, which have no householder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod

from phsafe.estimation.measurement_vector import LevelBlock
from phsafe.model.conditions import Code, Where
from phsafe.model.schema import HOUSED_PERSON, HOUSING_UNIT, PERSONS, UNITS
from phsafe.model.spec import Tabulation

#: The code of columns of the unit table for units without a household.
VACANT = {"HHRACE": "00", "HHSPAN": 0, "TEN": "0", "HHT": "0", "HHT2": "00", "CPLT": "0", "FINAL_POP": 0}
#: Household types with couples, and the couple types that they can have.
COUPLES = {"01": "12", "02": "12", "03": "34", "04": "34"}
#: A placeholder for cells that count other rows, too.
RULED_OUT = (-1, 0)
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
    """Whether every row in a cell of `small` is in a cell of `large` too, apart from the filters of `large`."""
    universe, cells, around = _universe(small), list(small.cells.values()), list(large.cells.values())
    rows = _rows([universe, *cells, *around], is_occupied(small))
    if rows is None:
        return False
    counted = (row for row in rows if universe.allows(row) and any(cell.allows(row) for cell in cells))
    return all(any(cell.allows(row) for cell in around) for row in counted)


@lru_cache(maxsize=1024)
def same_cells(one: Tabulation, other: Tabulation) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Sets of cells of two tabulations that count exactly the same rows, the smallest that can be proven."""
    sides = [(_universe(tabulation), tabulation.cells.items()) for tabulation in (one, other)]
    conditions = [condition for within, cells in sides for condition in (within, *dict(cells).values())]
    rows = _rows(conditions, is_occupied(one) and is_occupied(other))
    linked = set()
    for row in rows or ():
        found = [[n for n, cell in cells if cell.allows(row)] if within.allows(row) else [] for within, cells in sides]
        # A row that only one of them counts rules out its cell, and all cells linked with that.
        ruled_out = [] if all(found) else [RULED_OUT]
        linked.add(frozenset([*ruled_out, *((side, n) for side, numbers in enumerate(found) for n in numbers)]))
    parts: list[frozenset[tuple[int, int]]] = []
    for cells in linked:
        apart = [part for part in parts if part.isdisjoint(cells)]
        parts = [*apart, cells.union(*(part for part in parts if part not in apart))]
    whole = [sorted(part) for part in parts if RULED_OUT not in part]
    return tuple(
        sorted((tuple(n for side, n in part if side == 0), tuple(n for side, n in part if side == 1)) for part in whole)
    )


def _universe(tabulation: Tabulation) -> Where:
    """The filters of a tabulation, without record types: only housing units and the people in them are counted."""
    persons = tabulation.persons or Where()
    for condition, housing in ((persons, HOUSED_PERSON), (tabulation.units, HOUSING_UNIT)):
        if housing not in (condition.codes("RTYPE") or {housing}):
            return Where((("RTYPE", frozenset()),))  # No row is counted.
    return Where(tuple(term for term in (persons & tabulation.units).terms if term[0] != "RTYPE"))


def _rows(conditions: Sequence[Where], occupied: bool) -> Iterator[dict[str, Code]] | None:
    """All possible rows that the conditions distinguish; None if there are too many."""
    columns = sorted({name for condition in conditions for name in condition.columns})
    choices = [list(_representatives(name, conditions, occupied)) for name in columns]
    if prod(map(len, choices)) > MOST:
        return None
    rows = (dict(zip(columns, codes, strict=True)) for codes in product(*choices))
    return (row for row in rows if _is_possible(row))


def _representatives(name: str, conditions: Sequence[Where], occupied: bool) -> Iterator[Code]:
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
