"""The same count with other systems: people in households by tenure (PH7) for each state, with zCDP.

    phsafe synth DATA --households 100000 --states 06,56
    python benchmarks/peers.py phsafe DATA       # in PHSafe's environment
    python benchmarks/peers.py opendp DATA       # in an environment with `pip install "opendp[polars]" pyarrow`
    python benchmarks/peers.py tumult DATA       # in an environment with `pip install tmlt.analytics`, and Java

The work: join persons with units and their state, keep at most 10 people of a household, count three kinds of tenure in
two states, and add discrete Gaussian noise for ρ = 0.1 when one person's record is added or removed. Prints one line of
JSON: the noise that the system chose, seconds of the clock and of its processors, and the largest memory.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import tempfile
import time
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

RHO, TAU, STATES = "0.1", 10, ("06", "56")
KINDS = {"1": 2, "2": 3, "3": 4, "4": 4}


def phsafe(data: Path) -> dict[str, Any]:
    """PHSafe, in the mode that a user gets and in the one with the smallest proven sensitivity."""
    import phsafe as program

    document = program.config("us").to_production()
    for name, levels in document["privacy_budget"].items():
        levels.update({key: Decimal(RHO) if (name, key) == ("PH7", "state_*") else 0 for key in levels})
    document |= {"state_filter": list(STATES)}
    found = {}
    for mode in ("published", "tight"):
        config = program.Config.load(document | {"sensitivity": mode})
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            program.release(config, data, out / "release", ledger=out / "population.ledger", new_ledger=True)
            release = program.Release.open(out / "release")
            found[f"deviation, {mode}"] = math.sqrt(release.table("PH7")["VARIANCE"][0])
    return {"version": version("phsafe"), **found}


def opendp(data: Path) -> dict[str, Any]:
    """OpenDP's Polars interface, without a private join: the curator joins, truncates and states the contribution."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    persons, units, geo = (pl.scan_parquet(data / name / "*.parquet") for name in ("persons", "units", "geo"))
    kept = persons.filter(pl.col("RTYPE") == 3).filter(pl.int_range(pl.len()).over("MAFID") < TAU)
    kinds = pl.col("TEN").replace_strict(KINDS, default=0, return_dtype=pl.Int64)
    joined = (
        kept.join(units, on="MAFID").join(geo.select("MAFID", "TABBLKST"), on="MAFID").select("TABBLKST", CELL=kinds)
    )
    by = ("TABBLKST", "CELL")
    # One person changes the unit's own row, and so the cell of all its people: τ rows go and τ rows come.
    units_of_privacy = {
        "2τ rows": 2 * TAU,
        "τ rows in each of 2 groups": [dp.polars.Bound(by=by, per_group=TAU, num_groups=2)],
    }
    found = {}
    for name, contributions in units_of_privacy.items():
        context = dp.Context.compositor(
            data=joined.collect().lazy(), privacy_unit=dp.unit_of(contributions=contributions),
            privacy_loss=dp.loss_of(rho=float(RHO)), split_evenly_over=1,
            margins=[dp.polars.Margin(by=by, invariant="keys")],
        )  # fmt: skip
        query = context.query().group_by(*by).agg(dp.len())
        query.release().collect()
        found[f"deviation, {name}"] = query.summarize()["scale"][0]
    return {"version": version("opendp"), **found}


def tumult(data: Path) -> dict[str, Any]:
    """Tumult Analytics, with its private join."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f
    from tmlt.analytics import AddMaxRows, AddOneRow, KeySet, QueryBuilder, RhoZCDPBudget, Session, TruncationStrategy

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    persons, units, geo = (spark.read.parquet(str(data / name)) for name in ("persons", "units", "geo"))
    kinds = f.create_map([f.lit(part) for pair in KINDS.items() for part in pair])
    located = units.join(geo.select("MAFID", "TABBLKST"), "MAFID").withColumn("CELL", kinds[f.col("TEN")].cast("long"))
    keys = KeySet.from_dict({"TABBLKST": list(STATES), "CELL": [2, 3, 4]})
    query = (
        QueryBuilder("persons")
        .join_private("units", TruncationStrategy.DropExcess(TAU), TruncationStrategy.DropExcess(1), ["MAFID"])
        .groupby(keys)
        .count()
    )
    budget, found = RhoZCDPBudget(float(RHO)), {}
    # A unit whose people change has another row: one row of the table, or one that goes and one that comes.
    for name, change in (("a unit's row added", AddOneRow()), ("a unit's row replaced", AddMaxRows(2))):
        session = (
            Session.Builder()
            .with_privacy_budget(budget)
            .with_private_dataframe("persons", persons.filter("RTYPE = 3").select("MAFID"), AddOneRow())
            .with_private_dataframe("units", located.select("MAFID", "TABBLKST", "CELL").na.fill(0), change)
            .build()
        )
        (noise,) = session._noise_info(query, budget)
        found[f"deviation, {name}"] = math.sqrt(noise["noise_parameter"])
        session.evaluate(query, budget).toPandas()
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    # So that its time and memory are counted.
    gateway.proc.stdin.close()
    gateway.proc.wait()
    return {"version": version("tmlt.analytics"), **found}


SYSTEMS = {one.__name__: one for one in (phsafe, opendp, tumult)}


def main() -> None:
    """Run one system and print what it took."""
    system, data = sys.argv[1:]
    start = time.perf_counter()
    found = SYSTEMS[system](Path(data))
    seconds = time.perf_counter() - start
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    memory = max(one.ru_maxrss for one in used) / 1024
    print(
        json.dumps({"system": system, **found, "seconds": round(seconds, 1), "cpu": round(cpu, 1), "MB": round(memory)})
    )


if __name__ == "__main__":
    main()
