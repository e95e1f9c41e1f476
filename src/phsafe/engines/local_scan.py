"""One scan on this machine: tables become partitions in key order, and processes hand them to the kernel.

Sorted Parquet is cut at its row groups. Rows in any other order are encoded, spread over buckets and sorted bucket by
bucket. Small inputs are one bucket, in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from phsafe.counting.households import OrderError
from phsafe.counting.kernel import Counted, Kernel
from phsafe.counting.records import Rows
from phsafe.engines.buckets import Block, buckets_for, read_bucket, write_block
from phsafe.engines.local_tables import LocalTable
from phsafe.engines.row_groups import KeyRange, ParquetFiles, RowGroup, partitions
from phsafe.workers import in_order

#: With fewer rows, further processes take longer to start than they save.
PARALLEL_ROWS = 12_000_000
#: The share of the work that is done when rows in any order are spread over buckets.
SPREAD = 0.7
#: What a process counted: `Counted.to_plain`.
Plain = dict[str, Any]


@dataclass(frozen=True)
class LocalScan:
    """The work of one scan.

    Attributes:
        tables: Persons, units and geo.
        kernel: What to do with a partition.
        processes: How many partitions to count at a time.
        folder: Where to put temporary files.
        progress: Told the share of the work that is done.

    """

    tables: Mapping[str, LocalTable]
    kernel: Kernel
    processes: int
    folder: Path
    progress: Callable[[float], None]

    def run(self) -> Counted:
        """Count all rows."""
        files = {name: table for name, table in self.tables.items() if isinstance(table, ParquetFiles)}
        ranges = partitions(files) if len(files) == len(self.tables) else None
        if ranges is not None:
            try:
                return self._sorted(files, ranges)
            except OrderError:
                pass  # The files are not what their statistics say. They are counted like rows in any order.
        return self._unsorted()

    @property
    def _rows(self) -> int:
        return max(1, sum(table.rows for table in self.tables.values()))

    @property
    def _jobs(self) -> int:
        return self.processes if self._rows >= PARALLEL_ROWS else 1

    def _sorted(self, files: Mapping[str, ParquetFiles], ranges: Sequence[KeyRange]) -> Counted:
        total = Counted(self.kernel)
        with closing(in_order(SortedPartition(self.kernel, files), ranges, self._jobs)) as counts:
            for done, plain in enumerate(counts, start=1):
                total.add_plain(plain)
                self.progress(done / len(ranges))
        if total.rows != {name: table.rows for name, table in files.items()}:
            raise OrderError("expected every row in one partition")
        return total

    def _unsorted(self) -> Counted:
        total, number = Counted(self.kernel), buckets_for(self._rows)
        parts: dict[str, list[Any]] = {name: [] for name in self.tables}
        for name, table in self.tables.items():
            spread = Spread(self.kernel, name, table, number, self.folder)
            with closing(in_order(spread, *self._tasks(table))) as spreads:
                for plain, part in spreads:
                    total.add_plain(plain)
                    parts[name].append(part)
                    self.progress(SPREAD * min(1.0, sum(total.rows.values()) / self._rows))
        if number == 1:
            rows = {name: self.kernel.concat(name, parts[name]).in_key_order() for name in parts}
            self.kernel.count(rows["persons"], rows["units"], rows["geo"], total)
            return total
        with closing(in_order(Bucket(self.kernel, parts), range(number), self._jobs)) as counts:
            for done, plain in enumerate(counts, start=1):
                total.add_plain(plain)
                self.progress(SPREAD + (1 - SPREAD) * done / number)
        return total

    def _tasks(self, table: LocalTable) -> tuple[Iterable[Any], int]:
        """What to read at a time, and in how many processes. Rows that come through this process stay in it."""
        if isinstance(table, ParquetFiles):
            return table.tasks(), self._jobs
        return table.batches(), 1


def _columns(kernel: Kernel, name: str, schema: pa.Schema) -> list[str]:
    """The columns of a table that the kernel looks at."""
    wanted = set(kernel.encoders[name].layout.names)
    return [column for column in schema.names if column in wanted]


@dataclass(frozen=True)
class SortedPartition:
    """Counts a partition of sorted files."""

    kernel: Kernel
    files: Mapping[str, ParquetFiles]

    def __call__(self, partition: KeyRange) -> Plain:
        """Read and count the rows of a key range."""
        counted, rows = Counted(self.kernel), {}
        for name, table in self.files.items():
            batches = table.read_sorted(_columns(self.kernel, name, table.schema), partition)
            rows[name] = self.kernel.encode(name, batches, counted)
        self.kernel.count(rows["persons"], rows["units"], rows["geo"], counted)
        return counted.to_plain()


@dataclass(frozen=True)
class Spread:
    """Encodes some rows of a table, and spreads them over buckets."""

    kernel: Kernel
    name: str
    table: LocalTable
    buckets: int
    folder: Path

    def __call__(self, task: Sequence[RowGroup] | pa.RecordBatch) -> tuple[Plain, Rows | Block]:
        """Encode row groups, or rows that are at hand; the result is in memory if there is one bucket."""
        counted = Counted(self.kernel)
        if isinstance(self.table, ParquetFiles):
            batches = self.table.read(task, _columns(self.kernel, self.name, self.table.schema))
        else:
            batches = iter([task])
        rows = self.kernel.encode(self.name, batches, counted)
        if self.buckets == 1:
            return counted.to_plain(), rows
        return counted.to_plain(), write_block(
            rows, self.buckets, self.folder / f"{self.name}-{os.getpid()}.rows"
        )


@dataclass(frozen=True)
class Bucket:
    """Counts a bucket."""

    kernel: Kernel
    blocks: Mapping[str, Sequence[Block]]

    def __call__(self, bucket: int) -> Plain:
        """Read, sort and count the rows of a bucket."""
        counted, formats = Counted(self.kernel), self.kernel.formats
        rows = {
            name: read_bucket(blocks, bucket, formats[name].dtype) for name, blocks in self.blocks.items()
        }
        self.kernel.count(rows["persons"], rows["units"], rows["geo"], counted)
        return counted.to_plain()
