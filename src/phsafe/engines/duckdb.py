"""This machine as the engine: sorted Parquet is cut at its row groups, and processes share the partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from phsafe.counting.counted import Counted
from phsafe.counting.households import OrderError
from phsafe.counting.kernel import Kernel
from phsafe.counting.records import Rows
from phsafe.engines.partitions import (
    BUCKET_ROWS,
    PARTITION_ROWS,
    BucketPartition,
    Buckets,
    SortedPartition,
    cut,
    row_groups,
)  # fmt: skip
from phsafe.readers.local import LocalReader, LocalTable
from phsafe.readers.options import EngineOptions
from phsafe.workers import cores, in_order

#: With fewer rows, further processes take longer to start than they save.
PARALLEL_ROWS = 12_000_000
#: The share of the work that is done when rows in any order are spread over buckets.
SPREAD = 0.7


class DuckDB(LocalReader):
    """The engine of this machine."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._processes = options.threads or cores()

    def scan(self, tables: Mapping[str, LocalTable], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """See `Engine`. Files that are not as sorted as their statistics say are counted like rows in any order."""
        rows = max(1, sum(table.rows for table in tables.values()))
        jobs = self._processes if rows >= PARALLEL_ROWS else 1
        groups = {n: row_groups(t.files) for n, t in tables.items() if t.files and rows >= 2 * PARTITION_ROWS}
        in_key_order = {name: table for name, table in groups.items() if table is not None}
        ranges = cut([*in_key_order.values()]) if len(in_key_order) == len(tables) else None
        if ranges is not None:
            with suppress(OrderError):
                counted = _added(kernel, SortedPartition(kernel, in_key_order), ranges, jobs, progress)
                if counted.rows == {name: table.rows for name, table in tables.items()}:
                    return counted
        return self._scan_unsorted(tables, kernel, rows, jobs, progress)

    def _scan_unsorted(
        self,
        tables: Mapping[str, LocalTable],
        kernel: Kernel,
        rows: int,
        jobs: int,
        progress: Callable[[float], None],
    ) -> Counted:
        """Encode all rows, spread them over buckets, and count bucket by bucket; a small input stays in memory."""
        counted, number = kernel.nothing(), -(-rows // BUCKET_ROWS)

        def encoded(name: str) -> Iterator[Rows]:
            for batch in tables[name].batches():
                yield kernel.encode(name, [batch], counted)
                progress(SPREAD * min(1.0, counted.rows.total() / rows))

        if number == 1:
            return kernel.count({n: kernel.concat(n, [*encoded(n)]).in_key_order() for n in tables}, counted)
        buckets = {}
        for name in tables:
            buckets[name] = Buckets(self._scratch.path / f"{name}.rows", number, kernel.formats[name].dtype)
            for part in encoded(name):
                buckets[name].add(part)
        work = BucketPartition(kernel, buckets)
        counted += _added(kernel, work, range(number), jobs, lambda done: progress(SPREAD + (1 - SPREAD) * done))
        return counted


def _added(
    kernel: Kernel,
    work: Callable[[Any], Counted],
    tasks: Sequence[Any],
    jobs: int,
    progress: Callable[[float], None],
) -> Counted:
    """The sum over all partitions."""
    total = kernel.nothing()
    with closing(in_order(work, tasks, jobs)) as parts:
        for done, counted in enumerate(parts, start=1):
            total += counted
            progress(done / len(tasks))
    return total
