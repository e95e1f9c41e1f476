"""`phsafe interval`: its options, and the estimate of an expression that it prints."""

from __future__ import annotations

from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def interval(
    release: arg.ReleasePath,
    expression: Annotated[
        str,
        typer.Argument(
            metavar="EXPRESSION",
            help="Such as 'PH3[WY, *, 2] + PH3[CO, *, 2]' or 'PH2[RI, 2] / PH2[RI, 1]'. "
            "Write -- before one that begins with a minus.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(help="everybody: include people beyond the thresholds (default); truncated: omit them."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Accept a release whose files were modified.")] = False,
) -> None:
    """Estimate a sum, difference or ratio of published cells, with its 90 % interval."""
    from phsafe.cli.console import result
    from phsafe.estimation import estimate

    found = estimate(release, target=target, force=force).interval(expression)
    result(found.to_dict(), found.text)
