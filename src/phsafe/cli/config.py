"""`phsafe config`: prints a config that ships with the package, or lists them."""

from __future__ import annotations

from typing import Annotated

import typer


def config(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of a shipped config (default: list them).")
    ] = None,
) -> None:
    """Print a config that ships with PHSafe, such as the 2020 config; without a name, list them."""
    from phsafe.configs.shipped import shipped_names, shipped_text

    if name is not None:
        typer.echo(shipped_text(name).rstrip())  # This is JSON already, with or without --json.
        return
    from phsafe.cli.console import result

    names = shipped_names()
    result({"configs": list(names)}, *names)
