"""A quick selection of faults, once each; `run.py` repeats all of them many times."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")


@pytest.mark.parametrize("fault", ["kill -9 between", "key torn"])
def test_promises_are_kept(fault):
    run = subprocess.run(
        [sys.executable, str(RUN), "--repeat", "1", "--only", fault, "--seed", "1"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 faults, 1 repetitions, 0 with broken promises" in run.stdout
