"""Partitioning on this machine: sorted Parquet is cut between row groups; unsorted rows are distributed to buckets.

Parquet statistics suggest where to cut, but they are not trusted: each row group is checked against its statistics
while it is read, so that false statistics can't hide a row.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from phsafe.counting.encode import LARGEST, SMALLEST
from phsafe.counting.households import OrderError
from phsafe.counting.kernel import Kernel
from phsafe.counting.records import Array, Rows, numbers
from phsafe.counting.tallies import Counted
from phsafe.errors import PHSafeError
from phsafe.model.schema import KEY
from phsafe.readers.local_tables import read_row_group

#: Target number of rows, over all tables, in a partition of sorted files and in a bucket.
PARTITION_ROWS, BUCKET_ROWS = 1_500_000, 4_000_000
#: A row group that overlaps two partitions is read twice. Don't cut if this multiplies the rows read by more than this.
MAX_REREAD = 1.5
#: Knuth's 32-bit multiplicative hash: consecutive keys go to different buckets.
MULTIPLIER = 2654435769


class KeyRange(NamedTuple):
    """The keys from `low` up to, but not including, `high`."""

    low: float
    high: float


class RowGroup(NamedTuple):
    """A row group of a Parquet file, with the smallest and the largest key according to its statistics."""

    low: int
    high: int
    rows: int
    path: Path
    number: int

    def overlaps(self, keys: KeyRange) -> bool:
        """Whether the row group may contain keys of a range."""
        return keys.low <= self.high and self.low < keys.high


def row_groups(files: Sequence[Path]) -> list[RowGroup] | None:
    """The row groups of a table's files in key order; None if the statistics don't show that they can be ordered."""
    groups = []
    for path in files:
        metadata = pq.read_metadata(path)
        names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            keys = group.column(names.index(KEY)).statistics
            if keys is None or not keys.has_min_max or not isinstance(keys.min, int):
                return None
            if not SMALLEST <= keys.min <= keys.max <= LARGEST:
                return None
            groups.append(RowGroup(keys.min, keys.max, group.num_rows, path, i))
    groups.sort()
    return groups if all(one.high <= other.low for one, other in pairwise(groups)) else None


def cut(tables: Sequence[Sequence[RowGroup]]) -> list[KeyRange] | None:
    """Key ranges of about `PARTITION_ROWS` rows that together cover all keys; None if cutting is not worthwhile."""
    groups = [group for table in tables for group in table]
    total = sum(group.rows for group in groups)

    def rows_read(ranges: list[KeyRange]) -> int:
        return sum(group.rows for keys in ranges for group in groups if group.overlaps(keys))

    ranges = min((_ranges(table, max(1, total)) for table in tables), key=rows_read)
    return ranges if len(ranges) > 1 and rows_read(ranges) <= MAX_REREAD * total else None


def _ranges(groups: Sequence[RowGroup], total: int) -> list[KeyRange]:
    """Key ranges that start where row groups of one table start."""
    wanted = sum(group.rows for group in groups) * PARTITION_ROWS / total
    cuts, rows = [-math.inf], 0
    for group in groups:
        if rows >= wanted and group.low > cuts[-1]:
            cuts.append(group.low)
            rows = 0
        rows += group.rows
    return [KeyRange(low, high) for low, high in pairwise([*cuts, math.inf])]


@dataclass(frozen=True)
class SortedPartition:
    """Counts a key range of sorted files. Raises `OrderError` if they are not sorted after all."""

    kernel: Kernel
    tables: Mapping[str, Sequence[RowGroup]]

    def __call__(self, keys: KeyRange) -> Counted:
        """Read and count."""
        counted = self.kernel.empty()
        rows = {name: self.kernel.encode(name, self._read(name, keys), counted) for name in self.tables}
        return self.kernel.count(rows, counted)

    def _read(self, name: str, keys: KeyRange) -> Iterator[pa.RecordBatch]:
        for group in self.tables[name]:
            if not group.overlaps(keys):
                continue
            last = group.low
            for batch in read_row_group(group.path, group.number, self.kernel.encoders[name].names):
                if batch.column(KEY).null_count or not pa.types.is_integer(batch.column(KEY).type):
                    raise OrderError("expected a whole number as the key of every row")
                found = numbers(batch.column(KEY))
                in_order = bool((found[1:] >= found[:-1]).all())
                if len(found) and (found[0] < last or found[-1] > group.high or not in_order):
                    raise OrderError("expected keys in order and within the bounds of the statistics")
                last = found[-1] if len(found) else last
                start, end = np.searchsorted(found, keys)
                yield batch.slice(start, end - start)


def bucket_of(keys: Array, buckets: int) -> Array:
    """The bucket of each key."""
    hashed = keys.astype(np.uint32) * np.uint32(MULTIPLIER)
    return (hashed.astype(np.uint64) * np.uint64(buckets) >> np.uint64(32)).astype(np.uint16)


class BucketBlock(NamedTuple):
    """Rows in a bucket file, sorted by bucket: their offset in the file, and where each bucket starts among them.

    `raw` and `wrong`, which few rows have, stay in memory.
    """

    offset: int
    starts: Array
    raw: pa.BinaryArray | None
    wrong: Array | None


class Buckets:
    """The rows of one table in a temporary file, distributed to buckets by a hash of their key."""

    def __init__(self, path: Path, number: int, record: np.dtype[Any]) -> None:
        self._path, self._number, self._blocks = path, number, list[BucketBlock]()
        self._row = np.dtype([("key", np.int32), ("record", record)])

    def add(self, rows: Rows) -> None:
        """Append rows to the file, sorted by bucket."""
        bucket = bucket_of(rows.key, self._number)
        rows = rows.take(np.argsort(bucket, kind="stable"))
        packed = np.empty(len(rows), self._row)
        packed["key"], packed["record"] = rows.key, rows.record
        starts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=self._number))])
        try:
            with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
                self._blocks.append(BucketBlock(file.tell(), starts, rows.raw, rows.wrong))
                file.write(packed.tobytes())
        except OSError as error:
            folder, why = self._path.parent.parent, error.strerror
            raise PHSafeError(f"can't write to {folder}: {why}; free space or name another temporary folder") from None

    def partition(self, bucket: int) -> Rows:
        """The rows of a bucket in key order. Raises `OrderError` if a row does not belong to the bucket."""
        rows = Rows.concat([*self._read(bucket)], self._row["record"]).in_key_order()
        if bool((bucket_of(rows.key, self._number) != bucket).any()):
            raise OrderError("expected every key in the bucket of its hash")
        return rows

    def _read(self, bucket: int) -> Iterator[Rows]:
        size = self._row.itemsize
        if not self._blocks:
            return  # A table without rows has no file.
        try:
            with self._path.open("rb") as file:
                for block in self._blocks:
                    start, end = map(int, block.starts[bucket : bucket + 2])
                    content = os.pread(file.fileno(), (end - start) * size, block.offset + start * size)
                    if len(content) < (end - start) * size:
                        raise OSError(errno.EIO, "it was truncated")
                    packed = np.frombuffer(content, self._row)
                    raw, wrong = (None if column is None else column[start:end] for column in (block.raw, block.wrong))
                    yield Rows(packed["key"], packed["record"], raw, wrong)
        except OSError as error:
            found = f"a temporary file in {self._path.parent.parent} can't be read: {error.strerror}"
            raise PHSafeError(f"{found}; name another temporary folder") from None


@dataclass(frozen=True)
class BucketPartition:
    """Counts the rows of one bucket."""

    kernel: Kernel
    tables: Mapping[str, Buckets]

    def __call__(self, bucket: int) -> Counted:
        """Read, sort and count."""
        rows = {name: buckets.partition(bucket) for name, buckets in self.tables.items()}
        return self.kernel.count(rows, self.kernel.empty())
