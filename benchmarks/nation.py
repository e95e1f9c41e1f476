"""How long the nation takes, next to a bare join of the same files; how that grows; and whether the counts are right.

python benchmarks/nation.py WORK                 1 million, 10 million households and the nation, Parquet by state
python benchmarks/nation.py WORK --shuffled      the nation again, one file for each table, rows in random order
python benchmarks/nation.py WORK --csv           10 thousand and 1 million households from CSV
python benchmarks/nation.py WORK --plain         10 million households against a plain count in Polars
python benchmarks/nation.py WORK --start         how long the commands need that touch no data

Data are made where WORK has none, and kept. Every command runs in a process of its own, which tells its peak memory;
nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb
import plain_count
import polars as pl

import phsafe
from phsafe import exact
from phsafe.parameters import parameters_2020
from phsafe.schema import US_STATES

NATION = 126_800_000
SIZES = (1_000_000, 10_000_000, NATION)
START_UP = 1_000
PAIRS = 15
TABLES = ("persons", "units", "geo")
JOIN = "SELECT count(*) FROM {persons} JOIN {units} USING (MAFID)"
START = 'import sys; from phsafe.cli import program; sys.argv = ["phsafe", *sys.argv[1:]]; program()'


def main() -> None:
    """Do what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path)
    for name in ("shuffled", "csv", "plain", "start"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="households (default: %(default)s)")
    parser.add_argument("--commands", nargs="+", default=["tabulate", "release", "validate"])
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, of which the middle one counts")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    config = arguments.work / "us.json"
    config.write_text(exact.dumps(parameters_2020()))
    print(f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, DuckDB {duckdb.__version__}\n")
    if arguments.plain:
        compare(arguments.work, config)
    elif arguments.start:
        start(config)
    elif arguments.csv:
        for households in (10_000, 1_000_000):
            report(
                config,
                made(arguments.work, households, "csv"),
                households,
                ["release --validated"],
                bare=False,
                repeat=arguments.repeat,
            )
    elif arguments.shuffled:
        report(config, shuffled(arguments.work), NATION, arguments.commands, repeat=arguments.repeat)
    else:
        growth(config, arguments.work, arguments.sizes, arguments.commands, arguments.repeat)


def growth(config: Path, work: Path, sizes: Sequence[int], commands: Sequence[str], repeat: int) -> None:
    """Every command at every size, and the slope between the smallest and the largest."""
    seconds = {size: report(config, made(work, size), size, commands, repeat=repeat) for size in sizes}
    first, last = min(sizes), max(sizes)
    for command in commands if first < last else ():
        # What a command needs to start, it needs for next to no households too; it is left out of the slope.
        # Both are short, and what is left is a small difference: the middle one of many pairs, taken in turn.
        pairs = [[timed(config, made(work, size), command)[0] for size in (START_UP, first)] for _ in range(PAIRS)]
        idle = statistics.median(nothing for nothing, _ in pairs)
        least = statistics.median(some - nothing for nothing, some in pairs)
        slope = math.log((seconds[last][command] - idle) / least) / math.log(last / first)
        print(
            f"{command}: slope {slope:.2f} from {first:,} to {last:,} households; "
            f"the first take {least:.2f} s and {idle:.2f} s to start",
            flush=True,
        )


def report(
    config: Path, data: Path, households: int, commands: Sequence[str], *, bare: bool = True, repeat: int = 1
) -> dict[str, float]:
    """Time the bare join and the commands on one folder in turn, print a table of medians, and give the seconds."""
    print(f"### {households:,} households, {data.name}\n")
    print("| | seconds | × bare join | million rows a second | peak memory, GB |\n|---|---:|---:|---:|---:|")
    rows = sum(count_rows(data, name) for name in TABLES) / 1e6
    runs: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeat):
        if bare:
            runs.setdefault("bare join", []).append(run([sys.executable, __file__, str(data), "--bare"]))
        for command in commands:
            runs.setdefault(command, []).append(timed(config, data, command))
    found = {name: statistics.median(seconds for seconds, _ in times) for name, times in runs.items()}
    for name, times in runs.items():
        ratio = found[name] / found["bare join"] if bare else None
        line(name, found[name], ratio, rows, max(memory for _, memory in times))
    print(flush=True)
    return found


