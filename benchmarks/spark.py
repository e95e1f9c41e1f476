"""What a run on Spark moves and costs: shuffle bytes, processor seconds and spill, from Spark's own event log.

    python benchmarks/spark.py WORK --households 200000 1000000

Makes the households in the folder WORK if they aren't there, tabulates them on Spark and on DuckDB, and compares the
files byte for byte. Figures for each household are what sizes a cluster; see docs/spark.md.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from phsafe.synthesis import synth

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "examples" / "us.json"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "8",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--households", type=int, nargs="+", default=[200_000])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--validate", action="store_true", help="validate first, as a release does")
    arguments = parser.parse_args()
    for number in arguments.households:
        print(
            json.dumps(measure(arguments.work, number, arguments.master, arguments.validate), indent=1),
            flush=True,
        )


def measure(work: Path, households: int, master: str, validate: bool) -> dict[str, object]:
    """The figures of one size."""
    data, log = work / f"data-{households}", work / f"log-{households}"
    work.mkdir(parents=True, exist_ok=True)
    if not data.exists():
        synth(data, households)
    out = {engine: work / f"out-{engine}-{households}" for engine in ("spark", "duckdb")}
    for folder in (*out.values(), log):
        shutil.rmtree(folder, ignore_errors=True)
    log.mkdir(parents=True)
    settings = SETTINGS | {"spark.eventLog.dir": log.absolute().as_uri(), "spark.master": master}
    words = [word for key, value in settings.items() for word in ("--spark-conf", f"{key}={value}")]
    skip = () if validate else ("--skip-validation",)
    spark = run("tabulate", CONFIG, data, out["spark"], "--engine", "spark", *skip, *words)
    duckdb = run("tabulate", CONFIG, data, out["duckdb"], *skip)
    files = sorted(str(path.relative_to(out["duckdb"])) for path in out["duckdb"].rglob("*.csv"))
    _, different, missing = filecmp.cmpfiles(*out.values(), files, shallow=False)
    totals = metrics(log)
    return {
        "households": households, "same bytes": not different and not missing, "files": len(files),
        "input bytes": sum(path.stat().st_size for path in data.rglob("*.parquet")),
        "seconds on Spark": round(spark, 1), "seconds on DuckDB": round(duckdb, 1), **totals,
        "for each household": {name: round(number / households, 4) for name, number in totals.items()},
    }  # fmt: skip


def run(*words: object) -> float:
    """Run a command; its seconds."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "phsafe", *map(str, words)], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def metrics(log: Path) -> dict[str, float]:
    """Sums over all tasks of an application's event log."""
    totals: Counter[str] = Counter()
    largest = 0
    for file in log.iterdir():
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                task = event.get("Task Metrics")
                if event["Event"] != "SparkListenerTaskEnd" or not task:
                    continue
                totals["shuffle bytes"] += task["Shuffle Write Metrics"]["Shuffle Bytes Written"]
                totals["shuffle records"] += task["Shuffle Write Metrics"]["Shuffle Records Written"]
                totals["spilled bytes"] += task["Disk Bytes Spilled"]
                totals["task milliseconds"] += task["Executor Run Time"]
                totals["processor milliseconds"] += task["Executor CPU Time"] / 1e6
                largest = max(largest, task["Peak Execution Memory"])
    return {name: round(number) for name, number in totals.items()} | {"peak task memory": largest}


if __name__ == "__main__":
    main()
