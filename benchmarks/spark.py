"""The cost of a run on Spark: jobs, shuffle bytes, CPU seconds and spill, from Spark's own event log.

    python benchmarks/spark.py WORK --households 200000 1000000

Generates the households in the folder WORK unless they exist, tabulates them on Spark and on DuckDB, and compares the
files byte for byte. Then times `bare_spark.py` on the same tables: the minimum that any Spark program does with them.
Use the figures per household to size a cluster; see docs/how-to/spark.md.
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
from statistics import median

import polars as pl

from phsafe.synthetic import synth

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "examples" / "us.json"
BARE = Path(__file__).with_name("bare_spark.py")
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

#: Metrics summed over all tasks.
SUMS = (
    "shuffle bytes", "shuffle records", "spilled bytes", "task milliseconds", "processor milliseconds",
)  # fmt: skip


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--households", type=int, nargs="+", default=[200_000])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--shuffled", action="store_true", help="rows in random order, the worst case")
    parser.add_argument("--times", type=int, default=3, help="the number of runs")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for number in arguments.households:
        data = households_in(arguments.work, number, shuffled=arguments.shuffled)
        print(json.dumps(measure(data, number, arguments.master, arguments.times), indent=1), flush=True)


def households_in(work: Path, households: int, *, shuffled: bool) -> Path:
    """A folder of synthetic households, as generated or with the rows of each table in random order."""
    data, mixed = work / f"data-{households}", work / f"data-{households}-shuffled"
    if not data.exists():
        synth(data, households)
    if not shuffled:
        return data
    for name in ("persons", "units", "geo") if not mixed.exists() else ():
        (mixed / name).mkdir(parents=True)
        rows = pl.read_parquet(data / name / "*.parquet").sample(fraction=1.0, shuffle=True, seed=1)
        for i, part in enumerate(rows.iter_slices(500_000)):
            part.write_parquet(mixed / name / f"{i}.parquet")
    return mixed


def measure(data: Path, households: int, master: str, times: int) -> dict[str, object]:
    """Measure one folder: medians over several runs, with Spark and the bare script interleaved."""
    log = data.with_name(f"log-{data.name}")
    out = {engine: data.with_name(f"out-{engine}-{data.name}") for engine in ("spark", "duckdb")}
    settings = SETTINGS | {"spark.eventLog.dir": log.absolute().as_uri(), "spark.master": master}
    pairs = [f"{key}={value}" for key, value in settings.items()]
    options = [option for pair in pairs for option in ("--spark-conf", pair)]
    seconds: dict[str, list[float]] = {"Spark": [], "a bare script": [], "DuckDB": []}
    for _ in range(times):
        for folder in (*out.values(), log):
            shutil.rmtree(folder, ignore_errors=True)
        log.mkdir(parents=True)
        seconds["Spark"].append(phsafe("tabulate", CONFIG, data, out["spark"], "--engine", "spark", *options))
        totals = metrics(log)
        seconds["a bare script"].append(timed(BARE, data, *pairs))
        seconds["DuckDB"].append(phsafe("tabulate", CONFIG, data, out["duckdb"]))
    files = sorted(str(path.relative_to(out["duckdb"])) for path in out["duckdb"].rglob("*.csv"))
    _, different, missing = filecmp.cmpfiles(*out.values(), files, shallow=False)
    ratios = [one / other for one, other in zip(seconds["Spark"], seconds["a bare script"], strict=True)]
    return {
        "households": households, "same bytes": not different and not missing, "files": len(files),
        "input bytes": sum(path.stat().st_size for path in data.rglob("*.parquet")),
        **{f"seconds of {name}": round(median(found), 1) for name, found in seconds.items()},
        "ratio to the bare script": round(median(ratios), 2), "all ratios": [round(ratio, 2) for ratio in ratios],
        **totals, "for each household": {name: round(totals[name] / households, 4) for name in SUMS},
    }  # fmt: skip


def phsafe(*arguments: object) -> float:
    """Run a PHSafe command; return its seconds."""
    return timed("-m", "phsafe", *arguments)


def timed(*arguments: object) -> float:
    """Run a Python program; return its seconds."""
    started = time.monotonic()
    subprocess.run([sys.executable, *map(str, arguments)], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def metrics(log: Path) -> dict[str, float]:
    """Read the number of jobs, the size of the log and sums over all tasks from an application's event log."""
    totals: Counter[str] = Counter(dict.fromkeys(("jobs", "event log bytes", *SUMS), 0))
    largest = 0
    for file in log.iterdir():
        totals["event log bytes"] += file.stat().st_size
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                totals["jobs"] += event["Event"] == "SparkListenerJobStart"
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