def timed(config: Path, data: Path, command: str) -> tuple[float, float]:
    """Seconds and peak memory in GB of a command on a folder; without validation unless it says so."""
    out = data.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    word, _, how = command.partition(" ")
    words = [word, config, data, *([] if word == "validate" else [out])]
    words += ["--ledger", out.parent / "bench.ledger"] if word == "release" else []
    words += [] if word == "validate" or how else ["--skip-validation"]
    for file in out.parent.glob("bench.ledger*"):
        file.unlink()
    seconds, memory = run(["phsafe", *map(str, words)])
    shutil.rmtree(out, ignore_errors=True)
    return seconds, memory


def line(name: str, seconds: float, ratio: float | None, rows: float, memory: float) -> None:
    """One line of a report."""
    times = f"{ratio:.2f}" if ratio is not None else ""
    print(f"| {name} | {seconds:.1f} | {times} | {rows / seconds:.1f} | {memory:.2f} |", flush=True)


def run(words: Sequence[str]) -> tuple[float, float]:
    """Run a command; its seconds and its peak memory in GB."""
    command = [sys.executable, "-c", START, *words[1:]] if words[0] == "phsafe" else list(words)
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(words)} failed:\n{told.decode()}")
    return seconds, usage.ru_maxrss / 1e6


def files_of(data: Path, name: str) -> str:
    """A table's files as DuckDB names them."""
    single = data / f"{name}.parquet"
    return f"read_parquet('{single if single.exists() else data / name / '*.parquet'}')"


def count_rows(data: Path, name: str) -> int:
    """The rows of a table."""
    if (data / f"{name}.csv").exists():
        return pl.scan_csv(data / f"{name}.csv").select(pl.len()).collect().item()
    ((rows,),) = duckdb.sql(f"SELECT count(*) FROM {files_of(data, name)}").fetchall()
    return int(rows)


def apart(work: Callable[..., object], *arguments: object) -> None:
    """Call a function in a process of its own: a command's peak memory begins at that of the process that starts it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(work, *arguments).result()


def made(work: Path, households: int, form: str = "parquet") -> Path:
    """A made-up population, as it was made before if it was."""
    folder = work / f"{households}-{form}"
    if not folder.exists():
        apart(make, folder, households, form)
    return folder


def make(folder: Path, households: int, form: str) -> None:
    """Make a population up."""
    phsafe.synth(folder, households, format=form)


def shuffled(work: Path) -> Path:
    """The nation with one file for each table, its rows in random order."""
    source, folder = made(work, NATION), work / "shuffled"
    if not folder.exists():
        apart(shuffle, source, folder)
    return folder


def shuffle(source: Path, folder: Path) -> None:
    """Write a population's tables with their rows in random order."""
    part = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    connection = duckdb.connect(config={"temp_directory": str(part / "spill"), "memory_limit": "12GB"})
    for name in TABLES:
        rows = f"SELECT * FROM {files_of(source, name)} ORDER BY hash(random())"
        connection.execute(f"COPY ({rows}) TO '{part / f'{name}.parquet'}' (FORMAT parquet)")
    connection.close()
    shutil.rmtree(part / "spill", ignore_errors=True)
    part.rename(folder)


def compare(work: Path, config: Path) -> None:
    """All counts of 10 million households, with and without truncation, against the plain count."""
    data = made(work, 10_000_000)
    tau = json.loads(config.read_text())["tau"]
    for truncate in (False, True):
        counted = phsafe.tabulate(config, data, truncate=truncate)
        keys = ("TABULATION", "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL")
        grid = {tuple(row[key] for key in keys): row["COUNT"] for row in counted.iter_rows(named=True)}
        plain = plain_count.count(data, US_STATES, tau if truncate else None)
        # PH5_num and PH8_num are sums of PH4 and PH7, so they are not counted twice.
        measured = {key: n for key, n in grid.items() if key[0] in {name for name, *_ in plain}}
        wrong = sum(n != plain.get(key, 0) for key, n in measured.items())
        print(
            f"truncated: {truncate}; {len(measured):,} counts, {wrong} differ; their sum is {sum(measured.values()):,}"
        )


def start(config: Path) -> None:
    """The median of nine runs of commands that need no data."""
    for words in (["phsafe", "--help"], ["phsafe", "budget", str(config)]):
        seconds = pl.Series([run(words)[0] for _ in range(9)])
        print(f"{' '.join(words[:2])}: {seconds.median():.2f} s")


if __name__ == "__main__":
    if sys.argv[2:] == ["--bare"]:
        folder = Path(sys.argv[1])
        duckdb.sql(JOIN.format(persons=files_of(folder, "persons"), units=files_of(folder, "units"))).fetchall()
    else:
        main()
