"""The list of commands, the text and layout of `--help`, and `--version`."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from phsafe.cli.accuracy import accuracy
from phsafe.cli.arguments import with_output_options
from phsafe.cli.audit import audit
from phsafe.cli.budget import budget
from phsafe.cli.config import config
from phsafe.cli.demo import demo
from phsafe.cli.estimate import estimate
from phsafe.cli.examples import EXAMPLES
from phsafe.cli.explore import explore
from phsafe.cli.interval import interval
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
from phsafe.system.interrupts import INTERRUPTED, StoppedError


def _plain(text: str) -> str:
    """Return help text without markup."""
    return re.sub(r"\[/?(?:bold|red| )+\]|\[/\]", "", text)


def usage(command: Any, ctx: Any) -> str:  # noqa: ANN401
    """Return what follows the name of a command, without braces around arguments."""
    pieces = " ".join(command.collect_usage_pieces(ctx))
    return re.sub(r"\{([\w.]+)\}", r"\1", pieces).replace("[[", "[").replace("]]", "]")


def help_record(parameter: Any, ctx: Any) -> tuple[str, str] | None:  # noqa: ANN401
    """Return an argument or option and its help, without types: ``--method METHOD`` instead of ``--method <str>``."""
    record = parameter.get_help_record(ctx)
    if record is None:
        return None
    value = "" if parameter.param_type_name == "argument" else f" {parameter.name.upper()}"
    term = re.sub(r" <[^>]+>", value, record[0])
    text = re.sub(r" *\[(?:required|x[<>]=[^\]]*|\d+<=x[^\]]*)\]", "", record[1])
    return term, re.sub(r"; (?:required|x[<>]=[^\];]*|\d+<=x[^\];]*)\]", "]", text)


class Command(TyperCommand):
    """A command whose help is plain text, because loading Rich takes longer than reading the page."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401
        """Parse the arguments. An expression that begins with a minus looks like an option: say how to write it."""
        before = args[: args.index("--")] if "--" in args else args
        if any(re.match(r"-[^-].*\[", argument) for argument in before):
            hint = "phsafe interval RELEASE -- '-PH1[WY, 1]'"
            raise typer.BadParameter(f"before an expression that begins with a minus, write --, as in {hint}", ctx=ctx)
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Format the usage line."""
        formatter.write_usage(ctx.command_path, usage(self, ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Format the help page."""
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(_plain(self.help or ""))
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            name = "Arguments" if parameter.param_type_name == "argument" else "Options"
            if record := help_record(parameter, ctx):
                sections.setdefault(name, []).append(record)
        for name, lines in sections.items():
            with formatter.section(name):
                formatter.write_dl(lines)
        # The words after the program, which may be several: "ledger show".
        words = [ctx.info_name]
        while ctx.parent is not None and ctx.parent.parent is not None:
            ctx = ctx.parent
            words.insert(0, ctx.info_name)
        with formatter.section("Examples"):
            for arguments, meaning in EXAMPLES[" ".join(words)].items():
                formatter.write(f"  phsafe {' '.join(words)} {arguments}".rstrip() + f"\n      {meaning}\n")


class Commands(TyperGroup):
    """The commands. If one is interrupted, a message is shown; Typer alone would exit silently, with its own code."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401
        """Format the list of commands as plain text."""
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(self.help or "")
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            summary = _plain(command.get_short_help_str(limit=200))
            panels.setdefault(command.rich_help_panel or "Commands", []).append((name, summary))
        for panel, lines in panels.items():
            with formatter.section(panel):
                formatter.write_dl(lines)
        formatter.write_paragraph()
        formatter.write_text(f"Run {ctx.command_path} COMMAND --help for details.")

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise StoppedError(str(stop), getattr(stop, "exit_code", INTERRUPTED)) from None


app = typer.Typer(
    name="phsafe",
    cls=Commands,
    help="Tables about people in their households, published with differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo, synth, pums),
    "With confidential data": (validate, tabulate, release),
    "With public or synthetic data": (accuracy,),
    "After a release (public)": (check, estimate, interval, report, registry),
    "Choose parameters (no data needed)": (config, budget, solve, explore, workbook, audit),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(ledger, name="ledger", cls=Commands, rich_help_panel="With confidential data")
for group, prefix in ((app, ""), (ledger, "ledger ")):
    for registered in group.registered_commands:
        assert registered.callback is not None
        registered.cls = Command
        name = registered.name or registered.callback.__name__
        registered.callback = with_output_options(registered.callback, prefix + name)


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Return an app with only the requested command, because building all of them takes Typer a while."""
    names = arguments[:1]
    named = [command for command in app.registered_commands if getattr(command.callback, "__name__", "") in names]
    if not named:
        return app
    small = copy.copy(app)
    small.registered_commands, small.registered_groups = named, []
    return small


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"phsafe {version('phsafe')}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Show the version."),
) -> None:
    """Handle the options that come before the command."""
