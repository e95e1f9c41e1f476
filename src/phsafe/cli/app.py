"""The list of commands."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from phsafe.cli.accuracy import accuracy
from phsafe.cli.audit import audit
from phsafe.cli.budget import budget
from phsafe.cli.demo import demo
from phsafe.cli.estimate import estimate
from phsafe.cli.explore import explore
from phsafe.cli.ledger import app as ledger
from phsafe.cli.pums import pums
from phsafe.cli.registry import registry
from phsafe.cli.release import check, release
from phsafe.cli.report import report
from phsafe.cli.solve import solve
from phsafe.cli.synth import synth
from phsafe.cli.tabulate import tabulate
from phsafe.cli.validate import validate
from phsafe.cli.workbook import workbook
from phsafe.stopping import StoppedError


class Commands(TyperGroup):
    """Commands that can be stopped in words; Typer itself would end silently, with a code of its own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """The first page, in plain text: what draws the other pages takes longer to load than this one to read."""
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(self.help or "")
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            words = re.sub(r"\[[^\]]*\]", "", command.get_short_help_str(limit=200))
            panels.setdefault(command.rich_help_panel, []).append((name, words))
        for panel, lines in panels.items():
            with formatter.section(panel):
                formatter.write_dl(lines)
        formatter.write_paragraph()
        formatter.write_text("phsafe COMMAND --help says more.")

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise StoppedError(str(stop)) from None


app = typer.Typer(
    name="phsafe",
    cls=Commands,
    help="Tables about people in their households, published without giving any person away.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo, synth, pums),
    "With confidential data": (validate, tabulate, release),
    "With public or made-up data": (accuracy,),
    "After a release (public)": (check, estimate, report, registry),
    "Choose parameters (no data needed)": (budget, solve, explore, workbook, audit),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(ledger, name="ledger", rich_help_panel="With confidential data")


def app_for(words: Sequence[str]) -> typer.Typer:
    """The program for some words: with one command, if the first is its name; Typer builds all that it is given."""
    named = [command for command in app.registered_commands if getattr(command.callback, "__name__", "") in words[:1]]
    if not named:
        return app
    one = copy.copy(app)
    one.registered_commands, one.registered_groups = named, []
    return one


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"phsafe {version('phsafe')}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Take what stands before the command."""
