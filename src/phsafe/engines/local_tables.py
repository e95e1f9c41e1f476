"""Tables that this machine reads: queries of DuckDB, frames in memory, and Parquet files (`row_groups`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

#: Rows that are read and encoded at a time.
TASK_ROWS = 1_000_000


class LocalTable(Protocol):
    """A table that this machine reads."""

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""

    @property
    def rows(self) -> int:
        """About how many rows there are."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows."""


@dataclass(frozen=True)
class Query:
    """The result of a query."""

    sql: str
    schema: pa.Schema
    rows: int
    run: Callable[[str], Iterator[pa.RecordBatch]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `LocalTable`."""
        return self.run(self.sql)


@dataclass(frozen=True)
class Frame:
    """A frame in memory."""

    frame: pa.Table

    @property
    def schema(self) -> pa.Schema:
        """See `LocalTable`."""
        return self.frame.schema

    @property
    def rows(self) -> int:
        """See `LocalTable`."""
        return int(self.frame.num_rows)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `LocalTable`."""
        yield from self.frame.to_batches(TASK_ROWS)
