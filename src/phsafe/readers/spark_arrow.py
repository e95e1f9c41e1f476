"""Conversions between Arrow's and Spark's types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_LARGEST = 2**63 - 1


def schema_of(schema: Any) -> pa.Schema:  # noqa: ANN401
    """Convert a Spark schema to an Arrow schema."""
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415  (PySpark is an extra)

    columns = []
    for column in schema.fields:
        try:
            columns.append((column.name, to_arrow_type(column.dataType)))
        except Exception:  # Arrow has no such type, and neither has any column of a layout.
            columns.append((column.name, pa.null()))
    return pa.schema(columns)


def plain(frame: pa.Table) -> pa.Table:
    """Convert dictionaries, string views and unsigned integers to types that Spark has."""
    return pa.table([_plain(column) for column in frame.columns], names=frame.column_names)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    dtype = column.type
    if pa.types.is_large_string(dtype) or pa.types.is_string_view(dtype):
        return column.cast(pa.string())
    if dtype in _SIGNED:
        return column.cast(_SIGNED[dtype])
    if pa.types.is_uint64(dtype):
        # Spark can't represent larger numbers, and no column of a layout has any.
        fits = pc.less_equal(column, pa.scalar(_LARGEST, pa.uint64()))
        return pc.if_else(fits, column, pa.scalar(None, pa.uint64())).cast(pa.int64())
    return column
