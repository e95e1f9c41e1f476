"""`phsafe release`: the exit code shows whether the loss was charged and whether the release is complete."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phsafe import Release
from phsafe.model.exact_numbers import dumps
from phsafe.privacy.ledger import Ledger

PROGRAM = [sys.executable, "-c", "from phsafe.cli import program; program()", "release"]


@pytest.fixture
def words(pr_document, small, tmp_path):
    config = tmp_path / "pr.json"
    config.write_text(dumps(pr_document))
    return [config, small, tmp_path / "out", "--ledger", tmp_path / "ledger", "--new-ledger", "--skip-validation"]


def is_complete_and_charged(folder):
    (entry,) = Ledger.open(folder / "ledger").charges()
    return Release.open(folder / "out").release_id == entry.release_id


def test_a_full_disk_under_standard_output(words, tmp_path):
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([*PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 3
    assert "is charged and complete" in run.stderr and "Traceback" not in run.stderr
    assert is_complete_and_charged(tmp_path)


def test_a_reader_that_closes_the_pipe(words, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        run = subprocess.run([*PROGRAM, *words], stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert run.returncode == 3
    assert "do not repeat the release" in run.stderr and "Traceback" not in run.stderr
    assert is_complete_and_charged(tmp_path)


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_failure(words, tmp_path, closed):
    closing = " ".join(f"{number}>&-" for number in closed)
    run = subprocess.run(["/bin/sh", "-c", f'"$@" {closing}', "sh", *PROGRAM, *words], check=False)
    assert run.returncode == 0
    assert is_complete_and_charged(tmp_path)


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.4])
def test_an_interrupted_release_is_charged_and_complete_or_neither(words, tmp_path, delay):
    """The signal arrives after the program shows its first stage, at different times."""
    with subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        run.stderr.readline()
        time.sleep(delay)
        run.send_signal(signal.SIGINT)
        output, code = run.stderr.read(), run.wait()
    assert "Traceback" not in output
    assert code in (0, 3, 130)
    if code == 130:
        assert "nothing was charged" in output
        assert not (tmp_path / "out").exists() and Ledger.open(tmp_path / "ledger").charges() == ()
    else:
        assert is_complete_and_charged(tmp_path)


def test_a_failure_after_the_charge_exits_with_4(words, tmp_path):
    code = """
from phsafe import cli
from phsafe.pipeline import publish
def fail(*_):
    raise RuntimeError("12345")
publish.write_manifest = fail
cli.program()
"""
    run = subprocess.run([sys.executable, "-c", code, "release", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 4
    assert "stays charged" in run.stderr and "12345" not in run.stderr
    assert len(Ledger.open(tmp_path / "ledger").charges()) == 1 and not (tmp_path / "out").exists()
