"""Rows in any order become partitions: spread over buckets by a hash of their key, then sorted bucket by bucket.

All rows of a key are in one bucket. The buckets of a large input are in temporary files, so that memory doesn't grow
with the input.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from phsafe.counting.households import OrderError
from phsafe.counting.records import Array, Rows
from phsafe.errors import PHSafeError

#: Rows of all tables in a bucket.
BUCKET_ROWS = 4_000_000
MOST_BUCKETS = 2**12
#: Knuth's multiplicative hash of 32 bits: keys that follow each other go to different buckets.
MULTIPLIER = 2654435769


def buckets_for(rows: int) -> int:
    """How many buckets to spread about so many rows over."""
    return min(-(-rows // BUCKET_ROWS), MOST_BUCKETS) or 1


def bucket_of(keys: Array, buckets: int) -> Array:
    """The bucket of each key."""
    hashed = keys.astype(np.uint32) * np.uint32(MULTIPLIER)
    return (hashed.astype(np.uint64) * np.uint64(buckets) >> np.uint64(32)).astype(np.uint16)


@dataclass(frozen=True)
class Block:
    """Rows in a file, bucket after bucket.

    Attributes:
        path: The file.
        offset: Where the rows begin in it.
        starts: For each bucket, the position of its first row; and the number of rows.
        raw: `Rows.raw` of these rows.

    """

    path: Path
    offset: int
    starts: Array
    raw: pa.StringArray | None


def row_type(record: np.dtype[Any]) -> np.dtype[Any]:
    """A row as it is in a file."""
    return np.dtype([("key", np.int32), ("record", record)])


def write_block(rows: Rows, buckets: int, path: Path) -> Block:
    """Append rows to a file, sorted by bucket. Only one process may write to the file."""
    bucket = bucket_of(rows.key, buckets)
    starts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=buckets))])
    rows = rows.take(np.argsort(bucket, kind="stable"))
    packed = np.empty(len(rows), row_type(rows.record.dtype))
    packed["key"], packed["record"] = rows.key, rows.record
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            offset = file.tell()
            file.write(packed.tobytes())
    except OSError as error:
        raise PHSafeError(
            f"no room is left in {path.parent.parent}; name another temp folder ({error.strerror})"
        ) from None
    return Block(path, offset, starts, rows.raw)


def read_bucket(blocks: Sequence[Block], bucket: int, record: np.dtype[Any]) -> Rows:
    """The rows of a bucket, in key order.

    Raises:
        OrderError: A key is not in the bucket that it belongs to.

    """
    rows = Rows.concat([*_read(blocks, bucket, record)], record).in_key_order()
    if blocks and bool((bucket_of(rows.key, len(blocks[0].starts) - 1) != bucket).any()):
        raise OrderError("expected every key in the bucket that it belongs to")
    return rows


def _read(blocks: Sequence[Block], bucket: int, record: np.dtype[Any]) -> Iterator[Rows]:
    row = row_type(record)
    files: dict[Path, int] = {}
    try:
        for block in blocks:
            start, end = int(block.starts[bucket]), int(block.starts[bucket + 1])
            if start == end:
                continue
            if block.path not in files:
                files[block.path] = os.open(block.path, os.O_RDONLY)
            place, size = block.offset + start * row.itemsize, (end - start) * row.itemsize
            content = os.pread(files[block.path], size, place)
            if len(content) < size:
                raise PHSafeError(f"a temporary file in {block.path.parent.parent} was cut short")
            packed = np.frombuffer(content, row)
            yield Rows(packed["key"], packed["record"], block.raw and block.raw.slice(start, end - start))
    except OSError as error:
        raise PHSafeError(
            f"a temporary file in {block.path.parent.parent} can't be read: {error.strerror}"
        ) from None
    finally:
        for file in files.values():
            os.close(file)
