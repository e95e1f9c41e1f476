"""`phsafe report`: its options (estimates, title, `--force`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def report(
    release: arg.ReleasePath,
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="Page to create; it must not exist yet.")],
    estimates: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Finished tables of this release (default: compute the joint estimate)."),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the page.")] = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="Report on a release that fails verification; the page shows a warning."),
    ] = False,
) -> None:
    """Write a one-page report on a release: contents, privacy, accuracy and finished tables."""
    from phsafe.cli.console import linked, note, result
    from phsafe.reports import report as make

    if estimates is None:
        note("No --estimates given: computing the joint estimate.")
    made = make(release, out, estimates=estimates, title=title, force=force)
    result({"file": str(made), "bytes": made.stat().st_size})
    size = f"{made.stat().st_size / 1e6:.1f} MB"
    note(linked(f"Wrote {made} ({size}): open it in any browser, or publish it with the release.", made))
