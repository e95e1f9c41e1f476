"""A short run of the fuzz bench; the long one is `python tests/fuzz/run.py`."""

import importlib.util
from pathlib import Path

CASES = 25


def test_damaged_inputs_end_in_words():
    spec = importlib.util.spec_from_file_location("fuzz_run", Path(__file__).with_name("run.py"))
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    assert run.fuzz(CASES, seed=2020) == {}
