"""`phsafe budget`."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from phsafe.cli import arguments as arg

#: A smaller δ has no meaning that a larger one has not.
MAX_EXPONENT = 300


def budget(
    config: arg.ConfigPath,
    sensitivity: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="How a person's reach is bounded: published, tight or tight-bounded (default: the config's).",
        ),
    ] = None,
    delta: Annotated[str, typer.Option(metavar="D", help="The δ at which ρ is turned into ε.")] = "1e-10",
    compare: Annotated[
        bool, typer.Option("--compare", help="Show the three modes side by side: loss and margin of error.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Show what a config costs and how accurate it is: margin of error, ρ, bounded ρ and ε. Needs no data."""
    from phsafe.budgets import budget as budget_of
    from phsafe.budgets import compare as comparison_of
    from phsafe.config import Config

    loaded = Config.load(config).with_sensitivity(sensitivity)
    result = (comparison_of if compare else budget_of)(loaded, _delta(delta))
    if json:
        typer.echo(result.to_json())
        return
    from phsafe.cli.console import out

    out.print(result.render())


def _delta(value: str) -> Decimal:
    """A δ strictly between 0 and 1, exactly as typed."""
    try:
        delta = Decimal(value)
    except InvalidOperation:
        delta = Decimal(-1)
    if not (delta.is_finite() and 0 < delta < 1 and delta.adjusted() > -MAX_EXPONENT):
        raise typer.BadParameter(f"expected a number between 0 and 1, got {value}", param_hint="--delta")
    return delta
