"""Memory use and time of `phsafe pums` on real records of three small states, repeated with new serial numbers.

    python benchmarks/pums.py [--people 16000000] [--memory-limit 2GB] [--expand]

The input has the columns that are read and 80 replicate weights, like the Bureau's files. Input and output are in a
temporary folder.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import polars as pl

DATA = Path(__file__).resolve().parents[1] / "tests" / "data" / "acs2018"


def records() -> pl.DataFrame:
    """The persons of the three states, as text, with replicate weights and a number for each household."""
    frames = []
    for path in sorted(DATA.glob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            frames.append(pl.read_csv(archive.read(archive.namelist()[0]), infer_schema=False))
    people = pl.concat(frames)
    weights = [pl.col("PWGTP").alias(f"PWGTP{i}") for i in range(1, 81)]
    return people.with_columns(weights).with_columns(home=pl.col("SERIALNO").rank("dense"))


def write(path: Path, people: int) -> int:
    """Write the records repeatedly until there are at least `people`; return the number written."""
    once = records()
    homes = once["home"].n_unique()
    copies = -(-people // once.height)
    with path.open("wb") as file:
        for copy in range(copies):
            serial = pl.col("SERIALNO").str.head(6) + (pl.col("home") + copy * homes).cast(pl.String).str.zfill(9)
            frame = once.with_columns(SERIALNO=serial).drop("home")
            frame.write_csv(file, include_header=copy == 0)
    return copies * once.height


def main() -> None:
    """Write a file, convert it, and print time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=16_000_000)
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--expand", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people = write(folder / "p.csv", given.people)
        arguments = [
            "pums",
            folder / "out",
            folder / "p.csv",
            "--memory-limit",
            given.memory_limit,
            "--temp-dir",
            folder,
        ]
        arguments += ["--expand"] if given.expand else []
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "phsafe", *map(str, arguments)], check=True)
        seconds = time.perf_counter() - start
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        size = (folder / "p.csv").stat().st_size
        print(
            f"{people:,} people, {size / 1e9:.1f} GB of CSV: {seconds:.0f} s, "
            f"{used.ru_utime + used.ru_stime:.0f} CPU s, peak memory {used.ru_maxrss / 1e6:.2f} GB "
            f"(DuckDB limit {given.memory_limit})"
        )


if __name__ == "__main__":
    main()
