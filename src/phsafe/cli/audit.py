"""`phsafe audit`: its options, and the table of verdicts that it prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.privacy_audit import AuditFinding


def audit(
    trials: Annotated[int, typer.Option(min=1000, help="Runs on each of the two neighbouring populations.")] = 20_000,
    out: Annotated[Path | None, typer.Option(metavar="PLOT.svg", help="Write a chart.")] = None,
) -> None:
    """Attack the mechanism, and show how much of the claimed privacy loss an attacker can prove."""
    from phsafe.cli.console import note, progress_bar, result
    from phsafe.errors import OutputError, PHSafeError
    from phsafe.privacy_audit import FALSE_ALARM
    from phsafe.privacy_audit import audit as run
    from phsafe.privacy_audit.audit_plot import svg
    from phsafe.privacy_audit.audit_run import document

    if out is not None and out.suffix.lower() != ".svg":
        raise typer.BadParameter(f"expected a file name ending in .svg, got {out.name}", param_hint="--out")
    if out is not None and (out.exists() or not out.absolute().parent.is_dir()):
        raise OutputError(f"{out}: expected a new file in an existing folder; choose another name")
    with progress_bar("audit") as progress:
        findings = run(trials, progress=progress)
    if out is not None:
        try:
            out.write_text(svg(findings, FALSE_ALARM), encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{out}: can't write the chart: {error.strerror}") from None
    result(document(findings), _table(findings))
    note(
        f"Each bound holds with probability {1 - FALSE_ALARM:.6f}. "
        "A mechanism is convicted if its bound exceeds the claim; a bound below the claim does not prove privacy. "
        "See docs/privacy.md for proofs."
    )
    wrong = [finding.case.name for finding in findings if not finding.as_expected]
    if wrong:
        raise PHSafeError([f"{name}: unexpected verdict; repeat with more --trials" for name in wrong])


def _table(findings: Sequence[AuditFinding]) -> Table:
    from rich.box import SIMPLE
    from rich.table import Table

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
    return table
