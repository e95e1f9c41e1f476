"""A short fuzzing run; for a long one, use `python tests/fuzz/run.py`."""

import subprocess
import sys
from pathlib import Path

CASES = 40


def test_damaged_inputs_are_handled():
    bench = Path(__file__).with_name("run.py")
    ran = subprocess.run(
        [sys.executable, bench, "--cases", str(CASES), "--seed", "2020"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, f"{CASES} cases" in ran.stdout) == (0, True), ran.stdout + ran.stderr
