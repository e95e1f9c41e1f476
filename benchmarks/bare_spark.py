"""The least that a program on Spark can do with the same tables: read, one shuffle by household, sort, and no result.

    python benchmarks/bare_spark.py DATA KEY=VALUE…

DATA is a folder of persons, units and geo in Parquet; the rest are settings of Spark. Nothing of PHSafe runs here.
`benchmarks/spark.py` holds the time of PHSafe against the time of this.
"""

from __future__ import annotations

import sys
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit, xxhash64


def main() -> None:
    """Run it."""
    data, *words = sys.argv[1:]
    settings = dict(word.split("=", 1) for word in words)
    session = SparkSession.builder.config(map=settings).getOrCreate()
    tables = [_narrow(session.read.parquet(f"{data}/{name}"), i) for i, name in enumerate(("persons", "units", "geo"))]
    rows = reduce(DataFrame.unionAll, tables).repartition("MAFID").sortWithinPartitions("MAFID")
    rows.write.format("noop").mode("overwrite").save()
    session.stop()


def _narrow(table: DataFrame, number: int) -> DataFrame:
    """A key and a number made of all other columns, as PHSafe shuffles them."""
    others = [name for name in table.columns if name != "MAFID"]
    return table.select("MAFID", lit(number).alias("table"), xxhash64(*others).alias("record"))


if __name__ == "__main__":
    main()
