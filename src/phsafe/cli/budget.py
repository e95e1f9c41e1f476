"""`phsafe budget`: its options (`--delta`, `--compare`, `--finished`), and what it prints."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated

import typer

from phsafe.cli import arguments as arg

#: The smallest δ is 10 to the minus this.
MAX_EXPONENT = 300


def budget(
    config: arg.ConfigPath,
    sensitivity: arg.SensitivityMode = None,
    delta: Annotated[str, typer.Option(metavar="D", help="The δ at which to convert ρ to ε.")] = "1e-10",
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare the sensitivity modes: loss and margin of error.")
    ] = False,
    finished: Annotated[
        bool,
        typer.Option(
            "--finished",
            help="With --compare: also the margins after joint estimation, and with budgets solved for them.",
        ),
    ] = False,
    catalog: arg.CatalogPath = None,
) -> None:
    """Show the cost and accuracy of a config: margin of error, ρ, bounded ρ and ε. Needs no data."""
    from phsafe.cli.console import result
    from phsafe.configs.config import Config
    from phsafe.privacy.budgets import budget as budget_of
    from phsafe.privacy.mode_comparison import compare as comparison_of

    loaded = Config.load(config, catalog).with_sensitivity(sensitivity)
    costs = (comparison_of if compare else budget_of)(loaded, _delta(delta))
    if finished:
        from phsafe.explorer.joint_margins import with_finished_margins

        costs = with_finished_margins(costs)
    result(costs.to_dict(), costs.render())


def _delta(value: str) -> Decimal:
    """Parse a δ strictly between 0 and 1, exactly as typed."""
    try:
        delta = Decimal(value)
    except InvalidOperation:
        delta = Decimal(-1)
    if not (delta.is_finite() and 0 < delta < 1 and delta.adjusted() > -MAX_EXPONENT):
        raise typer.BadParameter(f"expected a number between 0 and 1, got {value}", param_hint="--delta")
    return delta
