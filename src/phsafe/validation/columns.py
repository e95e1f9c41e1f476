"""Rules on one column of one row: values present and in their domains, and the few that look at two columns."""

from __future__ import annotations

from ibis.expr.types import BooleanValue, IntegerValue, StringColumn, Table

from phsafe.schema import HOUSING_UNIT, UNITS, Column, Digits, Layout
from phsafe.tabulation.coding import among, looked_up
from phsafe.validation.rules import Rule


def column_rules(layout: Layout, table: Table) -> list[Rule]:
    """The rules of a layout for the columns that a table has."""
    present = [column for column in layout.columns if column.name in table.columns]
    rules = [_missing(layout, column) for column in present] + [_domain(layout, column) for column in present]
    if layout is UNITS:
        rules += [_householder(name, nobody) for name, nobody in (("HHRACE", "00"), ("HHSPAN", 0))]
    return rules


def _missing(layout: Layout, column: Column) -> Rule:
    name = "a whole number is given" if column.is_integer else "a value is given"
    return Rule(
        name, "error", layout.name, column.name, lambda t: t[column.name].isnull(),
        quickly=lambda t: t.count() - t[column.name].count(),
    )  # fmt: skip


def _domain(layout: Layout, column: Column) -> Rule:
    return Rule(
        "the value is in its domain", "error", layout.name, column.name, lambda t: _outside(t, column),
        quickly=None if column.is_integer else lambda t: t[column.name].count() - _inside(t[column.name], column),
    )  # fmt: skip


def _inside(texts: StringColumn, column: Column) -> IntegerValue:
    """How many texts are in the domain, counted with functions that DuckDB calls once for each dictionary entry."""
    if isinstance(column.domain, Digits):
        return texts.re_extract(_pattern(column.domain), 0).length().sign().sum().fill_null(0).cast("int64")
    return looked_up(texts, dict.fromkeys(column.codes, 1)).count()


def _pattern(domain: Digits) -> str:
    return f"^[0-9]{{{domain.width}}}$"


def _outside(table: Table, column: Column) -> BooleanValue:
    """Whether there is a value, but none of the domain."""
    values, domain = table[column.name], column.domain
    if isinstance(domain, Digits):
        return ~values.re_search(_pattern(domain))
    return ~among(values, domain)


def occupied(table: Table) -> BooleanValue:
    """Whether a unit row is an occupied housing unit."""
    return (table.RTYPE == HOUSING_UNIT) & (table.HHT != "0")


def _householder(column: str, nobody: str | int) -> Rule:
    return Rule(
        "an occupied housing unit has its householder's race and ethnicity",
        "error", "units", column, lambda t: occupied(t) & (t[column] == nobody),
    )  # fmt: skip
