"""`phsafe demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.pipeline.demo import Demo


def demo(
    out: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="Folder to create (default: phsafe-demo).")
    ] = None,
) -> None:
    """Run every step on two synthetic states, and compare one state's finished tables with the truth."""
    from phsafe.cli import console
    from phsafe.model.exact_numbers import text
    from phsafe.model.schema import STATES as NAMES
    from phsafe.pipeline.demo import HOUSEHOLDS, STATES, free_name, run
    from phsafe.privacy.accountant import plan

    out = out or free_name(Path("phsafe-demo"))
    with console.progress_bar("demo") as progress:
        made = run(out, progress)
    loss = plan(made.config).total
    console.result(
        {
            "folder": str(out), "release_id": made.release.release_id, "loss": loss.unbounded,
            "loss_bounded": loss.bounded,
        },
        f"Made {HOUSEHOLDS:,} households in {' and '.join(NAMES[s] for s in STATES)}; none of them real.",
        _tables(made, STATES[0], NAMES[STATES[0]]),
        "Intervals account for noise and for people whom truncation dropped from very large households: their\n"
        "number is estimated from shares in public data, because this config doesn't measure it.\n"
        f"Privacy loss: ρ = {text(loss.unbounded)} (a person added or removed), "
        f"{text(loss.bounded)} (a record changed)",
        f"\nNext:\n"
        f"  {out}/report.html  open it in a browser: the release on one page\n"
        f"  {out}/release      noisy measurements and manifest.json: the part to publish\n"
        f"  {out}/estimates    PH1 … PH8 with 90 % intervals, and tables.xlsx\n"
        f"  phsafe budget {out}/config.json            cost and accuracy of each table\n"
        f"  phsafe check {out}/release                 check that it is complete and unmodified\n"
        f"  phsafe ledger show {out}/population.ledger  privacy loss charged so far",
    )  # fmt: skip


def _tables(made: Demo, region: str, name: str) -> Table:
    from rich.table import Table

    from phsafe.display.numbers import digits, number, texts

    table = Table(title=f"{name}, all households: finished tables and the truth (synthetic data)")
    for column in ("", "Truth (never published)", "Estimate", "90 % interval"):
        table.add_column(column, justify="left" if not column else "right")
    for spec in made.config.catalog.tables:
        table.add_section()
        table.add_row(f"[bold]{spec.name} {spec.title}[/]")
        for label, truth, *cell in made.against_truth(spec, region):
            estimate, lower, upper = cell
            places = digits((estimate, lower, upper)) if spec.average else 0
            table.add_row(label, number(truth, places), *texts((estimate, lower, upper), spec))
    return table
