"""Throw damaged inputs at the commands: `python tests/fuzz/run.py --cases 10000 [--seed S] [--first N]`.

Each case damages a config, a data folder or a release and runs one command on it. The command must end with 0 or 1,
in words of ours, in time; leave nothing behind (beside its input, in the temporary folder, where it was started);
and show neither a value planted in the data nor a key. Most cases use a config of one tabulation: what is refused is
refused alike, and compiling the others is what takes time.

Cases run in a child, forked with everything imported and watched from outside: a crash or a hang is a fault too.
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
from phsafe.engines import duckdb, partitions

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "data" / "small"
NAMES = ("persons", "units", "geo")
#: A case that takes longer than this has hung.
SECONDS = 120
#: Cases that one child runs.
BATCH = 250
#: What commands import when they need it.
PARTS = (
    "releasing",
    "exact_counts",
    "validation.report_output",
    "estimation.run",
    "estimation.workbook",
    "budgets",
    "cli.app",
)
#: A household key; not a part of a hash, which a release shows.
KEY = re.compile(r"(?<![0-9a-f])[1-8]\d{8}(?![0-9a-f])")
#: Rows of a partition and of a bucket: as they are, or so few that the small data are cut into many.
ROWS = ((duckdb.PARTITION_ROWS, duckdb.BUCKET_ROWS), (200, 500))


def command(*words: object) -> tuple[int, str]:
    """Run the command in this process: exit code and all it said."""
    said = io.StringIO()
    sys.argv = ["phsafe", *map(str, words)]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            phsafe()
        except SystemExit as end:
            return int(end.code or 0), said.getvalue()
    return 0, said.getvalue()


class Bench:
    """The inputs to damage, and a room for one case at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.room = folder, folder / "room"
        self.parquet, self.released = folder / "parquet", folder / "released"
        self.elsewhere = [folder / "tmp", folder / "cwd"]
        self.full = ROOT / "examples" / "us.json"
        self.slim = sorted(folder.glob("*.json"))

    def prepare(self) -> None:
        """Make the inputs: Parquet files, a config for each tabulation, and a release."""
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
            slim = document | {"privacy_budget": budgets, "state_filter": ["01", "06"]}
            (self.folder / f"{one}.json").write_text(json.dumps(slim))
        ledger = self.folder / "ledger"
        code, said = command("release", self.folder / "PH1_denom.json", SMALL, self.released, "--ledger", ledger)
        assert code == 0, said

    def case(self, rng: random.Random) -> str:
        """One damaged input and one command; what went wrong, or nothing."""
        self._tidy()
        self.room.mkdir()
        try:
            duckdb.PARTITION_ROWS, duckdb.BUCKET_ROWS = rng.choice(ROWS)
            partitions.PARTITION_ROWS = duckdb.PARTITION_ROWS
            kind = rng.choice(["json", "csv", "bytes", "parquet", "release"])
            words = getattr(self, kind if kind in ("json", "release") else "data")(rng, kind)
            before = {path.name for path in self.room.iterdir()}
            code, said = command(*words)
            left = {path.name for path in self.room.iterdir()} - before - {"ledger", "ledger.key"}
            left ^= {"out"} if code == 0 and self.room / "out" in words else set()
            left |= {path.name for place in self.elsewhere for path in place.iterdir()}
            where = f"{words[0]}, {kind}"
            if code not in (0, 1):
                return f"{where}: ended with {code}"
            if "Traceback" in said or "internal fault" in said:
                return f"{where}: {said.strip().splitlines()[-1]}"
            if code and not said.strip():
                return f"{where}: refused without a word"
            if kind not in ("json", "release") and (MARKER in said or KEY.search(said)):
                return f"{where}: showed a value or a key of a record"
            return f"{where}: left {sorted(left)} behind" if left else ""
        finally:
            self._tidy()

    def _tidy(self) -> None:
        for place in (self.room, *self.elsewhere):
            shutil.rmtree(place, ignore_errors=True)
        for place in self.elsewhere:
            place.mkdir()
        os.chdir(self.elsewhere[-1])

    def config(self, rng: random.Random) -> Path:
        """A good config: one tabulation, at times all of them."""
        return self.full if rng.random() < 0.03 else rng.choice(self.slim)

    def json(self, rng: random.Random, _: str) -> list[object]:
        """A damaged config."""
        file = self.room / "config.json"
        file.write_bytes(damage_json(rng, self.config(rng).read_bytes()))
        return rng.choice(
            [["budget", file], ["budget", file, "--json"], ["validate", file, SMALL],
             ["tabulate", file, SMALL, self.room / "out"]]
        )  # fmt: skip

    def release(self, rng: random.Random, _: str) -> list[object]:
        """A damaged release."""
        copy = self.room / "release"
        shutil.copytree(self.released, copy)
        file = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
        damage = damage_json if file.suffix == ".json" else damage_bytes
        file.write_bytes(damage(rng, file.read_bytes()))
        return rng.choice([["check", copy], ["estimate", copy, self.room / "out"]])

    def data(self, rng: random.Random, kind: str) -> list[object]:
        """A damaged data folder."""
        data, name = self.room / "data", rng.choice(NAMES)
        data.mkdir()
        source, ending = (self.parquet, "parquet") if kind == "parquet" else (SMALL, "csv")
        for one in NAMES:
            shutil.copy(source / f"{one}.{ending}", data)
        file = data / f"{name}.{ending}"
        if kind == "parquet":
            damage_parquet(rng, file)
        elif kind == "bytes":
            file.write_bytes(damage_bytes(rng, file.read_bytes()))
        else:
            file.write_text(damage_csv(rng, file.read_text()), newline="")
        config, out = self.config(rng), self.room / "out"
        # The other two validate first, so most of what they meet, validate meets too.
        if rng.random() < 0.7:
            return ["validate", config, data, *rng.choice([[], ["--json"]])]
        return rng.choice(
            [
                ["tabulate", config, data, out],
                ["release", config, data, out, "--ledger", self.room / "ledger"],
            ]
        )


