"""`phsafe estimate`: its options (method, target, draws, format, `--force`), and what it prints."""

from __future__ import annotations

from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def estimate(
    release: arg.ReleasePath,
    out: arg.OutPath,
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="joint: fit all tables together; independent: each table alone, as in 2020, without people beyond "
            "the thresholds.",
        ),
    ] = "joint",
    target: Annotated[
        str | None,
        typer.Option(
            help="everybody: include people beyond the thresholds (default of the joint method); truncated: leave them "
            "out (the independent method always does)."
        ),
    ] = None,
    draws: Annotated[
        int, typer.Option(metavar="N", help="Write N joint draws of all values to draws.parquet.", show_default=False)
    ] = 0,
    format: Annotated[str, typer.Option(metavar="FORMAT", help="csv or parquet.")] = "csv",
    sdmx: Annotated[bool, typer.Option("--sdmx", help="Also write the tables as SDMX-CSV, to OUT/sdmx.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Accept a release whose files were modified.")] = False,
) -> None:
    """Write finished tables with 90 % intervals, from a release alone."""
    from phsafe.cli.console import linked, note, result, warn
    from phsafe.errors import Reasons
    from phsafe.estimation import estimate as run
    from phsafe.estimation.estimates_output import check_format
    from phsafe.estimation.people_counted import coverage_text, how_estimated
    from phsafe.estimation.posterior_draws import check_draws
    from phsafe.releases.release_folder import Release
    from phsafe.system.atomic_writes import check_new_folder

    reasons = Reasons()
    opened = reasons.check(lambda path: Release.open(path, force=force), release)
    reasons.check(check_new_folder, out)
    reasons.check(check_format, format)
    if draws:
        reasons.check(check_draws, draws, method)
    reasons.settle()
    assert opened is not None
    estimates = run(opened, method, target=target)
    estimates.write(out, format, draws, sdmx=sdmx)
    for name, why in estimates.diagnostics["left_out"].items():
        warn(f"{name} is left out: {why}.")
    result(
        {
            "folder": str(out), "release_id": estimates.release_id, "method": estimates.method,
            "target": estimates.diagnostics["target"], "tables": list(estimates.tables),
            "left_out": estimates.diagnostics["left_out"], "noise_test": estimates.diagnostics["noise_test"],
        }
    )  # fmt: skip
    note(linked(f"Wrote {', '.join(estimates.tables)} ({estimates.method}) to {out}.", out))
    note("To read: tables.xlsx. To compute with: tables/, with names of regions, groups and lines.")
    note(how_estimated(estimates) or coverage_text(estimates))
    note(f"Noise test: {estimates.diagnostics['noise_test']['verdict']}.")
