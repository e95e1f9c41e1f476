"""One form for every format: integers as integers, codes as texts, whatever the file's types were."""

from __future__ import annotations

import ibis
import ibis.expr.datatypes as dt
from ibis.expr.types import Column as IbisColumn
from ibis.expr.types import Table

from phsafe.schema import Column, Digits, Layout

#: An integer as text, in the one way to write it. Engines read "3.7" or " 3" as integers in different ways.
INTEGER_TEXT = "^(0|[1-9][0-9]{0,8})$"


def type_problems(table: Table, layout: Layout) -> list[str]:
    """Missing columns, and columns whose type can't hold the layout's values."""
    names = set(table.columns)
    problems = [
        f"{layout.name}: column {column.name} is missing"
        for column in layout.columns
        if column.required and column.name not in names
    ]
    for column in layout.columns:
        if column.name in names and not _fits(table[column.name].type(), column):
            problems.append(
                f"{layout.name}: expected column {column.name} as {_expected(column)}, got {table[column.name].type()}"
            )
    return problems


def canonical(table: Table, layout: Layout) -> Table:
    """The layout's columns that the table has, with the layout's types; a value that doesn't parse becomes null."""
    return table.select(
        **{c.name: _column(table[c.name], c) for c in layout.columns if c.name in table.columns}
    )


def _column(values: IbisColumn, column: Column) -> IbisColumn:
    if not column.is_integer:
        return values.cast("string")
    if values.type().is_string():
        return ibis.cases(
            (values.re_search(INTEGER_TEXT), values.try_cast("int32")), else_=ibis.null("int32")
        )
    if values.type().nbytes <= dt.int32.nbytes and values.type().is_signed_integer():
        return values.cast("int32")
    return values.try_cast("int32")


def _fits(kind: dt.DataType, column: Column) -> bool:
    return kind.is_string() or (kind.is_integer() and (column.is_integer or _one_digit(column)))


def _one_digit(column: Column) -> bool:
    """Codes of one digit lose nothing as integers; longer ones lose their leading zeros."""
    width = column.domain.width if isinstance(column.domain, Digits) else len(str(column.domain[0]))
    return width == 1


def _expected(column: Column) -> str:
    return "integers" if column.is_integer else "text with its leading zeros"
