"""The minimum that a Spark program does with the same tables: read, shuffle once by household, sort, discard.

    python benchmarks/bare_spark.py DATA KEY=VALUE…

DATA is a folder of persons, units and geo in Parquet; the rest are Spark settings. This script doesn't use PHSafe;
`benchmarks/spark.py` compares PHSafe's time with it.
"""

from __future__ import annotations

import sys
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit, xxhash64


def main() -> None:
    """Run the script."""
    data, *pairs = sys.argv[1:]
    settings = dict(pair.split("=", 1) for pair in pairs)
    session = SparkSession.builder.config(map=settings).getOrCreate()
    tables = [_narrow(session.read.parquet(f"{data}/{name}"), i) for i, name in enumerate(("persons", "units", "geo"))]
    rows = reduce(DataFrame.unionAll, tables).repartition("MAFID").sortWithinPartitions("MAFID")
    rows.write.format("noop").mode("overwrite").save()
    session.stop()


def _narrow(table: DataFrame, number: int) -> DataFrame:
    """A household key and a hash of all other columns: as many bytes as PHSafe shuffles."""
    others = [name for name in table.columns if name != "MAFID"]
    return table.select("MAFID", lit(number).alias("table"), xxhash64(*others).alias("record"))


if __name__ == "__main__":
    main()
