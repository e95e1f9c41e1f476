"""`phsafe demo`: its argument, and what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.pipeline.demo import Demo


#: The table that is shown, which has counts.
HEADLINE = "PH7"
#: What to open in the demo's folder, and why.
NEXT = {
    "report.html": "open it in a browser: the release on one page",
    "estimates/tables.xlsx": "all tables; as CSV in tables/ beside it",
    "release": "noisy measurements and manifest.json: the part to publish",
}


def demo(
    out: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="Folder to create (default: phsafe-demo).")
    ] = None,
) -> None:
    """Run every step on two synthetic states, and compare a finished table of one state with the truth."""
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
        f"Made {HOUSEHOLDS:,} synthetic households in {' and '.join(NAMES[s] for s in STATES)}.",
        _headline(made, STATES[0], NAMES[STATES[0]]),
        "The truth is shown because these people are synthetic; a real one stays secret.",
        f"Privacy loss ρ: {text(loss.unbounded)} (a person added or removed), {text(loss.bounded)} (changed)",
        "\nNext:",
        *(console.linked(f"  {out / name}  {what}", out / name) for name, what in NEXT.items()),
        f"  phsafe interval {out}/release 'PH7[WY, 1] / PH7[US, 1]'\n"
        f"  phsafe budget {out}/config.json\n"
        f"  phsafe check {out}/release",
    )  # fmt: skip


def _headline(made: Demo, region: str, name: str) -> Table:
    """One finished table of one state beside the truth, which can only be shown for synthetic data."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from phsafe.display.numbers import number, texts

    spec = next(table for table in made.config.catalog.tables if table.name == HEADLINE)
    table = Table(title=f"{name}: {spec.name} {spec.title}", title_justify="left", box=SIMPLE_HEAD)
    for column in ("", "Truth", "Estimate", "90 % interval"):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for label, truth, *cell in made.against_truth(spec, region):
        estimate, lower, upper = cell
        table.add_row(label, number(truth, 0), *texts((estimate, lower, upper), spec))
    return table