def fuzz(numbers: range, seed: int) -> Counter[str]:
    """Run the cases; every kind of fault with how often it came."""
    for heavy in ("duckdb", "opendp.prelude", *(f"phsafe.{part}" for part in PARTS)):
        importlib.import_module(heavy)
    faults: Counter[str] = Counter()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        # In a child, because threads that DuckDB and Polars start do not survive a fork.
        for line in _child(lambda _: Bench(place).prepare()):
            sys.exit(f"the bench could not be made: {line}")
        first = numbers.start
        while first < numbers.stop:
            batch = range(first, min(first + BATCH, numbers.stop))
            for line in _child(lambda say, batch=batch: _cases(place, batch, seed, say)):
                number, _, fault = line.partition(" ")
                first = int(number or first) + 1
                if fault:
                    faults[fault] += 1
                    print(f"case {seed}:{first - 1}: {fault}", flush=True)
            print(f"{first} cases, {time.monotonic() - start:.0f} s, {faults.total()} faults", flush=True)
    return faults


def _cases(folder: Path, batch: range, seed: int, say: Callable[[str], None]) -> None:
    """What a child does: the cases one after the other, a line before each fault could hide its number."""
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    # What was imported is looked at no more; collecting the rest now and then is cheaper.
    gc.freeze()
    gc.disable()
    bench = Bench(folder)
    for number in batch:
        if number % 20 == 0:
            gc.collect()
        say(f"{number} {bench.case(random.Random(f'{seed}:{number}'))}")


def _child(work: Callable[[Callable[[str], None]], None]) -> Iterator[str]:
    """The lines that a forked child says; an ending of its own as a line without a number."""
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
            # Waited for twice: while both processes are paused, time passes too.
            hung = not any(select.select([lines], [], [], SECONDS / 2)[0] for _ in range(2))
            got = b"" if hung else lines.read(65536)
            if not got:
                break
            *whole, rest = (rest + got).split(b"\n")
            yield from (line.decode() for line in whole)
    if hung:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if hung or code < 0:
        yield " hung" if hung else f" crashed with signal {-code}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to go on or look at one")
    arguments = parser.parse_args()
    first = arguments.first
    sys.exit(1 if fuzz(range(first, first + arguments.cases), arguments.seed) else 0)
