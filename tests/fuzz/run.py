"""Run the commands on damaged inputs: `python tests/fuzz/run.py --cases 10000 [--seed S] [--first N]`.

Each case damages a config, a catalog, a data folder or a release and runs one command on it. The command must end in
time, with exit code 0 or 1 and a message of ours; leave nothing behind (next to its input, in the temporary folder, or
in the current folder); and show neither a value planted in the data nor a household key. Most cases use a config with a
single tabulation: refusals don't depend on the number of tabulations, and fewer compile faster.

Cases run in a child process, forked with everything imported and monitored by its parent: a crash or a hang is a
failure too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import io
import json
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from damage import MARKER, ROW_GROUP, damage_bytes, damage_csv, damage_json, damage_parquet

from phsafe.cli import main as phsafe
from phsafe.engines import partitions
from phsafe.model.tables import CENSUS_2020

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "data" / "small"
NAMES = ("persons", "units", "geo")
PUBLICATION = {"agency": "Bureau of Examples", "date": "2031-05-01", "licence": "CC0"}
#: A case that takes longer than this has hung.
SECONDS = 120
#: The number of cases that one child process runs.
BATCH = 250
#: Modules that commands import lazily.
LAZY_MODULES = (
    "pipeline.publish",
    "pipeline.exact_counts",
    "pipeline.validation_output",
    "estimation.estimate_release",
    "estimation.tables_workbook",
    "privacy.budgets",
    "cli.app",
)
#: A household key that isn't part of a hash; releases contain hashes.
KEY = re.compile(r"(?<![0-9a-f])[1-8]\d{8}(?![0-9a-f])")
#: Rows in a partition and in a bucket: the defaults, or so few that the small data are split into many.
ROWS = ((partitions.PARTITION_ROWS, partitions.BUCKET_ROWS), (200, 500))


def command(*arguments: object) -> tuple[int, str]:
    """Run the command in this process; return its exit code and output."""
    output = io.StringIO()
    sys.argv = ["phsafe", *map(str, arguments)]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            phsafe()
        except SystemExit as end:
            return int(end.code or 0), output.getvalue()
    return 0, output.getvalue()


class Bench:
    """The inputs to damage, and a working folder for one case at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / "work"
        self.parquet, self.released = folder / "parquet", folder / "released"
        self.elsewhere = [folder / "tmp", folder / "cwd"]
        self.full = ROOT / "examples" / "us.json"
        self.slim = sorted(folder.glob("*.json"))

    def prepare(self) -> None:
        """Create the inputs: Parquet files, a config for each tabulation, and a release."""
        import polars as pl

        self.parquet.mkdir()
        for name in NAMES:
            frame = pl.read_csv(SMALL / f"{name}.csv", infer_schema=False)
            frame = frame.with_columns(pl.col("MAFID", "RTYPE").cast(pl.Int32)).sort("MAFID")
            frame.write_parquet(self.parquet / f"{name}.parquet", row_group_size=ROW_GROUP)
        document = json.loads(self.full.read_text())
        for one, levels in document["privacy_budget"].items():
            budgets = {name: dict.fromkeys(zero, 0) for name, zero in document["privacy_budget"].items()} | {
                one: levels
            }
            slim = document | {"privacy_budget": budgets, "state_filter": ["01", "06"], "publication": PUBLICATION}
            (self.folder / f"{one}.json").write_text(json.dumps(slim))
        ledger = self.folder / "ledger"
        code, output = command(
            "release", self.folder / "PH1_denom.json", SMALL, self.released, "--ledger", ledger, "--new-ledger"
        )
        assert code == 0, output

    def case(self, rng: random.Random) -> str:
        """Run one command on one damaged input; return the failure, or an empty string."""
        self._tidy()
        self.work.mkdir()
        try:
            partitions.PARTITION_ROWS, partitions.BUCKET_ROWS = rng.choice(ROWS)
            target = rng.choice(["json", "catalog", "csv", "bytes", "parquet", "release"])
            arguments = getattr(self, target if target in ("json", "catalog", "release") else "data")(rng, target)
            before = {path.name for path in self.work.iterdir()}
            code, output = command(*arguments)
            left = {path.name for path in self.work.iterdir()} - before - {"ledger", "ledger.key", "ledger.pub"}
            left ^= {"out"} if code == 0 and self.work / "out" in arguments else set()
            left |= {path.name for folder in self.elsewhere for path in folder.iterdir()}
            where = f"{arguments[0]}, {target}"
            if code not in (0, 1):
                return f"{where}: ended with {code}"
            if "Traceback" in output or "internal error" in output:
                return f"{where}: {output.strip().splitlines()[-1]}"
            if code and not output.strip():
                return f"{where}: refused without a reason"
            if target not in ("json", "catalog", "release") and (MARKER in output or KEY.search(output)):
                return f"{where}: showed a value or a key of a record"
            return f"{where}: left {sorted(left)} behind" if left else ""
        finally:
            self._tidy()

    def _tidy(self) -> None:
        for folder in (self.work, *self.elsewhere):
            shutil.rmtree(folder, ignore_errors=True)
        for folder in self.elsewhere:
            folder.mkdir()
        os.chdir(self.elsewhere[-1])

    def config(self, rng: random.Random) -> Path:
        """A valid config with one tabulation, occasionally with all."""
        return self.full if rng.random() < 0.03 else rng.choice(self.slim)

    def json(self, rng: random.Random, _: str) -> list[object]:
        """Damage a config; return a command on it."""
        file = self.work / "config.json"
        file.write_bytes(damage_json(rng, self.config(rng).read_bytes()))
        return rng.choice(
            [["budget", file], ["budget", file, "--json"], ["validate", file, SMALL],
             ["tabulate", file, SMALL, self.work / "out"]]
        )  # fmt: skip

    def catalog(self, rng: random.Random, _: str) -> list[object]:
        """Damage a catalog; return a command on it."""
        file = self.work / "catalog.json"
        file.write_bytes(damage_json(rng, json.dumps(CENSUS_2020.to_document()).encode()))
        return rng.choice(
            [["budget", self.config(rng), "--catalog", file],
             ["tabulate", self.config(rng), SMALL, self.work / "out", "--catalog", file]]
        )  # fmt: skip

    def release(self, rng: random.Random, _: str) -> list[object]:
        """Damage a release; return a command on it."""
        copy = self.work / "release"
        shutil.copytree(self.released, copy)
        file = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
        damage = damage_json if file.suffix == ".json" else damage_bytes
        file.write_bytes(damage(rng, file.read_bytes()))
        return rng.choice([["check", copy], ["estimate", copy, self.work / "out"]])

    def data(self, rng: random.Random, target: str) -> list[object]:
        """Damage a data folder; return a command on it."""
        data, name = self.work / "data", rng.choice(NAMES)
        data.mkdir()
        source, ending = (self.parquet, "parquet") if target == "parquet" else (SMALL, "csv")
        for one in NAMES:
            shutil.copy(source / f"{one}.{ending}", data)
        file = data / f"{name}.{ending}"
        if target == "parquet":
            damage_parquet(rng, file)
        elif target == "bytes":
            file.write_bytes(damage_bytes(rng, file.read_bytes()))
        else:
            file.write_text(damage_csv(rng, file.read_text()), newline="")
        config, out = self.config(rng), self.work / "out"
        # `tabulate` and `release` validate first, so `validate` covers most of what they do.
        if rng.random() < 0.7:
            return ["validate", config, data, *rng.choice([[], ["--json"]])]
        return rng.choice(
            [
                ["tabulate", config, data, out],
                ["release", config, data, out, "--ledger", self.work / "ledger", "--new-ledger"],
            ]
        )


