"""Speed, memory use and fidelity of `phsafe synth`.

python benchmarks/synth.py                      seconds and peak memory: 100 thousand to 10 million households
python benchmarks/synth.py --nation OUT         the same for the whole nation; keeps the folder
python benchmarks/synth.py --shares FOLDER      target and generated shares of the nation
python benchmarks/synth.py --shares FOLDER --state 15    … of one state
python benchmarks/synth.py --tune               one tuning step for the hand-fitted constants
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from phsafe.model.schema import US_STATES
from phsafe.synthetic import fidelity, household_types, roles, synth
from phsafe.synthetic.chunk_plan import plan
from phsafe.synthetic.chunks import compose

SIZES = (100_000, 1_000_000, 10_000_000)
NATION = 126_800_000


def main() -> None:
    """Run the benchmark selected by the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nation", metavar="OUT", type=Path)
    parser.add_argument("--shares", metavar="FOLDER", type=Path)
    parser.add_argument("--state")
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--make", nargs=2, metavar=("OUT", "N"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make:
        synth(arguments.make[0], int(arguments.make[1]))
    elif arguments.shares:
        say(fidelity.table(fidelity.compare(arguments.shares, arguments.state)))
    elif arguments.tune:
        tune()
    else:
        say("| households | people | seconds | CPU seconds | peak memory | on disk |\n|---:|---:|---:|---:|---:|---:|")
        if arguments.nation:
            say(measure(arguments.nation, NATION))
            return
        with tempfile.TemporaryDirectory() as folder:
            for households in SIZES:
                say(measure(Path(folder) / str(households), households))


def say(text: str) -> None:
    """Print a line and flush."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def measure(out: Path, households: int) -> str:
    """Measure one run in a separate process, start to finish, and return its table row."""
    command = [sys.executable, __file__, "--make", str(out), str(households)]
    start, cpu = time.monotonic(), _cpu()
    process = subprocess.Popen(command)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(resident, family(process.pid))))
        time.sleep(0.1)
    seconds, cpu = time.monotonic() - start, _cpu() - cpu
    if process.returncode:
        raise SystemExit(process.returncode)
    disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    people = sum(_rows(path) for path in (out / "persons").iterdir())
    spent = f"{seconds:.1f} | {cpu:.1f} | {peak / 1e9:.2f} GB | {disk / 1e9:.3f} GB"
    return f"| {households:,} | {people:,} | {spent} |"


def _cpu() -> float:
    """CPU seconds of all finished child processes: the cost of a run regardless of how busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def family(pid: int) -> list[int]:
    """A process and all its descendants (Linux)."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return [pid]
    return [pid, *(grandchild for child in children for grandchild in family(int(child)))]


def resident(pid: int) -> int:
    """Resident memory of a process in bytes; memory shared by two processes counts twice."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _rows(path: Path) -> int:
    import pyarrow.parquet as pq  # noqa: PLC0415

    return int(pq.read_metadata(path).num_rows)


def tune() -> None:
    """Print `household_types.MORE_BY_GROUP` and `roles.LARGE_FACTOR`, moved towards the national shares of people."""
    names = ("WHITE_NOT_HISPANIC", "WHITE", "BLACK", "AIAN", "ASIAN", "NHPI", "SOR", "TWO_UP")
    target = np.array([fidelity.NATION.get(f"P_RACE_{n}", fidelity.NATION.get(f"P_{n}", 0.0)) for n in names])
    target[1] -= target[0]  # White alone and Hispanic
    generated, large, total = np.zeros(len(names)), 0, 1_000_000
    for chunk in plan(total, US_STATES, seed=1):
        tables = compose(chunk)
        at_home = tables["persons"]["RTYPE"] == 3
        people = {name: values[at_home].astype(np.int64) for name, values in tables["persons"].items()}
        generated += np.bincount(_class(people["CENRACE"], people["CENHISP"]), minlength=len(names))
        minors = np.bincount(people["MAFID"] - chunk.first_mafid, people["QAGE"] < 18)
        large += int(np.count_nonzero(minors > 6))
    factor = (target / target.sum()) / (generated / generated.sum())
    for name, ratio in zip(names, factor, strict=True):
        say(f"{name:20} target / generated = {ratio:.4f}")
    group_class = np.array([0, 1, *np.repeat(np.arange(2, len(names)), 2)])
    more = np.array(household_types.MORE_BY_GROUP) * np.sqrt(factor[group_class])
    share = 100 * large / total
    say(f"MORE_BY_GROUP = {tuple(round(float(odds), 3) for odds in more)}")
    say(f"more than 6 under 18: {share:.4f} %")
    say(f"LARGE_FACTOR = {roles.LARGE_FACTOR * (share / fidelity.NATION['MINORS_7_UP']) ** 0.5:.2f}")


def _class(race: npt.NDArray[np.int64], ethnicity: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """0 White alone not Hispanic, 1 White alone Hispanic, 2–6 the other single races, 7 two or more."""
    return np.where(race == 1, ethnicity - 1, np.minimum(race, 7))


if __name__ == "__main__":
    main()
