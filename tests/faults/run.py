"""Inject every fault many times: `python tests/faults/run.py [--repeat 10] [--only TEXT] [--seed S] [--write FILE]`.

After each repetition: nothing that was charged is lost, nothing is published uncharged, nothing incomplete has a final
name, nothing confidential is left behind, the next run works, and the message is a clear sentence.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import ledgers  # noqa: F401  (these four register their faults)
import room  # noqa: F401
import stops  # noqa: F401
import torn  # noqa: F401
from fault import FAULTS, UnavailableError
from place import Workspace

#: After this many seconds, no further repetition starts.
TIME_LIMIT = 3600
MARKS = ("<!-- faults: begin -->", "<!-- faults: end -->")


def main() -> int:
    """Run all faults and print a table; return 1 if any promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=10, help="repetitions of each fault")
    parser.add_argument("--only", default="", help="only faults whose name contains this text")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--write", type=Path, default=None, help="a Markdown file to update with the table")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    start = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        rows, bad = bench(root, arguments.repeat, arguments.only, seed, start + TIME_LIMIT)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    tried, faults_tried = sum(row[1] for row in rows), sum(row[1] > 0 for row in rows)
    summary = (
        f"{faults_tried} faults, {tried} repetitions, {bad} with broken promises, "
        f"in {(time.monotonic() - start) / 60:.0f} minutes (seed {seed})."
    )
    lines = ["| fault | repetitions | how the commands ended | all promises kept |", "|---|---:|---|---|"]
    lines += [f"| {name} | {tries} | {ended} | {held} |" for name, tries, ended, held in rows]
    table = "\n".join([*lines, "", summary])
    print(table)
    if arguments.write is not None:
        before, rest = arguments.write.read_text().split(MARKS[0])
        after = rest.split(MARKS[1])[1]
        arguments.write.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{after}")
    return int(bad > 0)


def bench(
    root: Path, repeat: int, only: str, seed: int, deadline: float
) -> tuple[list[tuple[str, int, str, str]], int]:
    """Run every fault; return table rows and the number of repetitions with broken promises."""
    Workspace.release_seconds = _release_seconds(root)
    rows, bad = [], 0
    for name, inject in FAULTS.items():
        if only not in name:
            continue
        ended: Counter[str] = Counter()
        tries = failures = 0
        skipped = ""
        for i in range(repeat):
            if time.monotonic() > deadline:
                skipped = "no time left"
                break
            workspace = Workspace(root / f"{len(rows)}-{i}")
            try:
                endings = inject(workspace, random.Random(f"{seed} {name} {i}"))
                problems = workspace.problems(endings)
            except UnavailableError as reason:
                skipped = str(reason)
                break
            except Exception as error:
                endings, problems = [], [f"{type(error).__name__}: {error}"]
            tries += 1
            ended.update(_outcome(ending.code) for ending in endings)
            failures += bool(problems)
            for problem in problems:
                print(f"{name}, repetition {i}: {problem}", file=sys.stderr, flush=True)
            if not problems:
                shutil.rmtree(workspace.root, ignore_errors=True)
        held = "not run: " + skipped if not tries else "yes" if not failures else f"no: {failures}"
        shown = ", ".join(f"{count} {outcome}" for outcome, count in sorted(ended.items()))
        rows.append((name, tries, shown, held))
        bad += failures + (skipped == "no time left")
        print(f"{name}: {tries} × {shown}; all promises kept: {held}", file=sys.stderr, flush=True)
    return rows, bad


def _release_seconds(root: Path) -> float:
    """Measure how long a release takes on this machine, after a warm-up."""
    workspace = Workspace(root / "warm-up")
    workspace.run(["--version"])
    start = time.monotonic()
    ending = workspace.run(workspace.release())
    assert ending.code == 0, ending
    return time.monotonic() - start


def _outcome(code: int) -> str:
    return "finished" if code == 0 else "killed" if code < 0 else "refused or stopped"


if __name__ == "__main__":
    sys.exit(main())
