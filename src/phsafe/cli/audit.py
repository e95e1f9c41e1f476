"""`phsafe audit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from phsafe.auditing import Finding


def audit(
    trials: Annotated[int, typer.Option(min=1000, help="Runs on each of the two neighbours.")] = 20_000,
    out: Annotated[Path | None, typer.Option(metavar="PLOT.svg", help="Write a picture.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")] = False,
) -> None:
    """Attack the mechanism: prove how much of the claimed loss an observer can really get."""
    import json

    from phsafe.auditing import FALSE_ALARM
    from phsafe.auditing import audit as run
    from phsafe.auditing.plot import svg
    from phsafe.auditing.report import document
    from phsafe.cli.console import note, progress_bar
    from phsafe.errors import OutputError, PHSafeError

    if out is not None and out.suffix.lower() != ".svg":
        raise typer.BadParameter(f"expected a name that ends in .svg, got {out.name}", param_hint="--out")
    if out is not None and (out.exists() or not out.absolute().parent.is_dir()):
        raise OutputError(f"{out}: expected a new file in a folder that is there")
    with progress_bar("audit") as progress:
        findings = run(trials, progress=progress)
    if out is not None:
        try:
            out.write_text(svg(findings, FALSE_ALARM), encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{out}: can't write the picture: {error.strerror}") from None
    if as_json:
        typer.echo(json.dumps(document(findings), ensure_ascii=False, indent=2))
    else:
        _show(findings)
    note(
        f"Bounds hold with probability {1 - FALSE_ALARM:.6f} each: that is how rarely a sound mechanism is convicted. "
        "A bound below the claim is no proof of privacy; docs/privacy.md has the proofs."
    )
    wrong = [finding.case.name for finding in findings if not finding.as_expected]
    if wrong:
        raise PHSafeError(
            [f"{name}: the verdict is not what it should be; with few trials, try more" for name in wrong]
        )


def _show(findings: Sequence[Finding]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from phsafe.cli.console import out

    table = Table("mechanism", "claimed loss", "proven", "share", "verdict", box=SIMPLE)
    for finding in findings:
        table.add_row(
            finding.case.name,
            f"{finding.claim:g} {finding.unit} {'bounded' if finding.case.bounded else 'unbounded'}",
            f"≥ {finding.lower_bound:.3f}",
            f"{finding.lower_bound / finding.claim:.0%}",
            finding.verdict,
            style="red" if finding.case.broken else None,
        )
    out.print(table)
