"""The Spark engine: one shuffle brings the rows of each household key together, and executors run the kernel."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import numpy as np

from phsafe.counting.kernel import Kernel
from phsafe.counting.tallies import Counted
from phsafe.engines.spark_tasks import BUCKETS, COUNTED, SHUFFLED, CountTask, EncodeTask
from phsafe.errors import PHSafeError
from phsafe.readers.spark_tables import SparkReader, SparkTable


class Spark(SparkReader):
    """Counts on a Spark cluster."""

    def scan(self, tables: Mapping[str, SparkTable], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """See `Engine`. Executors pack rows as they read them; packed rows are shuffled once, by bucket."""
        from pyspark import cloudpickle  # noqa: PLC0415  (PySpark is an extra)

        # Ship this package's code with the tasks, so that executors need not have it installed.
        cloudpickle.register_pickle_by_value(sys.modules[__name__.partition(".")[0]])
        packed = []
        with self._translate_errors():
            for number, (name, table) in enumerate(tables.items()):
                wanted = [f"`{column}`" for column in table.schema.names if column in kernel.encoders[name].names]
                packed.append(table.frame.select(*wanted).mapInArrow(EncodeTask(kernel, name, number), SHUFFLED))
            rows = reduce(lambda one, other: one.unionAll(other), packed).repartition("bucket")
            found = rows.mapInArrow(CountTask(kernel, tuple(tables)), COUNTED).toArrow().to_pylist()
        progress(1.0)
        return _total(kernel, found)


def _total(kernel: Kernel, found: Sequence[Mapping[str, bytes]]) -> Counted:
    """Add up the results of all partitions. Refuse if a bucket was split across partitions."""
    total, times = kernel.empty(), np.zeros(BUCKETS, np.int64)
    for row in found:
        times[pickle.loads(row["buckets"])] += 1  # noqa: S301  (written by our own tasks)
        total += pickle.loads(row["counted"])  # noqa: S301
    if times.max() > 1:
        raise PHSafeError("Spark delivered rows of one household key in several partitions, so they can't be counted")
    return total
