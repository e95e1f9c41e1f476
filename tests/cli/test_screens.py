"""What a terminal shows: one screen for the demo, totals first, examples in the help, links, and corrections."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from rich.console import Console

from phsafe.cli.app import app
from phsafe.cli.console import linked
from phsafe.cli.examples import EXAMPLES

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = typer.main.get_command(app)
#: The size of a terminal that has not been changed.
LINES, COLUMNS = 24, 80


def leaf(name):
    command = ROOT
    for word in name.split():
        command = command.commands[word]
    return command


def leaves(command=ROOT, prefix=""):
    for name, child in command.commands.items():
        if getattr(child, "commands", None):
            yield from leaves(child, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def sample(page):
    """The truth and the width of the interval in each line of the printed table."""
    lines = re.findall(r" ([\d,]+) +[\d,]+ +([\d,]+) – ([\d,]+)", page)
    assert len(lines) == 4
    numbers = ((int(number.replace(",", "")) for number in line) for line in lines)
    return {truth: high - low for truth, low, high in numbers}


def test_the_demo_fits_on_one_screen_and_the_readme_shows_its_output(phsafe_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    outcome = phsafe_command("demo")
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert len(lines) <= LINES and max(map(len, lines)) <= COLUMNS
    assert "PH7 Total Population in Occupied Housing Units by Tenure" in outcome.out and "PH8" not in outcome.out
    # The draw of the noise hardly changes a width: by 0.5 % in twelve runs.
    assert sample(outcome.out) == pytest.approx(sample((REPOSITORY / "README.md").read_text()), rel=0.05)
    files = [line.split()[0] for line in lines if line.startswith("  phsafe-demo/")]
    assert len(files) == 3 and all(Path(name).exists() for name in files)
    for line in lines:
        if line.startswith("  phsafe "):
            done = phsafe_command(*shlex.split(line)[1:])
            assert done.code == 0, done.err


def test_the_budget_begins_with_the_total(phsafe_command):
    for options in ([], ["--compare"]):
        first, *_ = phsafe_command("budget", "examples/us.json", *options).out.split("Tabulation")
        assert "Loss of the whole run" in first and "1.257281" in first


def test_every_command_has_examples_that_parse():
    assert set(EXAMPLES) == set(leaves())
    for name, examples in EXAMPLES.items():
        assert examples
        for arguments in examples:
            words = shlex.split(arguments.partition(" > ")[0])
            leaf(name).make_context(name, words)  # raises if an option or an argument is wrong


@pytest.mark.parametrize("name", list(leaves()))
def test_help_has_examples_and_no_types(phsafe_command, name):
    page = phsafe_command(*name.split(), "--help").out
    assert "Examples:\n  phsafe " + name in page
    for noise in ("<str>", "<path>", "<int>", "{", "[required]", "x>=", "<=x"):
        assert noise not in page
    assert max(map(len, page.splitlines())) <= COLUMNS


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["estimte"], "estimate"),
        (["ledger", "shw"], "show"),
        (["estimate", "--metod", "joint", "a", "b"], "--method"),
        (["budget", "examples/uss.json"], "did you mean us.json?"),
        (["budget", "us"], "phsafe config us > us.json"),
        (["validate", "examples/us.json", "tests/data/smal"], "did you mean small?"),
        (["check", "tests/data/release1"], "did you mean tests/data/release-1?"),
    ],
)
def test_mistakes_are_answered_with_what_was_meant(phsafe_command, words, meant):
    outcome = phsafe_command(*words)
    assert outcome.code in (1, 2)
    assert meant in outcome.err


def test_paths_are_links_on_a_terminal_only(tmp_path):
    shown = linked(f"Wrote {tmp_path}.", tmp_path)
    terminal, pipe = (Console(force_terminal=forced, width=200, record=False) for forced in (True, False))
    with terminal.capture() as on_terminal:
        terminal.print(shown)
    with pipe.capture() as elsewhere:
        pipe.print(shown)
    assert tmp_path.as_uri() in on_terminal.get() and "\x1b]8;" in on_terminal.get()
    assert elsewhere.get() == f"Wrote {tmp_path}.\n"
    assert "\x1b" not in linked("no path here", tmp_path).plain
