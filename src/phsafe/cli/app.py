"""The list of commands."""

from __future__ import annotations

import typer

from phsafe.cli.budget import budget
from phsafe.cli.ledger import app as ledger
from phsafe.cli.release import check, release
from phsafe.cli.tabulate import tabulate
from phsafe.cli.validate import validate

app = typer.Typer(
    name="phsafe",
    help="Tables about people in their households, published without giving any person away.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

CONFIDENTIAL = "With confidential data"
PARAMETERS = "Choose parameters (needs no data)"
PUBLIC = "After a release (public)"

for command in (validate, tabulate, release):
    app.command(rich_help_panel=CONFIDENTIAL)(command)
app.add_typer(ledger, name="ledger", rich_help_panel=CONFIDENTIAL)
app.command(rich_help_panel=PARAMETERS)(budget)
app.command(rich_help_panel=PUBLIC)(check)


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"phsafe {version('phsafe')}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Take what stands before the command."""
