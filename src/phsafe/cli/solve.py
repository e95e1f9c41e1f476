"""`phsafe solve`: its options (`--for`, baseline), the config that it writes, and what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg

TargetsPath = Annotated[
    Path,
    typer.Argument(
        metavar="TARGETS",
        help="TOML or JSON file: MOE targets, or a total to split; optionally weights, locks, floors and groups.",
    ),
]


def solve(
    config: arg.ConfigPath,
    targets: TargetsPath,
    out: Annotated[Path, typer.Argument(metavar="OUT.json", help="Config to create; it must not exist yet.")],
    aim: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="AIM",
            help="Which margins to solve for: measured (noisy counts) or finished (tables after joint estimation).",
        ),
    ] = "measured",
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="CONFIG", help="With --for finished: the config to compare margins with (default: CONFIG)."
        ),
    ] = None,
    catalog: arg.CatalogPath = None,
) -> None:
    """Find the budgets that meet MOE targets, or the best split of a total, and write a config. Needs no data."""
    from phsafe.cli.console import note, result
    from phsafe.configs.config import Config
    from phsafe.errors import Reasons
    from phsafe.explorer.page_requests import Request
    from phsafe.explorer.solver import solve as solve_for
    from phsafe.model.exact_numbers import dumps, text
    from phsafe.system.atomic_writes import check_new_file, write_new_file

    if aim not in ("measured", "finished"):
        raise typer.BadParameter(f"expected measured or finished, got {aim}", param_hint="--for")
    reasons = Reasons()
    loaded = reasons.check(Config.load, config, catalog)
    reasons.check(check_new_file, out)
    request = reasons.check(Request.load, targets, loaded) if loaded is not None else None
    reasons.settle()
    assert loaded is not None
    assert request is not None
    solution = solve_for(loaded, request, aim="finished" if aim == "finished" else "measured", baseline=baseline)
    totals = {"control_totals": loaded.control_totals} if loaded.control_totals else {}
    write_new_file(out, (dumps(solution.config.to_production() | totals) + "\n").encode())
    figures = solution.to_dict()
    result(figures, *([] if solution.preview is None else [solution.preview.render()]))
    unit = "ρ" if solution.config.privacy == "zcdp" else "ε"
    after, before = figures["weighted_squared_moe"], figures["weighted_squared_moe_before"]
    note(f"Wrote {out}: stated {unit} adds up to {text(figures['total'])} (before: {text(figures['total_before'])}).")
    note(f"Weighted sum of squared MOEs: {after:,.1f} (before: {before:,.1f}).")
