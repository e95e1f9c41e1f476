"""Spark on a cluster: one shuffle that brings the rows of a key together, and the kernel on the executors."""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import numpy as np

from phsafe.counting.counted import Counted
from phsafe.counting.kernel import Kernel
from phsafe.engines.spark_tasks import BUCKETS, COUNTED, SHUFFLED, CountTask, EncodeTask
from phsafe.errors import PHSafeError
from phsafe.readers.spark import SparkReader, SparkTable


class Spark(SparkReader):
    """The engine of a cluster."""

    def scan(self, tables: Mapping[str, SparkTable], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """See `Engine`. Rows are packed where they are read, and shuffled once, by bucket."""
        with self._in_words(), _by_value():
            packed = [
                table.frame.select(*_wanted(kernel, name, table)).mapInArrow(EncodeTask(kernel, name, number), SHUFFLED)
                for number, (name, table) in enumerate(tables.items())
            ]
            rows = reduce(lambda one, other: one.unionAll(other), packed).repartition("bucket")
            found = rows.mapInArrow(CountTask(kernel, tuple(tables)), COUNTED).toArrow().to_pylist()
        progress(1.0)
        return _added(kernel, found)


def _wanted(kernel: Kernel, name: str, table: SparkTable) -> list[str]:
    """The columns of a table that the kernel looks at."""
    known = set(kernel.encoders[name].layout.names)
    return [f"`{column}`" for column in table.schema.names if column in known]


def _added(kernel: Kernel, found: Sequence[Mapping[str, bytes]]) -> Counted:
    """The sum over partitions, each bucket of which must be in one partition only."""
    total, times = kernel.nothing(), np.zeros(BUCKETS, np.int64)
    for row in found:
        times[pickle.loads(row["buckets"])] += 1  # noqa: S301  (written by our own tasks)
        total += pickle.loads(row["counted"])  # noqa: S301
    if times.max() > 1:
        raise PHSafeError("Spark delivered rows of one key in several partitions, so they can't be counted")
    return total


@contextlib.contextmanager
def _by_value() -> Iterator[None]:
    """While the context lasts, our code is sent to executors as it is here: they need not have this package."""
    from pyspark import cloudpickle  # noqa: PLC0415  (PySpark is an extra)

    package = sys.modules[__name__.partition(".")[0]]

    if package.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(package)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(package)
