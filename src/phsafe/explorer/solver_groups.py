"""Groups that the solver weighs: a line of a table, or a cell of a tabulation, at a level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from phsafe.configs.config import Config
from phsafe.configs.line_sums import CellSum, line_sums


@dataclass(frozen=True)
class Group:
    """A published number of any population group of a level.

    Attributes:
        name: What to call it.
        level: The key of its level, such as ``state_A-G``.
        table: The name of a table (with `line`) or of a tabulation (with `cell`).
        line: The number of a line of the table; None if a cell is meant.
        cell: The number of a basis cell of the tabulation; None if a line is meant.
        people: The size of the group; needed for averages only.
        households: The number of its households; needed for averages only.
        weight: How much its finished margin matters: 1 as much as all levels together.
        worse: By which share of the baseline's its margin may grow; None for no limit.
        moe: The largest finished margin; None for no limit.
    """

    name: str
    level: str
    table: str
    line: int | None = None
    cell: int | None = None
    people: Decimal | None = None
    households: Decimal | None = None
    weight: Decimal = Decimal(1)
    worse: Decimal | None = None
    moe: Decimal | None = None


@dataclass(frozen=True)
class CellCombination:
    """A linear combination of cells in one group of a level, by tabulation and cell."""

    level: str
    cells: Mapping[tuple[str, int], float]


def parts_of(config: Config, group: Group) -> tuple[CellSum, CellSum | None] | None:
    """Return the sum of cells behind a group's number, or the two sums of an average; None if there is none."""
    if group.cell is not None:
        known = any(t.name == group.table and group.cell in t.cells for t in config.catalog.tabulations)
        return (CellSum(group.table, (group.cell,)), None) if known else None
    tables = [table for table in config.catalog.tables if table.name == group.table]
    sums = line_sums(config, tables[0]) if tables else ()
    return next(((one.count, one.per) for one in sums if one.line.number == group.line), None)


def combination(config: Config, group: Group) -> CellCombination | None:
    """Return a group's number as a linear combination; None if the config doesn't publish it.

    An average N/D of R is linearised to (N − R·D)/D, with the group's sizes for N and D.
    """
    parts = parts_of(config, group)
    if parts is None or not all(config.budgets[p.tabulation].get(group.level, 0) > 0 for p in parts if p is not None):
        return None
    count, per = parts
    if per is None:
        return CellCombination(group.level, {(count.tabulation, cell): 1.0 for cell in count.basis})
    assert group.people is not None
    assert group.households is not None
    size, ratio = float(group.households), float(group.people / group.households)
    cells = {(count.tabulation, cell): 1 / size for cell in count.basis}
    return CellCombination(group.level, cells | {(per.tabulation, cell): -ratio / size for cell in per.basis})
