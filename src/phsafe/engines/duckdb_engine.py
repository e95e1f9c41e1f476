"""The engine for this machine: sorted Parquet is partitioned at row groups, and worker processes count partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

from phsafe.counting.households import OrderError
from phsafe.counting.kernel import Kernel
from phsafe.counting.records import Rows
from phsafe.counting.tallies import Counted
from phsafe.engines import partitions
from phsafe.readers.interfaces import EngineOptions
from phsafe.readers.local_tables import LocalReader, LocalTable
from phsafe.system.workers import cores, in_order

#: With fewer rows, starting worker processes takes longer than they save.
PARALLEL_ROWS = 12_000_000
#: The share of the work that is done when all rows of unsorted input are in buckets.
SPREAD = 0.7


class DuckDB(LocalReader):
    """Counts on this machine."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self._processes = options.threads or cores()

    def scan(self, tables: Mapping[str, LocalTable], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """See `Engine`. Files that turn out not to be sorted as their statistics claim are counted as unsorted."""
        rows = max(1, sum(table.rows for table in tables.values()))
        jobs, is_large = self._processes if rows >= PARALLEL_ROWS else 1, rows >= 2 * partitions.PARTITION_ROWS
        groups = {n: partitions.row_groups(t.files) for n, t in tables.items() if t.files and is_large}
        in_key_order = {name: table for name, table in groups.items() if table is not None}
        ranges = partitions.cut([*in_key_order.values()]) if len(in_key_order) == len(tables) else None
        if ranges is not None:
            with suppress(OrderError):
                counted = _total(kernel, partitions.SortedPartition(kernel, in_key_order), ranges, jobs, progress)
                if counted.rows == {name: table.rows for name, table in tables.items()}:
                    return counted
        return self._scan_unsorted(tables, kernel, rows, jobs, progress)

    def _scan_unsorted(
        self, tables: Mapping[str, LocalTable], kernel: Kernel, rows: int, jobs: int, progress: Callable[[float], None]
    ) -> Counted:
        """Encode all rows, distribute them to buckets, and count bucket by bucket. A small input stays in memory."""
        counted, number = kernel.empty(), -(-rows // partitions.BUCKET_ROWS)

        def encoded(name: str) -> Iterator[Rows]:
            for batch in tables[name].batches():
                yield kernel.encode(name, [batch], counted)
                progress(SPREAD * min(1.0, counted.rows.total() / rows))

        if number == 1:
            return kernel.count({n: kernel.concat(n, [*encoded(n)]).in_key_order() for n in tables}, counted)
        buckets = {}
        for name in tables:
            buckets[name] = partitions.Buckets(self._scratch.path / f"{name}.rows", number, kernel.formats[name].dtype)
            for part in encoded(name):
                buckets[name].add(part)
        work = partitions.BucketPartition(kernel, buckets)
        counted += _total(kernel, work, range(number), jobs, lambda done: progress(SPREAD + (1 - SPREAD) * done))
        return counted


def _total(
    kernel: Kernel, work: Callable[[Any], Counted], tasks: Sequence[Any], jobs: int, progress: Callable[[float], None]
) -> Counted:
    """Count all partitions and add up the results."""
    total = kernel.empty()
    with closing(in_order(work, tasks, jobs)) as parts:
        for done, counted in enumerate(parts, start=1):
            total += counted
            progress(done / len(tasks))
    return total
