"""The command itself: help, exit codes, and silence about records."""

import subprocess
import sys

import pytest

from phsafe import cli
from phsafe.cli import app as cli_app
from phsafe.errors import ChargedError, FinishedError, PHSafeError
from phsafe.system.interrupts import FinishedInterrupt

MARKER = "S3CRET"


def test_help_reads_well(phsafe_command):
    outcome = phsafe_command("--help")
    assert outcome.code == 0
    assert "published with differential privacy" in " ".join(outcome.out.split())
    assert "tabulate" in outcome.out
    assert "Traceback" not in outcome.out + outcome.err


def test_help_of_a_command(phsafe_command):
    outcome = phsafe_command("tabulate", "-h")
    assert outcome.code == 0
    for word in ("CONFIG", "DATA", "OUT", "NOT PRIVATE", "--no-truncate", "--threads"):
        assert word in outcome.out


def test_version(phsafe_command):
    outcome = phsafe_command("--version")
    assert (outcome.code, outcome.out[:7]) == (0, "phsafe ")


@pytest.mark.parametrize(
    "words",
    [
        ["nothing"],
        ["tabulate"],
        ["tabulate", "a", "b"],
        ["tabulate", "a", "b", "c", "d"],
        ["tabulate", "a", "b", "c", "--unknown"],
        ["tabulate", "a", "b", "c", "--threads", "0"],
        ["tabulate", "a", "b", "c", "--threads", "many"],
        ["tabulate", "a", "b", "c", "--engine", "abacus"],
    ],
)
def test_a_wrong_command_exits_with_2(phsafe_command, words):
    outcome = phsafe_command(*words)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err


def failing(monkeypatch, error):
    def app():
        raise error

    monkeypatch.setattr(cli_app, "app_for", lambda _: app)


def test_every_reason_on_its_own_line(monkeypatch, phsafe_command):
    failing(monkeypatch, PHSafeError(["first", "second"]))
    outcome = phsafe_command()
    assert outcome == (1, "", "phsafe: error: first\nphsafe: error: second\n")


def test_an_internal_error_shows_no_record(monkeypatch, phsafe_command):
    monkeypatch.delenv("PHSAFE_DEBUG", raising=False)
    failing(monkeypatch, KeyError(MARKER))
    outcome = phsafe_command()
    assert outcome.code == 1
    assert "internal error (KeyError)" in outcome.err
    assert MARKER not in outcome.err


def test_debug_mode_shows_the_traceback(monkeypatch, phsafe_command):
    monkeypatch.setenv("PHSAFE_DEBUG", "1")
    failing(monkeypatch, KeyError(MARKER))
    with pytest.raises(KeyError):
        phsafe_command()


def test_an_interrupt_is_reported(monkeypatch, phsafe_command):
    failing(monkeypatch, KeyboardInterrupt())
    outcome = phsafe_command()
    assert (outcome.code, outcome.err) == (130, "phsafe: stopped\n")


def test_a_closed_pipe_is_not_an_error():
    run = subprocess.run(
        [sys.executable, "-c", "import phsafe.cli as c; c.main()", "--help"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
    piped = subprocess.run(
        f'"{sys.executable}" -c "import phsafe.cli as c; c.main()" --help | true; exit "${{PIPESTATUS[0]}}"',
        shell=True, executable="/bin/bash", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in piped.stderr
    assert "Exception" not in piped.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PHSafeError("no"), 1),
        (ChargedError("no"), 4),
        (FinishedError("no"), 3),
        (FinishedInterrupt("done"), 3),
        (KeyboardInterrupt("nothing was charged"), 130),
    ],
)
def test_exit_codes_show_what_was_charged(monkeypatch, phsafe_command, error, code):
    failing(monkeypatch, error)
    outcome = phsafe_command()
    assert (outcome.code, outcome.out) == (code, "")
    assert str(error) in outcome.err


def test_importing_the_command_is_cheap():
    heavy = "{'duckdb', 'polars', 'numpy', 'pyarrow'}"
    code = f"import phsafe.cli.app, phsafe, sys; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_release_loads_neither_pandas_nor_scipy(us, small, tmp_path):
    """They take longer to load than a small release takes otherwise."""
    code = f"""
import phsafe, sys
phsafe.release({str(us)!r}, {str(small)!r}, {str(tmp_path / "out")!r}, ledger={str(tmp_path / "l")!r}, new_ledger=True)
print(sorted({{"pandas", "scipy"}} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_program_is_the_entry_point():
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="console_scripts", name="phsafe")
    assert entry.load() is cli.program


@pytest.mark.parametrize("code", [0, 1, 2, None, "words"])
def test_the_program_exits_with_the_same_code_and_all_output(code):
    """What Python does at the end is left out; what was said is not."""
    script = f"""
import atexit, sys
from phsafe import cli
def main():
    print("said " * 1000, end="")
    sys.exit({code!r})
cli.main = main
atexit.register(print, "at the end")
cli.program()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1 if code == "words" else code or 0, "said " * 1000)


def test_another_system_is_refused_with_a_reason():
    """Locks and file modes are those of POSIX; the message comes before anything is imported that needs them."""
    code = "import os; os.name = 'nt'; from phsafe.cli import program; program()"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("phsafe: error: expected a POSIX system")
