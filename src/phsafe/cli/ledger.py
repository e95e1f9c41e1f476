"""`phsafe ledger init`, `show`, `verify`, `amend`, `import` and `note`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from phsafe.privacy.ledger import Ledger

app = typer.Typer(
    name="ledger",
    help="Manage the ledger of a population: privacy loss charged so far, and its cap.",
    no_args_is_help=True,
)

LedgerPath = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", readable=False, help="Ledger file; its keys are in FILE.key (secret) and FILE.pub beside it."
    ),
]
By = Annotated[str, typer.Option(metavar="WHO", help="Person or body responsible.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why.")]


@app.command()
def init(
    file: LedgerPath,
    cap: Annotated[str, typer.Option(metavar="RHO", help="Total privacy loss allowed: ρ, or ε for pure DP.")],
    privacy: Annotated[
        str,
        typer.Option(metavar="DEFINITION", help="Unit of the ledger: zcdp (ρ, for releases of both kinds) or puredp."),
    ] = "zcdp",
    population: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Population of the ledger (default: that of the first release).")
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(metavar="CODES", help="States covered: us, pr, or 44,56 (default: those of the first release)."),
    ] = None,
    max_rho: Annotated[
        str | None, typer.Option(metavar="RHO", help="Largest unbounded loss of one release (default: 10).")
    ] = None,
    supersede: Annotated[
        bool, typer.Option("--supersede", help="Replace the ledger that is or was here; the old file is kept.")
    ] = False,
    by: Annotated[str | None, typer.Option(metavar="WHO", help="Who supersedes it (default: the user).")] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why it is superseded.")] = None,
) -> None:
    """Create the ledger of a population. Later changes to the cap are recorded in it, with a reason."""
    from phsafe.cli.console import result
    from phsafe.cli.ledger_listing import amounts
    from phsafe.configs.config_rules import read_states
    from phsafe.privacy.ledger import UNITS, Ledger
    from phsafe.privacy.ledger_file import key_path, public_path
    from phsafe.privacy.ledger_policy import common_fields

    definition = next((known for known in UNITS if known == privacy), None)
    if definition is None:
        raise typer.BadParameter(f"expected one of {', '.join(UNITS)}, got {privacy}", param_hint="--privacy")
    if supersede != (reason is not None) or (by is not None and not supersede):
        raise typer.BadParameter("expected --supersede and --reason together", param_hint="--supersede")
    amount = arg.amount(cap, "--cap")
    assert amount is not None
    Ledger.create(
        file, amount, definition, population=population, states=None if states is None else read_states(states),
        max_rho=arg.amount(max_rho, "--max-rho"),
        supersede=None if reason is None else {"by": by or common_fields()["user"], "reason": reason},
    )  # fmt: skip
    statement = Ledger.open(file).read()
    result({"file": str(file), "key": str(key_path(file)), "public_key": str(public_path(file))} | amounts(statement))
    announce(file)


def announce(file: Path) -> None:
    """Say that a ledger was made, for whom, and what it replaces."""
    from shlex import quote

    from phsafe.cli.console import note
    from phsafe.model.exact_numbers import text
    from phsafe.privacy.ledger import UNITS, Ledger
    from phsafe.privacy.ledger_file import key_path, public_path

    statement = Ledger.open(file).read()
    whom = f" for {statement.population}" if statement.population else ""
    note(
        f"Created the ledger {file} with a cap of {text(statement.cap)} {UNITS[statement.definition]}{whom}. Keep "
        f"{key_path(file)} beside it, and secret; give {public_path(file)} to those who verify it."
    )
    old: Mapping[str, Any] | None = statement.opening.fields["supersedes"]
    if old is not None:
        spent = "an unknown amount" if old["spent"] is None else f"{old['spent']} {UNITS[old['privacy']]}"
        command = f"phsafe ledger import {quote(str(file))} --amount {old['spent']} --by WHO --reason TEXT"
        same = old["spent"] is not None and old["privacy"] == statement.definition
        note(
            f"It supersedes {old['file']}, which had spent {spent}{f': carry it over with {command}' if same else ''}."
        )


@app.command()
def show(file: LedgerPath) -> None:
    """Show the cap, the loss spent and left, and every entry. Signatures are checked by phsafe ledger verify."""
    from phsafe.cli.console import result
    from phsafe.cli.ledger_listing import document, shown
    from phsafe.privacy.ledger import Ledger

    statement = Ledger.open(file).read()
    result(document(statement), *shown(statement))


@app.command()
def verify(
    file: LedgerPath,
    public_key: arg.PublicKey = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="Head noted earlier: detects a ledger restored from an old copy."),
    ] = None,
) -> None:
    """Check with the public key that no entry was changed, removed, moved, added or cut off."""
    from phsafe.cli.console import note, result
    from phsafe.privacy.ledger import Ledger, LedgerError

    ledger = Ledger(file)
    problems = ledger.verify(head, public_key)
    if problems:
        raise LedgerError(p if p.startswith(str(file)) else f"{file}: {p}" for p in problems)
    statement = ledger.read()
    result({"file": str(file), "unmodified": True, "releases": len(statement.charges), "head": statement.head})
    note(f"{file}: complete and unmodified, releases: {len(statement.charges)}, head {statement.head}")


@app.command()
def amend(
    file: LedgerPath,
    by: By,
    reason: Reason,
    cap: Annotated[str | None, typer.Option(metavar="RHO", help="New cap, in the ledger's unit.")] = None,
    max_rho: Annotated[str | None, typer.Option(metavar="RHO", help="New largest loss of one release.")] = None,
) -> None:
    """Change the cap, or the largest loss of one release. The earlier values stay on record."""
    from phsafe.privacy.ledger import Ledger

    if cap is None and max_rho is None:
        raise typer.BadParameter("expected a new value, got none", param_hint="--cap or --max-rho")
    ledger = Ledger(file)
    ledger.amend(by, reason, cap=arg.amount(cap, "--cap"), max_rho=arg.amount(max_rho, "--max-rho"))
    _report(ledger)


@app.command("import")
def import_(
    file: LedgerPath,
    amount: Annotated[str, typer.Option(metavar="RHO", help="Unbounded loss spent, in the ledger's unit.")],
    by: By,
    reason: Reason,
    bounded: Annotated[
        str | None, typer.Option(metavar="RHO", help="Bounded loss (default: the most it can be).")
    ] = None,
) -> None:
    """Carry over what an earlier system has spent on the same population."""
    from phsafe.privacy.ledger import Ledger

    ledger = Ledger(file)
    spent = arg.amount(amount, "--amount")
    assert spent is not None
    ledger.import_spending(spent, by, reason, arg.amount(bounded, "--bounded"))
    _report(ledger)


@app.command()
def note(
    file: LedgerPath,
    by: By,
    text: Annotated[str, typer.Option(metavar="TEXT", help="The remark.")],
) -> None:
    """Add a signed remark."""
    from phsafe.privacy.ledger import Ledger

    ledger = Ledger(file)
    ledger.note(by, text)
    _report(ledger)


def _report(ledger: Ledger) -> None:
    """Say what is left after an entry was added."""
    from phsafe.cli.console import note, result
    from phsafe.cli.ledger_listing import amounts
    from phsafe.model.exact_numbers import text
    from phsafe.privacy.ledger import UNITS

    now = ledger.read()
    result({"file": str(ledger.path)} | amounts(now))
    note(f"{ledger.path}: {text(now.left)} of {text(now.cap)} {UNITS[now.definition]} is left, head {now.head}")
