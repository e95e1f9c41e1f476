"""`phsafe solve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg

TargetsPath = Annotated[
    Path,
    typer.Argument(metavar="TARGETS", help="TOML or JSON: MOE targets, or a total with weights; locks, floors."),
]


def solve(
    config: arg.ConfigPath,
    targets: TargetsPath,
    out: Annotated[Path, typer.Argument(metavar="OUT.json", help="The config to write; it must not exist yet.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Turn MOE targets, or a fixed total, into budgets and write a config with them. Needs no data."""
    from phsafe.cli.console import note
    from phsafe.config import Config
    from phsafe.errors import Reasons
    from phsafe.exact import dumps, text
    from phsafe.explorer.request import Request
    from phsafe.explorer.solver import solve as solve_for
    from phsafe.newfile import check_absent, write_new

    reasons = Reasons()
    loaded = reasons.check(Config.load, config)
    reasons.check(check_absent, out)
    request = reasons.check(Request.load, targets, loaded) if loaded is not None else None
    reasons.settle()
    assert loaded is not None
    assert request is not None
    solution = solve_for(loaded, request)
    write_new(out, (dumps(solution.config.to_production()) + "\n").encode())
    figures = solution.to_dict()
    if json:
        typer.echo(dumps(figures))
        return
    unit = "ρ" if solution.config.privacy == "zcdp" else "ε"
    after, before = figures["weighted_squared_moe"], figures["weighted_squared_moe_before"]
    note(f"Wrote {out}: stated {unit} adds up to {text(figures['total'])} (before: {text(figures['total_before'])}).")
    note(f"Weighted sum of squared MOEs: {after:,.1f} (before: {before:,.1f}).")
