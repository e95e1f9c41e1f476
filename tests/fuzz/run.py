"""Throw damaged inputs at the commands: `python tests/fuzz/run.py --cases 10000 [--seed S]`.

Each case damages a config, a data folder or a release (random bytes, changed CSV, Parquet or JSON) and runs a
command on it, in this process. It must end with 0 or 1, in words of ours, in time, and leave nothing behind.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import polars as pl

from phsafe.cli import main as phsafe

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("persons", "units", "geo")
#: A case that takes longer than this has hung.
SECONDS = 120
ODD = [
    "",
    "NaN",
    "-1",
    "1e999",
    "999999999999999999999",
    "'",
    '"',
    ";--",
    "\0",
    "é",
    "x" * 500,
    "01",
    " 1",
    "null",
]


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


def damage_bytes(rng: random.Random, content: bytes) -> bytes:
    """Some bytes changed, cut out, put in, or everything random."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(2000))
    if kind == 1:
        return content[: rng.randrange(len(content) + 1)]
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 10])):
        place = rng.randrange(len(changed) or 1)
        changed[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    return bytes(changed)


def damage_csv(rng: random.Random, text: str) -> str:
    """Fields replaced, rows repeated or dropped, columns renamed or shuffled."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(rng.choice([1, 2, 5])):
        row = rows[rng.choice([0, rng.randrange(len(rows))])]
        kind = rng.randrange(5)
        if kind == 0:
            row[rng.randrange(len(row))] = rng.choice(ODD)
        elif kind == 1:
            row.append(rng.choice(ODD))
        elif kind == 2 and len(row) > 1:
            row.pop(rng.randrange(len(row)))
        elif kind == 3:
            rows.append(list(rng.choice(rows)))
        else:
            rng.shuffle(row)
    return rng.choice(["\n", "\r\n"]).join(",".join(row) for row in rows)


def damage_json(rng: random.Random, document: object, depth: int = 0) -> object:
    """A value somewhere replaced, a key dropped or added."""
    if isinstance(document, dict) and document and rng.random() < 0.9 - 0.1 * depth:
        changed = dict(document)
        key = rng.choice(list(changed))
        kind = rng.randrange(6)
        if kind == 0:
            del changed[key]
        elif kind == 1:
            changed[rng.choice(ODD)] = rng.choice(ODD)
        else:
            changed[key] = damage_json(rng, changed[key], depth + 1)
        return changed
    return rng.choice(
        [*ODD, None, [], {}, [[[]]], -1, 0, 1e-300, 10**400, True, ["01", "01"], {"usa_*": 1}, 0.1]
    )


def damage_parquet(rng: random.Random, file: Path) -> None:
    """A column of another type, with nulls, renamed or missing; or other bytes."""
    frame = pl.read_parquet(file)
    name = rng.choice(frame.columns)
    kind = rng.randrange(6)
    if kind == 0:
        frame = frame.drop(name)
    elif kind == 1:
        kinds = [pl.Int64, pl.Float64, pl.String, pl.Boolean, pl.Date, pl.UInt8]
        frame = frame.with_columns(pl.col(name).cast(rng.choice(kinds), strict=False))
    elif kind == 2:
        frame = frame.with_columns(
            pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise(name).alias(name)
        )
    elif kind == 3:
        frame = frame.rename({name: rng.choice(["", "x", "é", name.lower()]) or "_"})
    elif kind == 4:
        frame = frame.head(0)
    frame.write_parquet(file)
    if kind == 5:
        file.write_bytes(damage_bytes(rng, file.read_bytes()))


class Bench:
    """The inputs to damage, and a folder in which each case has a room of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = ROOT / "examples" / "us.json"
        self.small = ROOT / "tests" / "data" / "small"
        self.parquet = folder / "parquet"
        self.parquet.mkdir()
        for name in NAMES:
            frame = pl.read_csv(self.small / f"{name}.csv", infer_schema=False)
            frame.with_columns(pl.col("MAFID", "RTYPE").cast(pl.Int32)).write_parquet(
                self.parquet / f"{name}.parquet"
            )
        self.release = folder / "release"
        code, said = command("release", self.config, self.small, self.release, "--ledger", folder / "ledger")
        assert code == 0, said

    def case(self, rng: random.Random) -> str | None:
        """One damaged input and one command; what went wrong, if anything."""
        room = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            return self._in(room, rng)
        finally:
            shutil.rmtree(room)

    def _in(self, room: Path, rng: random.Random) -> str | None:
        kind = rng.choice(["config", "csv", "csv", "bytes", "parquet", "release"])
        words: list[object]
        if kind == "config":
            file = room / "config.json"
            if rng.random() < 0.3:
                file.write_bytes(damage_bytes(rng, self.config.read_bytes()))
            else:
                file.write_text(json.dumps(damage_json(rng, json.loads(self.config.read_text()))))
            words = rng.choice(
                [["budget", file], ["budget", file, "--json"], ["tabulate", file, self.small, room / "out"]]
            )
        elif kind == "release":
            copy = room / "release"
            shutil.copytree(self.release, copy)
            file = rng.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
            file.write_bytes(damage_bytes(rng, file.read_bytes()))
            words = rng.choice([["check", copy], ["estimate", copy, room / "out"]])
        else:
            data = room / "data"
            shutil.copytree(self.parquet if kind == "parquet" else self.small, data)
            name = rng.choice(NAMES)
            file = data / f"{name}.{'parquet' if kind == 'parquet' else 'csv'}"
            if kind == "parquet":
                damage_parquet(rng, file)
            elif kind == "bytes":
                file.write_bytes(damage_bytes(rng, file.read_bytes()))
            else:
                file.write_text(damage_csv(rng, file.read_text()), newline="")
            words = rng.choice(
                [["validate", self.config, data], ["tabulate", self.config, data, room / "out"],
                 ["release", self.config, data, room / "out", "--ledger", room / "ledger"]]
            )  # fmt: skip
        before = {path.name for path in room.iterdir()}
        code, said = command(*words)
        left = {path.name for path in room.iterdir()} - before - {"ledger", "ledger.key"}
        if code not in (0, 1):
            return f"{words[0]} ended with {code}"
        if "Traceback" in said or "internal fault" in said:
            return f"{words[0]}, {kind}: {said.strip().splitlines()[-1]}"
        if left != ({"out"} if code == 0 and room / "out" in words else set()):
            return f"{words[0]}, {kind}: left {sorted(left)} behind"
        return None


def fuzz(cases: int, seed: int) -> Counter[str]:
    """Run the cases; every kind of fault with how often it came, and the first case of it."""
    faults: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, _hung)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        start = time.monotonic()
        for number in range(cases):
            signal.alarm(SECONDS)
            fault = bench.case(random.Random(f"{seed}:{number}"))
            signal.alarm(0)
            if fault:
                faults[fault] += 1
                print(f"case {seed}:{number}: {fault}", flush=True)
            if number % 500 == 499:
                print(
                    f"{number + 1} cases, {time.monotonic() - start:.0f} s, {faults.total()} faults",
                    flush=True,
                )
    return faults


def _hung(*_: object) -> None:
    raise RuntimeError("hung")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    sys.exit(1 if fuzz(arguments.cases, arguments.seed) else 0)
