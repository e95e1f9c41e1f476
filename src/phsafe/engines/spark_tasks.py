"""The tasks that run on Spark executors: encoding before the shuffle, counting after it.

Their code is shipped by value, so executors need NumPy and PyArrow, but not this package.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from phsafe.counting.kernel import Kernel
from phsafe.counting.records import Array, Rows
from phsafe.engines.partitions import bucket_of

#: The number of buckets that keys are hashed to. Spark brings all rows of a bucket to one partition.
BUCKETS = 4096
#: The bucket number of rows that carry the results of encoding.
FOUND = -1
#: The schema of shuffled rows: either a packed row of a table, or the results of encoding.
SHUFFLED = "bucket INT, key INT, `table` TINYINT, record BIGINT, raw BINARY, wrong INT, found BINARY"
SHUFFLED_ARROW = pa.schema(
    [
        ("bucket", pa.int32()), ("key", pa.int32()), ("table", pa.int8()), ("record", pa.int64()),
        ("raw", pa.binary()), ("wrong", pa.int32()), ("found", pa.binary()),
    ]
)  # fmt: skip
#: The schema of results: the buckets that a partition held, and what it counted.
COUNTED = "buckets BINARY, counted BINARY"
COUNTED_ARROW = pa.schema([("buckets", pa.binary()), ("counted", pa.binary())])


def dumps(value: object) -> bytes:
    """Pickle an object of a class that was itself shipped by value."""
    from pyspark import cloudpickle  # noqa: PLC0415  (it is on every executor)

    return bytes(cloudpickle.dumps(value))


@dataclass(frozen=True)
class EncodeTask:
    """Packs the rows of one table."""

    kernel: Kernel
    name: str
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack some of the rows; the last row carries the results of encoding."""
        counted = self.kernel.empty()
        for batch in batches:
            batch.validate(full=True)  # Refuses text that is not UTF-8.
            rows = self.kernel.encode(self.name, [batch], counted)
            yield self._shuffled(bucket_of(rows.key, BUCKETS), rows, None)
        yield self._shuffled(np.array([FOUND]), Rows(np.zeros(1, np.int32), np.zeros(1, np.int64)), dumps(counted))

    def _shuffled(self, bucket: Array, rows: Rows, found: bytes | None) -> pa.RecordBatch:
        columns = [
            bucket.astype(np.int32), rows.key, np.full(len(rows), self.number, np.int8), rows.record.astype(np.int64),
            pa.nulls(len(rows), pa.binary()) if rows.raw is None else rows.raw,
            pa.nulls(len(rows), pa.int32()) if rows.wrong is None else rows.wrong.view(np.int32),
            [found] * len(rows),
        ]  # fmt: skip
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, SHUFFLED_ARROW, strict=True)],
            schema=SHUFFLED_ARROW,
        )


@dataclass(frozen=True)
class CountTask:
    """Counts the rows of a partition, all tables together."""

    kernel: Kernel
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count a partition, after checking that each row is in the bucket of its key."""
        counted, seen = self.kernel.empty(), np.zeros(BUCKETS, dtype=bool)
        parts: dict[str, list[Rows]] = {name: [] for name in self.names}
        for batch in batches:
            for found in batch["found"].drop_null().to_pylist():
                counted += pickle.loads(found)  # noqa: S301  (written by `EncodeTask`)
            bucket, key, table, record = (batch[name].to_numpy() for name in ("bucket", "key", "table", "record"))
            raw, wrong = (batch[n] if batch[n].null_count < len(batch) else None for n in ("raw", "wrong"))
            marks = None if wrong is None else wrong.fill_null(0).to_numpy().view(np.uint32)
            rows, is_row = Rows(key, record, raw, marks), bucket != FOUND
            if bool((bucket_of(key, BUCKETS) != bucket)[is_row].any()):
                raise ValueError("a row is not in the bucket of its key")
            seen[bucket[is_row]] = True
            for number, name in enumerate(self.names):
                chosen = rows.take(np.flatnonzero((table == number) & is_row))
                narrow = chosen.record.astype(self.kernel.formats[name].dtype)
                parts[name].append(Rows(chosen.key, narrow, chosen.raw, chosen.wrong))
        self.kernel.count(
            {name: self.kernel.concat(name, part).in_key_order() for name, part in parts.items()}, counted
        )
        result = [[dumps(np.flatnonzero(seen))], [dumps(counted)]]
        yield pa.RecordBatch.from_arrays([pa.array(one) for one in result], schema=COUNTED_ARROW)
