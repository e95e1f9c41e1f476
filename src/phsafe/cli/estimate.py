"""`phsafe estimate`."""

from __future__ import annotations

from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def estimate(
    release: arg.ReleasePath,
    out: arg.OutPath,
    method: Annotated[
        str, typer.Option(help="joint: fit all tables together; independent: each table alone, as in 2020.")
    ] = "joint",
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    force: Annotated[bool, typer.Option("--force", help="Accept a release whose files were modified.")] = False,
) -> None:
    """Write finished tables with 90 % intervals, from a release alone."""
    from phsafe.cli.console import note, result, warn
    from phsafe.errors import Reasons
    from phsafe.estimation import estimate as run
    from phsafe.estimation.estimates_output import check_format
    from phsafe.releases.release_folder import Release
    from phsafe.system.atomic_writes import check_new_folder

    reasons = Reasons()
    opened = reasons.check(lambda path: Release.open(path, force=force), release)
    reasons.check(check_new_folder, out)
    reasons.check(check_format, format)
    reasons.settle()
    assert opened is not None
    estimates = run(opened, method)
    estimates.write(out, format)
    for name, why in estimates.diagnostics["left_out"].items():
        warn(f"{name} is left out: {why}.")
    result(
        {
            "folder": str(out), "release_id": estimates.release_id, "method": estimates.method,
            "tables": list(estimates.tables), "left_out": estimates.diagnostics["left_out"],
            "noise_test": estimates.diagnostics["noise_test"],
        }
    )  # fmt: skip
    note(f"Wrote {len(estimates.tables)} tables ({estimates.method}) to {out}.")
    note(f"Noise test: {estimates.diagnostics['noise_test']['verdict']}.")
