"""`phsafe release` and `phsafe check`: their options, and what they print."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.engines import EngineOptions
    from phsafe.privacy.ledger import Statement
    from phsafe.releases.release_folder import Release


@arg.with_engine_options
def release(
    config: arg.ConfigPath,
    data: arg.DataPath,
    out: arg.OutPath,
    ledger: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The population's ledger, which must exist (default: beside DATA)."),
    ] = None,
    new_ledger: Annotated[
        bool, typer.Option("--new-ledger", help="Create the ledger, with its keys in FILE.key and FILE.pub.")
    ] = False,
    cap: Annotated[
        str | None, typer.Option(metavar="RHO", help="Cap of a new ledger (default: the loss of this config).")
    ] = None,
    population: arg.Population = None,
    max_rho: arg.MaxRho = None,
    sensitivity: arg.SensitivityMode = None,
    allow_unclassified: arg.AllowUnclassified = False,
    allow_empty_states: arg.AllowEmptyStates = False,
    skip_validation: arg.SkipValidation = False,
    catalog: arg.CatalogPath = None,
    *,
    options: EngineOptions,
) -> None:
    """Publish noisy measurements: validate, count, charge the ledger, add noise, verify and write."""
    from phsafe.cli import console
    from phsafe.model.exact_numbers import text
    from phsafe.pipeline import calls
    from phsafe.pipeline.publish import explained_interrupt
    from phsafe.pipeline.release_ledger import default_ledger
    from phsafe.privacy.ledger import UNITS, Ledger
    from phsafe.system.interrupts import uninterrupted

    ledger_path = ledger or default_ledger(data)
    if ledger is None:
        console.note(f"Using the ledger beside the data: {ledger_path}")
    with explained_interrupt(out), _finished(out) as made:
        with console.progress_bar("release") as progress, _says_what_is_new(ledger_path):
            released = calls.release(
                config, data, out, ledger=ledger_path, new_ledger=new_ledger, cap=arg.amount(cap, "--cap"),
                population=population, max_rho=arg.amount(max_rho, "--max-rho"), sensitivity=sensitivity,
                allow_unclassified=allow_unclassified, allow_empty_states=allow_empty_states,
                skip_validation=skip_validation, catalog=catalog, options=options, progress=progress,
            )  # fmt: skip
            made.append(released)
        with uninterrupted():
            statement = Ledger.open(ledger_path).read()
            unit = UNITS[statement.definition]
            console.result(
                _document(released, statement, ledger_path),
                _summary(released),
                f"Released to {out} (id {released.release_id}).",
                f"The ledger {ledger_path} has {text(statement.left)} of {text(statement.cap)} {unit} left.",
                f"Its head is {statement.head}: note it elsewhere to detect a ledger restored from an old copy.",
            )
            sys.stdout.flush()


@contextmanager
def _says_what_is_new(ledger: Path) -> Iterator[None]:
    """Say at the end that a ledger was made, even if the release was refused."""
    from phsafe.cli.ledger import announce
    from phsafe.errors import PHSafeError

    existed = ledger.exists()
    try:
        yield
    finally:
        if not existed and ledger.exists():
            with suppress(PHSafeError):  # What happened to the release matters more.
                announce(ledger)


@contextmanager
def _finished(out: Path) -> Iterator[list[Release]]:
    """Once the release is in the list, report a failure as what it is: the release is charged and complete."""
    from phsafe.cli import discard_output
    from phsafe.pipeline.publish import complete

    made: list[Release] = []
    try:
        yield made
    except KeyboardInterrupt:
        raise
    except BaseException:  # Rich exits when a pipe is closed; a panic in Rust is not an `Exception`.
        if not made:
            raise
        discard_output()
        with complete(out, "its summary could not be printed"):
            raise


def _document(released: Release, statement: Statement, ledger: Path) -> dict[str, Any]:
    """Return what `--json` prints. All of it is public, or on the ledger."""
    from phsafe.configs import grid
    from phsafe.privacy.accountant import plan

    loss = plan(released.config).total
    return {
        "folder": str(released.path),
        "release_id": released.release_id,
        "privacy": released.config.privacy,
        "sensitivity": released.config.sensitivity,
        "loss": loss.unbounded,
        "loss_bounded": loss.bounded,
        "rows": {output.name: len(grid.rows(released.config, output)) for output, _ in released.config.outputs()},
        "ledger": {"file": str(ledger), "cap": statement.cap, "left": statement.left, "head": statement.head},
    }


def _summary(released: Release) -> Table:
    """Return a table with a line for each tabulation: rows, margins of error and loss. All of it is public."""
    from rich.table import Table

    from phsafe.configs import grid
    from phsafe.model.exact_numbers import text
    from phsafe.privacy.budgets import budget

    table = Table(title="Noisy measurements", title_justify="left")
    for name in ("Tabulation", "Rows", "90 % MOE", "Loss", "Bounded loss"):
        table.add_column(name, justify="left" if name == "Tabulation" else "right")
    costs = budget(released.config)
    losses = costs.account.totals("tabulation")
    for output, _ in released.config.outputs():
        source = released.config.catalog.measured(output).name
        if source == output.name:
            moes = [row.moe for row in costs.rows if row.event.tabulation == source]
            loss = losses[source]
            shown = (f"{min(moes):.0f}–{max(moes):.0f}", text(loss.unbounded), text(loss.bounded))
        else:
            shown = (f"from {source}", "0", "0")
        table.add_row(output.name, f"{len(grid.rows(released.config, output)):,}", *shown)
    total = costs.account.total
    table.add_row("Total", "", "", text(total.unbounded), text(total.bounded), style="bold")
    return table


def check(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")],
    ledger: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also check that the release was charged to this ledger, and that its files are those it recorded.",
        ),
    ] = None,
    public_key: arg.PublicKey = None,
) -> None:
    """Check that a folder is a complete, unmodified release."""
    from phsafe.cli import console
    from phsafe.releases.verify import check as checked

    opened = checked(release, ledger, public_key)
    for sentence in opened.catalog_notes:
        console.note(sentence)
    charged = "" if ledger is None else f", and was charged to {ledger}, which recorded these files"
    console.result(
        {
            "folder": str(release), "release_id": opened.release_id, "unmodified": True,
            "ledger": None if ledger is None else str(ledger),
        },
        f"{release} is complete and unmodified (id {opened.release_id}){charged}.",
    )  # fmt: skip
