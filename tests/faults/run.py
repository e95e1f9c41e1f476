"""Break everything, many times: `python tests/faults/run.py [--repeat 10] [--only WORD] [--seed S] [--write FILE]`.

For each fault and repetition: nothing that was charged is lost, nothing is published uncharged, nothing stands half
written under a final name, nothing confidential is left, the next run works, and what was said is a sentence.
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

import ledgers  # noqa: F401  (these four put their faults in the list)
import room  # noqa: F401
import stops  # noqa: F401
import torn  # noqa: F401
from fault import FAULTS, AbsentError
from place import Place

#: After this many seconds no further repetition is begun.
LONGEST = 3600
MARKS = ("<!-- faults: begin -->", "<!-- faults: end -->")


def main() -> int:
    """Run all faults and print a table; 1 if anything did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=10, help="repetitions of each fault")
    parser.add_argument("--only", default="", help="faults whose name holds this word")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--write", type=Path, default=None, help="a Markdown file to put the table in")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    start = time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        rows, bad = bench(root, arguments.repeat, arguments.only, seed, start + LONGEST)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    tried, faults_tried = sum(row[1] for row in rows), sum(row[1] > 0 for row in rows)
    summary = (
        f"{faults_tried} faults, {tried} repetitions, {bad} that did not hold, "
        f"in {(time.monotonic() - start) / 60:.0f} minutes (seed {seed})."
    )
    lines = ["| fault | tried | how the commands ended | all held |", "|---|---:|---|---|"]
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
    """Every fault: name, repetitions, how its commands ended, whether all held; and the number that did not."""
    Place.usual = _usual(root)
    rows, bad = [], 0
    for name, do in FAULTS.items():
        if only not in name:
            continue
        ended: Counter[str] = Counter()
        tries = failures = 0
        why = ""
        for i in range(repeat):
            if time.monotonic() > deadline:
                why = "no time left"
                break
            place = Place(root / f"{len(rows)}-{i}")
            try:
                endings = do(place, random.Random(f"{seed} {name} {i}"))
                problems = place.problems(endings)
            except AbsentError as reason:
                why = str(reason)
                break
            except Exception as error:
                endings, problems = [], [f"{type(error).__name__}: {error}"]
            tries += 1
            ended.update(_word(ending.code) for ending in endings)
            failures += bool(problems)
            for problem in problems:
                print(f"{name}, repetition {i}: {problem}", file=sys.stderr, flush=True)
            if not problems:
                shutil.rmtree(place.root, ignore_errors=True)
        held = "not tried: " + why if not tries else "yes" if not failures else f"no: {failures}"
        shown = ", ".join(f"{count} {word}" for word, count in sorted(ended.items()))
        rows.append((name, tries, shown, held))
        bad += failures + (why == "no time left")
        print(f"{name}: {tries} × {shown}; all held: {held}", file=sys.stderr, flush=True)
    return rows, bad


def _usual(root: Path) -> float:
    """How long a release takes here, when the processes have started."""
    place = Place(root / "usual")
    place.run(["--version"])
    start = time.monotonic()
    ending = place.run(place.release())
    assert ending.code == 0, ending
    return time.monotonic() - start


def _word(code: int) -> str:
    return "finished" if code == 0 else "killed" if code < 0 else "refused or stopped in words"


if __name__ == "__main__":
    sys.exit(main())
