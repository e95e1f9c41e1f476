"""Parquet files that are sorted by key, cut into partitions at their row groups.

Where to cut is a guess from the files' statistics, and only a guess: while rows are read, each row group is held
against what its statistics say. A file that lies is counted another way, so that no statistics can hide a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from phsafe.counting.encode import LARGEST, SMALLEST
from phsafe.counting.households import OrderError
from phsafe.engines.local_tables import TASK_ROWS
from phsafe.errors import DataError

T = TypeVar("T")
#: Rows of all tables in a partition.
PARTITION_ROWS = 1_500_000
#: Row groups that two partitions share are read twice. Not worth it if more rows are read than this many times their
#: number.
MOST_READ = 1.5


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file.

    Attributes:
        path: The file.
        index: Its position in the file.
        rows: How many rows it has.
        keys: The smallest and the largest key, as the statistics say; None if they don't say.

    """

    path: Path
    index: int
    rows: int
    keys: tuple[int, int] | None

    @property
    def low(self) -> int:
        """The smallest key, if the statistics say."""
        assert self.keys is not None
        return self.keys[0]

    @property
    def high(self) -> int:
        """The largest key, if the statistics say."""
        assert self.keys is not None
        return self.keys[1]

    def overlaps(self, partition: KeyRange) -> bool:
        """Whether a key of the row group may lie in a partition."""
        return partition.low <= self.high and self.low < partition.high


@dataclass(frozen=True)
class KeyRange:
    """The keys from `low` up to, but not including, `high`."""

    low: float
    high: float


class ParquetFiles:
    """The Parquet files of one table. All have the same columns."""

    def __init__(self, files: Sequence[Path], key: str) -> None:
        self._key = key
        self._metadata = {file: _in_words(file, pq.read_metadata, file) for file in files}
        self.schema: pa.Schema = _in_words(files[0], pq.read_schema, files[0]).remove_metadata()
        groups = (group for file in files for group in _in_words(file, self._groups, file))
        self.groups = sorted(groups, key=lambda group: group.keys or (0, 0))
        self._texts = [column.name for column in self.schema if _is_text(column.type)]

    @property
    def rows(self) -> int:
        """See `phsafe.engines.local_tables.LocalTable`."""
        return sum(group.rows for group in self.groups)

    @property
    def has_integer_keys(self) -> bool:
        """Whether there is a household key, and it is stored as a whole number."""
        types = dict(zip(self.schema.names, self.schema.types, strict=True))
        return self._key in types and bool(pa.types.is_integer(types[self._key]))

    def _groups(self, file: Path) -> list[RowGroup]:
        metadata, found = self._metadata[file], []
        names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            statistics = group.column(names.index(self._key)).statistics if self.has_integer_keys else None
            keys: tuple[int, int] | None = None
            if statistics is not None and statistics.has_min_max:
                keys = (statistics.min, statistics.max)
            found.append(RowGroup(file, i, group.num_rows, keys))
        return found

    def batches(self) -> Iterator[pa.RecordBatch]:
        """See `phsafe.engines.local_tables.LocalTable`."""
        return self.read(self.groups, self.schema.names)

    def tasks(self) -> Iterator[list[RowGroup]]:
        """Row groups that are worth reading together."""
        groups: list[RowGroup] = []
        rows = 0
        for group in self.groups:
            groups.append(group)
            rows += group.rows
            if rows >= TASK_ROWS:
                yield groups
                groups, rows = [], 0
        yield groups

    def read(self, groups: Sequence[RowGroup], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of some row groups."""
        for group in groups:
            yield from self._read(group, columns)

    def _read(self, group: RowGroup, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows of a row group, texts as dictionaries; a large one in batches."""
        metadata = self._metadata[group.path]
        opened = partial(pq.ParquetFile, group.path, metadata=metadata, read_dictionary=self._texts)
        with _in_words(group.path, opened) as file:
            if group.rows <= 2 * TASK_ROWS:
                table = _in_words(group.path, file.read_row_group, group.index, columns, use_threads=False)
                batches = iter(table.to_batches())
            else:
                batches = file.iter_batches(TASK_ROWS, [group.index], columns, use_threads=False)
            while (batch := _in_words(group.path, next, batches, None)) is not None:
                _in_words(group.path, batch.validate, full=True)  # Texts that are not UTF-8 are refused here.
                yield batch

    def read_sorted(self, columns: Sequence[str], partition: KeyRange) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, in key order.

        Raises:
            OrderError: The rows are not in key order, or not between the keys that the statistics say.

        """
        for group in self.groups:
            if not group.overlaps(partition):
                continue
            last = group.low
            for batch in self._read(group, columns):
                keys = batch.column(self._key)
                if keys.null_count:
                    raise OrderError("expected a key in every row")
                numbers = keys.to_numpy()
                if len(numbers) == 0:
                    continue
                if numbers[0] < last or bool((numbers[1:] < numbers[:-1]).any()) or numbers[-1] > group.high:
                    raise OrderError("expected keys in order, and between those that the statistics say")
                last = int(numbers[-1])
                start, end = np.searchsorted(numbers, [partition.low, partition.high])
                yield batch.slice(start, end - start)


def _in_words(path: Path, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:  # noqa: ANN401
    """The result of some work on a file, or its failure in our words alone: others' text may quote records."""
    try:
        return work(*args, **kwargs)
    except (OSError, pa.ArrowException) as error:
        name = type(error).__name__
    raise DataError(f"{path}: can't be read or counted ({name})")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def partitions(tables: Mapping[str, ParquetFiles]) -> list[KeyRange] | None:
    """Key ranges to cut sorted tables into; None if they are small, or if their row groups are not in key order."""
    total = sum(table.rows for table in tables.values())
    if total < 2 * PARTITION_ROWS:
        return None
    if not all(table.has_integer_keys and _is_sorted(table.groups) for table in tables.values()):
        return None
    groups = [group for table in tables.values() for group in table.groups]

    def rows_read(ranges: list[KeyRange]) -> int:
        return sum(group.rows for one in ranges for group in groups if group.overlaps(one))

    ranges = min((_cuts(table.groups, total) for table in tables.values()), key=rows_read)
    return ranges if len(ranges) > 1 and rows_read(ranges) <= MOST_READ * total else None


def _is_sorted(groups: Sequence[RowGroup]) -> bool:
    """Whether each row group begins where the one before ends, or later. Keys that make no sense are in no order."""
    if any(group.keys is None for group in groups):
        return False
    if any(not SMALLEST <= group.low <= group.high <= LARGEST for group in groups):
        return False
    return all(one.high <= other.low for one, other in pairwise(groups))


def _cuts(groups: Sequence[RowGroup], total: int) -> list[KeyRange]:
    """Ranges of about `PARTITION_ROWS`, cut where row groups of one table begin. Every key is in exactly one."""
    wanted = sum(group.rows for group in groups) * PARTITION_ROWS / total
    cuts, rows = [-math.inf], 0
    for group in groups:
        if rows >= wanted and group.low > cuts[-1]:
            cuts.append(group.low)
            rows = 0
        rows += group.rows
    return [KeyRange(low, high) for low, high in pairwise([*cuts, math.inf])]
