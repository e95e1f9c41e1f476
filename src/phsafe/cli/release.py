"""`phsafe release` and `phsafe check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.folder import Release


def release(
    config: arg.ConfigPath,
    data: arg.DataPath,
    out: arg.OutPath,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The population's ledger (default: beside DATA; made if it isn't there)."),
    ] = None,
    sensitivity: arg.SensitivityMode = None,
    allow_unclassified: arg.AllowUnclassified = False,
    skip_validation: arg.SkipValidation = False,
    engine: arg.EngineChoice = "duckdb",
    threads: arg.Threads = None,
    memory_limit: arg.MemoryLimit = None,
    temp_dir: arg.TempDir = None,
    spark_master: arg.SparkMaster = None,
    spark_conf: arg.SparkConf = None,
) -> None:
    """Publish noisy measurements: validate, count, charge the ledger, add noise once, check, write."""
    from phsafe.cli import console
    from phsafe.config import Config
    from phsafe.exact import text
    from phsafe.releasing import default_ledger, release_tables
    from phsafe.scan import Settings
    from phsafe.stopping import uninterrupted

    options = arg.engine_options(engine, threads, memory_limit, temp_dir, spark_master, spark_conf)
    loaded = Config.load(config).with_sensitivity(sensitivity)
    ledger_path = ledger or default_ledger(data)
    if ledger is None:
        console.note(f"Using the ledger beside the data: {ledger_path}")
    settings = Settings(allow_unclassified=allow_unclassified, skip_validation=skip_validation)
    with console.progress_bar("release") as progress:
        made, book = release_tables(loaded, data, out, ledger_path, settings, options, progress)
    with uninterrupted():
        console.out.print(_summary(made))
        console.say(f"Released to {out} (id {made.release_id}).")
        now = book.read()
        console.say(f"The ledger {book.path} has {text(now.left)} of {text(now.cap)} left.")
        console.say(f"Its head is {now.head}: noted elsewhere, it tells an older copy from this one.")


def _summary(made: Release) -> Table:
    """One line for each file: rows, margins of error, loss. Everything in it is public."""
    from rich.table import Table

    from phsafe import grid
    from phsafe.budgets import budget
    from phsafe.exact import text

    table = Table(title="Noisy measurements", title_justify="left")
    for name in ("Tabulation", "Rows", "90 % MOE", "Loss", "Bounded loss"):
        table.add_column(name, justify="left" if name == "Tabulation" else "right")
    costs = budget(made.config)
    losses = costs.account.totals("tabulation")
    for output, _ in made.config.outputs():
        source = made.config.catalog.measured(output).name
        if source == output.name:
            moes = [row.moe for row in costs.rows if row.event.tabulation == source]
            loss = losses[source]
            shown = (f"{min(moes):.0f}–{max(moes):.0f}", text(loss.unbounded), text(loss.bounded))
        else:
            shown = (f"from {source}", "0", "0")
        table.add_row(output.name, f"{len(grid.rows(made.config, output)):,}", *shown)
    total = costs.account.total
    table.add_row("Total", "", "", text(total.unbounded), text(total.bounded), style="bold")
    return table


def check(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also check that it was charged to this ledger: finds one put back from an old copy.",
        ),
    ] = None,
) -> None:
    """Say whether a folder is a whole, untouched release."""
    from phsafe.cli import console
    from phsafe.errors import PHSafeError
    from phsafe.folder import Release
    from phsafe.privacy.ledger import Ledger

    opened = Release.open(release)
    if ledger is not None and opened.release_id not in {entry.release_id for entry in Ledger.open(ledger).entries()}:
        raise PHSafeError(
            f"{release}: not charged to {ledger}; expected its id {opened.release_id} there: "
            "this is another population's ledger, or an older copy of it"
        )
    charged = "" if ledger is None else f", and was charged to {ledger}"
    console.say(f"{release} is whole and untouched (id {opened.release_id}){charged}.")
