"""`phsafe estimate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg

ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="Folder of a release.")]


def estimate(
    release: ReleasePath,
    out: arg.OutPath,
    method: Annotated[
        str, typer.Option(help="joint: use all that must add up; independent: each table alone, as in 2020.")
    ] = "joint",
    format: Annotated[str, typer.Option(help="csv or parquet.")] = "csv",
    force: Annotated[
        bool, typer.Option("--force", help="Use a release whose files were changed since it was made.")
    ] = False,
) -> None:
    """Finished tables with 90 % intervals, from a release alone."""
    from phsafe.cli.console import note, warn
    from phsafe.errors import Reasons
    from phsafe.estimation import estimate as run
    from phsafe.estimation.output import check_format
    from phsafe.files import check_absent
    from phsafe.folder import Release

    reasons = Reasons()
    opened = reasons.check(lambda path: Release.open(path, force=force), release)
    reasons.check(check_absent, out)
    reasons.check(check_format, format)
    reasons.settle()
    assert opened is not None
    estimates = run(opened, method)
    estimates.write(out, format)
    for name, why in estimates.diagnostics["left_out"].items():
        warn(f"{name} is left out: {why}.")
    note(f"Wrote {len(estimates.tables)} tables ({estimates.method}) to {out}.")
    note(f"Noise test: {estimates.diagnostics['noise_test']['verdict']}.")
