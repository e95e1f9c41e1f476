"""What runs on Spark's executors: encoding before the shuffle, and counting after it.

Both are sent by value, so that executors need NumPy and PyArrow but not this package.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from phsafe.counting.kernel import Counted, Kernel
from phsafe.counting.records import Rows
from phsafe.engines.buckets import bucket_of

#: How many buckets keys are hashed to. Spark brings all rows of a bucket into one partition.
BUCKETS = 4096
#: The bucket of rows that hold what was counted before the shuffle.
FOUND = -1
#: Rows as they are shuffled: a packed row of a table, or what was found while rows were packed.
SHUFFLED = "bucket INT, key INT, `table` TINYINT, record BIGINT, raw STRING, found BINARY"
SHUFFLED_ARROW = pa.schema(
    [
        ("bucket", pa.int32()), ("key", pa.int32()), ("table", pa.int8()), ("record", pa.int64()),
        ("raw", pa.string()), ("found", pa.binary()),
    ]
)  # fmt: skip
#: What a partition gives back: the buckets that it held, and what was counted.
COUNTED = "buckets BINARY, counted BINARY"
COUNTED_ARROW = pa.schema([("buckets", pa.binary()), ("counted", pa.binary())])


@dataclass(frozen=True)
class EncodeTask:
    """Packs the rows of one table."""

    kernel: Kernel
    name: str
    number: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack some of the rows; the last row says what was found."""
        counted = Counted(self.kernel)
        for batch in batches:
            rows = self.kernel.encode(self.name, [batch], counted)
            yield self._shuffled(bucket_of(rows.key, BUCKETS), rows)
        found = pa.array([pickle.dumps(counted.to_plain())], pa.binary())
        nothing = Rows(np.zeros(1, np.int32), np.zeros(1, np.int64))
        yield self._shuffled(np.array([FOUND]), nothing, found)

    def _shuffled(self, bucket: np.ndarray, rows: Rows, found: pa.Array | None = None) -> pa.RecordBatch:
        columns = [
            pa.array(bucket.astype(np.int32)),
            pa.array(rows.key),
            pa.array(np.full(len(rows), self.number, np.int8)),
            pa.array(rows.record.astype(np.int64)),
            pa.nulls(len(rows), pa.string()) if rows.raw is None else rows.raw,
            pa.nulls(len(rows), pa.binary()) if found is None else found,
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SHUFFLED_ARROW)


@dataclass(frozen=True)
class CountTask:
    """Counts the rows of a partition, all tables together."""

    kernel: Kernel
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count a partition; check that each row is in the bucket of its key."""
        counted = Counted(self.kernel)
        parts: dict[str, list[Rows]] = {name: [] for name in self.names}
        seen = np.zeros(BUCKETS, dtype=bool)
        for batch in batches:
            bucket = batch["bucket"].to_numpy()
            for found in batch["found"].drop_null().to_pylist():
                counted.add_plain(pickle.loads(found))  # noqa: S301  (written by `EncodeTask`)
            key, record, raw = batch["key"].to_numpy(), batch["record"].to_numpy(), batch["raw"]
            rows = Rows(key, record, None if raw.null_count == len(raw) else raw)
            is_row = bucket != FOUND
            if bool((bucket_of(key[is_row], BUCKETS) != bucket[is_row]).any()):
                raise ValueError("a row is not in the bucket of its key")
            seen[bucket[is_row]] = True
            table = batch["table"].to_numpy()
            for number, name in enumerate(self.names):
                chosen = np.flatnonzero((table == number) & is_row)
                parts[name].append(self._narrow(name, rows.take(chosen)))
        tables = {name: self.kernel.concat(name, found).in_key_order() for name, found in parts.items()}
        self.kernel.count(tables["persons"], tables["units"], tables["geo"], counted)
        plain = [pickle.dumps(np.flatnonzero(seen)), pickle.dumps(counted.to_plain())]
        yield pa.RecordBatch.from_arrays([pa.array([one]) for one in plain], schema=COUNTED_ARROW)

    def _narrow(self, name: str, rows: Rows) -> Rows:
        return Rows(rows.key, rows.record.astype(self.kernel.formats[name].dtype), rows.raw)
