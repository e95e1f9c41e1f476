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
#: Runs the program after a change of one of its parts.
CHANGED = """
import os, signal, sys
from phsafe import cli
from phsafe.pipeline import publish
from phsafe.privacy import ledger, mechanism
{change}
cli.program()
"""


@pytest.fixture
def words(pr_document, small, tmp_path):
    config = tmp_path / "pr.json"
    config.write_text(dumps(pr_document))
    return [config, small, tmp_path / "out", "--ledger", tmp_path / "ledger", "--new-ledger", "--skip-validation"]


@pytest.fixture
def changed(words):
    """Run the program with a changed part, and its standard error in a pipe."""

    def run(change, **streams):
        command = [sys.executable, "-c", CHANGED.format(change=change), "release", *words]
        return subprocess.run(command, check=False, text=True, **{"capture_output": not streams, **streams})

    return run


def is_complete_and_charged(folder):
    (charge,) = Ledger.open(folder / "ledger").charges()
    return Release.open(folder / "out").release_id == charge.release_id


def test_done_exits_with_0(words, tmp_path):
    run = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert is_complete_and_charged(tmp_path)
    assert f"Created the ledger {tmp_path}/ledger with a cap of 1.226649 ρ for Puerto Rico." in run.stderr
    assert Ledger.open(tmp_path / "ledger").read().head in run.stdout


@pytest.mark.parametrize("missing", ["the ledger", "the data"])
def test_refused_exits_with_1_and_makes_nothing(words, tmp_path, missing):
    if missing == "the ledger":
        words[3:6] = ["--ledger", tmp_path / "us.legder"]
    else:
        words[1] = tmp_path / "nowhere"
    run = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == ["pr.json"]
    if missing == "the ledger":
        assert f"type phsafe ledger init {tmp_path}/us.legder --cap 1.226649" in run.stderr


@pytest.mark.parametrize("option", [["--cap", "many"], ["--max-rho", "-1"], ["--cap", "nan"], ["--ledgre", "x"]])
def test_a_wrong_command_exits_with_2(phsafe_command, words, tmp_path, option):
    assert phsafe_command("release", *words, *option).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["pr.json"]


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


def test_a_pipe_to_head(words, tmp_path):
    script = '"$@" | head -0; exit "${PIPESTATUS[0]}"'
    run = subprocess.run(["bash", "-c", script, "bash", *PROGRAM, *words], check=False, capture_output=True, text=True)
    assert run.returncode == 3, "head ends long before the summary is printed"
    assert is_complete_and_charged(tmp_path)


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_closed_streams_are_no_failure(words, tmp_path, closed):
    closing = " ".join(f"{number}>&-" for number in closed)
    run = subprocess.run(["/bin/sh", "-c", f'"$@" {closing}', "sh", *PROGRAM, *words], check=False)
    assert run.returncode == 0
    assert is_complete_and_charged(tmp_path)


@pytest.mark.parametrize("broken", ["a closed pipe", "a full disk"])
def test_standard_error_decides_nothing(words, tmp_path, broken):
    """Progress and notices are written before, during and after the charge."""
    reader, writer = os.pipe()
    os.close(reader)
    target = writer if broken == "a closed pipe" else os.open("/dev/full", os.O_WRONLY)
    run = subprocess.run([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=target, text=True, check=False)
    for descriptor in {writer, target}:
        os.close(descriptor)
    assert run.returncode == 0
    assert "Released to" in run.stdout
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


INTERRUPT = """
def interrupted(*arguments, original={part}, **options):
    os.kill(os.getpid(), signal.SIGINT)
    return original(*arguments, **options)
{part} = interrupted
"""


@pytest.mark.parametrize("part", ["publish.count_source", "publish.fingerprint_chunks", "publish.open_session"])
def test_an_interrupt_before_the_charge_exits_with_130(changed, heard, tmp_path, part):
    run = changed(INTERRUPT.format(part=part))
    assert run.returncode == 130
    assert "stopped: nothing was charged" in run.stderr
    assert Ledger.open(tmp_path / "ledger").charges() == () and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "part", ["mechanism.Session.measure", "publish.write_release", "ledger.Ledger.finish", "publish.Release.read"]
)
def test_an_interrupt_after_the_charge_exits_with_3(changed, heard, tmp_path, part):
    run = changed(INTERRUPT.format(part=part))
    assert run.returncode == 3
    assert "already charged, so it was finished and is complete" in run.stderr
    assert is_complete_and_charged(tmp_path)
    (charge,) = Ledger.open(tmp_path / "ledger").charges()
    assert charge.files is not None


FAIL = """
class Panic(BaseException):
    pass
def fail(*arguments, **options):
    raise {error}("12345")
{part} = fail
"""


@pytest.mark.parametrize("error", ["RuntimeError", "MemoryError", "Panic"])
@pytest.mark.parametrize("part", ["publish.write_manifest", "mechanism.Session.measure"])
def test_a_failure_after_the_charge_exits_with_4(changed, tmp_path, part, error):
    run = changed(FAIL.format(part=part, error=error))
    assert run.returncode == 4
    assert "stays charged" in run.stderr and "12345" not in run.stderr
    (charge,) = Ledger.open(tmp_path / "ledger").charges()
    assert charge.files is None and not (tmp_path / "out").exists()


#: The first call reads the release to verify it; later calls fail.
AFTER_THE_RENAME = """
from phsafe.system import atomic_writes
rename = atomic_writes.Draft.finish
def finish(self):
    rename(self)
    publish.Release.read = fail
atomic_writes.Draft.finish = finish
"""


@pytest.mark.parametrize("error", ["RuntimeError", "Panic"])
@pytest.mark.parametrize("part", ["ledger.Ledger.finish", "unused", "cli.release._summary"])
def test_a_failure_after_the_release_is_complete_exits_with_3(changed, tmp_path, part, error):
    change = "import phsafe.cli.release\nunused = None\n" + FAIL.format(part=part, error=error)
    run = changed(change + (AFTER_THE_RENAME if part == "unused" else ""))
    assert run.returncode == 3, run.stderr
    assert "is charged and complete" in run.stderr and "12345" not in run.stderr
    assert is_complete_and_charged(tmp_path)


def test_a_progress_callback_that_fails_after_the_charge_costs_nothing(pr_document, small, tmp_path):
    import phsafe

    def fail(stage, done):
        if done > 0.85:
            raise BrokenPipeError

    phsafe.release(
        pr_document, small, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True, skip_validation=True,
        progress=fail,
    )  # fmt: skip
    assert is_complete_and_charged(tmp_path)


def test_a_disk_that_fails_after_the_rename_leaves_a_complete_release(changed, tmp_path):
    """The folder has its final name, so it is complete, although its name may not be on disk."""
    run = changed(
        "from phsafe.system import atomic_writes\n"
        "flush = atomic_writes.flush\n"
        "def fail(path):\n"
        f"    if path == atomic_writes.Path({str(tmp_path)!r}):\n"
        "        raise OSError(5, 'Input/output error')\n"
        "    flush(path)\n"
        "atomic_writes.flush = fail\n"
    )
    assert run.returncode == 3
    assert "is charged and complete, but a step after it failed" in run.stderr
    assert is_complete_and_charged(tmp_path)
    (charge,) = Ledger.open(tmp_path / "ledger").charges()
    assert charge.files is None
