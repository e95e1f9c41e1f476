"""Checks that a table has the columns and types of its layout, for files of any format."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from phsafe.model.schema import Column, Digits, Layout

#: Familiar names for types that Arrow prints differently.
NAMES = {"double": "float64", "float": "float32", "bool": "boolean", "halffloat": "float16"}


def column_problems(schema: pa.Schema, layout: Layout) -> list[str]:
    """List missing columns, repeated columns, and columns whose type can't represent the layout's values."""
    types = {column.name: plain_type(column.type) for column in schema}
    problems = [
        f"{layout.name}: column {column.name} is missing{hint(column.name, types)}"
        for column in layout.columns
        if column.required and column.name not in types
    ]
    problems += [
        f"{layout.name}: expected column {column.name} once, got it more than once"
        for column in layout.columns
        if schema.names.count(column.name) > 1
    ]
    for column in layout.columns:
        if column.name in types and not _fits(types[column.name], column):
            found = NAMES.get(str(types[column.name]), str(types[column.name]))
            problems.append(f"{layout.name}: expected column {column.name} as {_expected(column)}, got {found}")
    return problems


def hint(name: str, found: Iterable[str]) -> str:
    """What to add to a message about a missing column, if there is one with its name in other letters or with blanks.

    >>> hint("MAFID", ["RTYPE", " mafid "])
    "; found ' mafid ', rename it to MAFID"
    """
    similar = next((other for other in found if other.strip().upper() == name), None)
    return "" if similar is None else f"; found {similar!r}, rename it to {name}"


def extra_columns(schema: pa.Schema, layout: Layout) -> int:
    """The number of columns that are not in the layout."""
    return len(set(schema.names) - set(layout.names))


def plain_type(dtype: pa.DataType) -> pa.DataType:
    """The type of the values themselves: dictionaries become their value type, and all string types become one."""
    if pa.types.is_dictionary(dtype):
        dtype = dtype.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return pa.string() if any(is_text(dtype) for is_text in texts) else dtype


def _fits(dtype: pa.DataType, column: Column) -> bool:
    if pa.types.is_string(dtype):
        return True
    return bool(pa.types.is_integer(dtype)) and (column.is_integer or _has_one_digit(column))


def _has_one_digit(column: Column) -> bool:
    """Whether a column's codes have one digit. Such codes may be integers; longer ones would lose leading zeros."""
    width = column.domain.width if isinstance(column.domain, Digits) else len(str(column.domain[0]))
    return width == 1


def _expected(column: Column) -> str:
    return "integers" if column.is_integer else "text with its leading zeros"
