"""`phsafe report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli.estimate import ReleasePath


def report(
    release: ReleasePath,
    out: Annotated[Path, typer.Argument(metavar="OUT.html", help="The page to make; it must not exist yet.")],
    estimates: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Finished tables of this release (default: the joint estimate is computed)."),
    ] = None,
    title: Annotated[str, typer.Option(metavar="TEXT", help="The title of the page.")] = "",
    force: Annotated[
        bool,
        typer.Option("--force", help="Report on a release that doesn't pass its check; the page says so."),
    ] = False,
) -> None:
    """Write one page about a release: what it holds, its privacy, its accuracy, and the finished tables."""
    from phsafe.cli.console import note
    from phsafe.reporting import report as make

    if estimates is None:
        note("No --estimates given: computing the joint estimate.")
    made = make(release, out, estimates=estimates, title=title, force=force)
    note(f"Wrote {made} ({made.stat().st_size / 1e6:.1f} MB): open it in any browser, or put it beside the release.")