def fuzz(numbers: range, seed: int) -> Counter[str]:
    """Run the cases; return the failures with their frequencies."""
    for heavy in ("duckdb", "opendp.measurements", *(f"phsafe.{part}" for part in LAZY_MODULES)):
        importlib.import_module(heavy)
    failures: Counter[str] = Counter()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        # In a child process, because the threads of DuckDB and Polars don't survive a fork.
        for line in _child(lambda _: Bench(root).prepare()):
            sys.exit(f"the inputs could not be created: {line}")
        first = numbers.start
        while first < numbers.stop:
            batch = range(first, min(first + BATCH, numbers.stop))
            for line in _child(lambda send, batch=batch: _cases(root, batch, seed, send)):
                number, _, failure = line.partition(" ")
                first = int(number or first) + 1
                if failure:
                    failures[failure] += 1
                    print(f"case {seed}:{first - 1}: {failure}", flush=True)
            print(f"{first} cases, {time.monotonic() - start:.0f} s, {failures.total()} failures", flush=True)
    return failures


def _cases(folder: Path, batch: range, seed: int, send: Callable[[str], None]) -> None:
    """Run the cases in a child process and send one line for each: its number, and its failure if any."""
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    # Exempt imported modules from garbage collection, and collect the rest only occasionally, to save time.
    gc.freeze()
    gc.disable()
    bench = Bench(folder)
    for number in batch:
        if number % 20 == 0:
            gc.collect()
        send(f"{number} {bench.case(random.Random(f'{seed}:{number}'))}")


def _child(work: Callable[[Callable[[str], None]], None]) -> Iterator[str]:
    """Yield the lines sent by a forked child; a crash or hang becomes a line without a number."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(reader)
            work(lambda line: os.write(writer, f"{line}\n".encode("utf-8", "replace")) and None)
            code = 0
        except BaseException as error:
            os.write(writer, f" raised {type(error).__name__}: {str(error)!r}\n".encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as lines:
        hung, rest = False, b""
        while not hung:
            # Wait twice, because the timeout also elapses while both processes are suspended.
            hung = not any(select.select([lines], [], [], SECONDS / 2)[0] for _ in range(2))
            got = b"" if hung else lines.read(65536)
            if not got:
                break
            *complete, rest = (rest + got).split(b"\n")
            yield from (line.decode() for line in complete)
    if hung:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if hung or code < 0:
        yield " hung" if hung else f" crashed with signal {-code}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case, to continue a run or repeat one case")
    arguments = parser.parse_args()
    first = arguments.first
    sys.exit(1 if fuzz(range(first, first + arguments.cases), arguments.seed) else 0)
