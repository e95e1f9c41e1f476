"""Whether the columns of a table are those of its layout, whatever the format of the file."""

from __future__ import annotations

import pyarrow as pa

from phsafe.schema import Column, Digits, Layout

#: What users know a type as, where Arrow has another name.
NAMES = {"double": "float64", "float": "float32", "bool": "boolean", "halffloat": "float16"}


def column_problems(schema: pa.Schema, layout: Layout) -> list[str]:
    """Missing and repeated columns, and columns whose type can't hold the layout's values."""
    types = {column.name: plain_type(column.type) for column in schema}
    problems = [
        f"{layout.name}: column {column.name} is missing"
        for column in layout.columns
        if column.required and column.name not in types
    ]
    problems += [
        f"{layout.name}: expected column {column.name} once, got it again"
        for column in layout.columns
        if schema.names.count(column.name) > 1
    ]
    for column in layout.columns:
        if column.name in types and not _fits(types[column.name], column):
            found = NAMES.get(str(types[column.name]), str(types[column.name]))
            problems.append(f"{layout.name}: expected column {column.name} as {_expected(column)}, got {found}")
    return problems


def extra_columns(schema: pa.Schema, layout: Layout) -> int:
    """How many columns the layout doesn't have."""
    return len(set(schema.names) - set(layout.names))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """A type as it reads: dictionaries are their values, and all texts are one type."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return pa.string() if any(is_text(kind) for is_text in texts) else kind


def _fits(kind: pa.DataType, column: Column) -> bool:
    if pa.types.is_string(kind):
        return True
    return bool(pa.types.is_integer(kind)) and (column.is_integer or _has_one_digit(column))


def _has_one_digit(column: Column) -> bool:
    """Codes of one digit lose nothing as integers; longer ones lose their leading zeros."""
    width = column.domain.width if isinstance(column.domain, Digits) else len(str(column.domain[0]))
    return width == 1


def _expected(column: Column) -> str:
    return "integers" if column.is_integer else "text with its leading zeros"
