"""`phsafe demo`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.demo import Demo


def demo(
    out: Annotated[Path | None, typer.Argument(metavar="[OUT]", help="Folder to make (default: phsafe-demo).")] = None,
) -> None:
    """Run every step on two made-up states, and show a finished state against the truth."""
    from phsafe.cli import console
    from phsafe.demo import HOUSEHOLDS, STATES, free_name, run
    from phsafe.exact import text
    from phsafe.privacy.accountant import plan
    from phsafe.schema import STATES as NAMES

    out = out or free_name(Path("phsafe-demo"))
    with console.progress_bar("demo") as progress:
        made = run(out, progress)
    loss = plan(made.config).total
    console.say(f"Made {HOUSEHOLDS:,} households in {' and '.join(NAMES[s] for s in STATES)}; none of them is real.")
    console.out.print(_tables(made, STATES[0], NAMES[STATES[0]]))
    console.say(
        "Intervals cover the noise; they can't know whom the truncation thresholds dropped in very large households.\n"
        f"Privacy loss: ρ = {text(loss.unbounded)} (a person added or removed), {text(loss.bounded)} (a record changed)"
    )
    console.say(
        f"\nWhere to look next:\n"
        f"  {out}/report.html  open it in a browser: everything about the release on one page\n"
        f"  {out}/release      noisy measurements and manifest.json: what may be published\n"
        f"  {out}/estimates    PH1 … PH8 with 90 % intervals, and tables.xlsx\n"
        f"  phsafe budget {out}/config.json            what each table costs and how accurate it is\n"
        f"  phsafe check {out}/release                 is it whole and untouched?\n"
        f"  phsafe ledger show {out}/population.ledger  what has been spent"
    )


def _tables(made: Demo, region: str, name: str) -> Table:
    from rich.table import Table

    table = Table(title=f"{name}, all households: finished tables against the truth (made-up data)")
    for column in ("", "Truth (never published)", "Estimate", "90 % interval"):
        table.add_column(column, justify="left" if not column else "right")
    for spec in made.config.catalog.tables:
        digits = ".2f" if spec.average else ",.0f"
        table.add_section()
        table.add_row(f"[bold]{spec.name} {spec.title}[/]")
        for label, truth, estimate, lower, upper in made.against_truth(spec, region):
            table.add_row(label, f"{truth:{digits}}", f"{estimate:{digits}}", f"{lower:{digits}} – {upper:{digits}}")
    return table
