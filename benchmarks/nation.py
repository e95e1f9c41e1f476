"""Speed for the whole nation compared with a bare join of the same files, scaling, and correctness of the counts.

python benchmarks/nation.py WORK                 1 million, 10 million households and the nation, Parquet by state
python benchmarks/nation.py WORK --shuffled      the nation again, one file for each table, rows in random order
python benchmarks/nation.py WORK --csv           10 thousand and 1 million households from CSV
python benchmarks/nation.py WORK --plain         10 million households against a plain count in Polars
python benchmarks/nation.py WORK --start         the start-up time of commands that read no data

Missing data are generated in WORK and kept. Every command runs in a separate process, to measure its peak memory.
Run this on an idle machine.
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
from phsafe.configs.parameters import parameters_2020
from phsafe.model import exact_numbers
from phsafe.model.schema import US_STATES

NATION = 126_800_000
SIZES = (1_000_000, 10_000_000, NATION)
START_UP = 1_000
PAIRS = 15
TABLES = ("persons", "units", "geo")
JOIN = "SELECT count(*) FROM {persons} JOIN {units} USING (MAFID)"
START = 'import sys; from phsafe.cli import program; sys.argv = ["phsafe", *sys.argv[1:]]; program()'


def main() -> None:
    """Run the benchmark selected by the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path)
    for name in ("shuffled", "csv", "plain", "start"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="households (default: %(default)s)")
    parser.add_argument("--commands", nargs="+", default=["tabulate", "release", "validate"])
    parser.add_argument("--repeat", type=int, default=1, help="runs of each; the median counts")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    config = arguments.work / "us.json"
    config.write_text(exact_numbers.dumps(parameters_2020()))
    print(f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, DuckDB {duckdb.__version__}\n")
    if arguments.plain:
        compare(arguments.work, config)
    elif arguments.start:
        start(config)
    elif arguments.csv:
        for households in (10_000, 1_000_000):
            report(
                config,
                population(arguments.work, households, "csv"),
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
    """Run every command at every size, and print the slope between the smallest and the largest."""
    seconds = {size: report(config, population(work, size), size, commands, repeat=repeat) for size in sizes}
    first, last = min(sizes), max(sizes)
    for command in commands if first < last else ():
        # Exclude the start-up time, measured with very few households, from the slope. The two times are short and
        # their difference is small, so take the median over many interleaved pairs.
        folders = [population(work, size) for size in (START_UP, first)]
        pairs = [[timed(config, folder, command)[0] for folder in folders] for _ in range(PAIRS)]
        startup = statistics.median(empty for empty, _ in pairs)
        smallest = statistics.median(some - empty for empty, some in pairs)
        slope = math.log((seconds[last][command] - startup) / smallest) / math.log(last / first)
        print(
            f"{command}: slope {slope:.2f} from {first:,} to {last:,} households; "
            f"the smallest takes {smallest:.2f} s plus {startup:.2f} s to start",
            flush=True,
        )


def report(
    config: Path, data: Path, households: int, commands: Sequence[str], *, bare: bool = True, repeat: int = 1
) -> dict[str, float]:
    """Time the bare join and the commands on one folder, interleaved; print and return the median seconds."""
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
    """Time a command on a folder, without validation unless requested; return seconds and peak memory in GB."""
    out = data.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    name, _, validated = command.partition(" ")
    arguments = [name, config, data, *([] if name == "validate" else [out])]
    arguments += ["--ledger", out.parent / "bench.ledger", "--new-ledger"] if name == "release" else []
    arguments += [] if name == "validate" or validated else ["--skip-validation"]
    for file in out.parent.glob("bench.ledger*"):
        file.unlink()
    seconds, memory = run(["phsafe", *map(str, arguments)])
    shutil.rmtree(out, ignore_errors=True)
    return seconds, memory


def line(name: str, seconds: float, ratio: float | None, rows: float, memory: float) -> None:
    """Print one line of a report."""
    times = f"{ratio:.2f}" if ratio is not None else ""
    print(f"| {name} | {seconds:.1f} | {times} | {rows / seconds:.1f} | {memory:.2f} |", flush=True)


def run(arguments: Sequence[str]) -> tuple[float, float]:
    """Run a command; return seconds and peak memory in GB."""
    command = [sys.executable, "-c", START, *arguments[1:]] if arguments[0] == "phsafe" else list(arguments)
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    messages = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{messages.decode()}")
    return seconds, usage.ru_maxrss / 1e6


def files_of(data: Path, name: str) -> str:
    """A DuckDB expression that reads a table's files."""
    single = data / f"{name}.parquet"
    return f"read_parquet('{single if single.exists() else data / name / '*.parquet'}')"


def count_rows(data: Path, name: str) -> int:
    """The number of rows of a table."""
    if (data / f"{name}.csv").exists():
        return pl.scan_csv(data / f"{name}.csv").select(pl.len()).collect().item()
    ((rows,),) = duckdb.sql(f"SELECT count(*) FROM {files_of(data, name)}").fetchall()
    return int(rows)


def in_new_process(work: Callable[..., object], *arguments: object) -> None:
    """Call a function in a new process, because a command's peak memory includes that of its parent when it forks."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(work, *arguments).result()


def population(work: Path, households: int, form: str = "parquet") -> Path:
    """A synthetic population, generated unless it exists."""
    folder = work / f"{households}-{form}"
    if not folder.exists():
        in_new_process(generate, folder, households, form)
    return folder


def generate(folder: Path, households: int, form: str) -> None:
    """Generate a synthetic population."""
    phsafe.synth(folder, households, format=form)


def shuffled(work: Path) -> Path:
    """The nation with one file for each table and rows in random order."""
    source, folder = population(work, NATION), work / "shuffled"
    if not folder.exists():
        in_new_process(shuffle, source, folder)
    return folder


def shuffle(source: Path, folder: Path) -> None:
    """Write a population's tables with rows in random order."""
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
    """Compare all counts of 10 million households, with and without truncation, with the plain count."""
    data = population(work, 10_000_000)
    tau = json.loads(config.read_text())["tau"]
    for truncate in (False, True):
        counted = phsafe.tabulate(config, data, truncate=truncate)
        keys = ("TABULATION", "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL")
        grid = {tuple(row[key] for key in keys): row["COUNT"] for row in counted.iter_rows(named=True)}
        plain = plain_count.count(data, US_STATES, tau if truncate else None)
        # PH5_num and PH8_num are sums of PH4 and PH7, so the plain count leaves them out.
        measured = {key: n for key, n in grid.items() if key[0] in {name for name, *_ in plain}}
        wrong = sum(n != plain.get(key, 0) for key, n in measured.items())
        print(
            f"truncated: {truncate}; {len(measured):,} counts, {wrong} differ; their sum is {sum(measured.values()):,}"
        )


def start(config: Path) -> None:
    """Print the median of nine runs of commands that read no data."""
    for arguments in (["phsafe", "--help"], ["phsafe", "budget", str(config)]):
        seconds = pl.Series([run(arguments)[0] for _ in range(9)])
        print(f"{' '.join(arguments[:2])}: {seconds.median():.2f} s")


if __name__ == "__main__":
    if sys.argv[2:] == ["--bare"]:
        folder = Path(sys.argv[1])
        duckdb.sql(JOIN.format(persons=files_of(folder, "persons"), units=files_of(folder, "units"))).fetchall()
    else:
        main()
