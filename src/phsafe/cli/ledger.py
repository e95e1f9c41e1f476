"""`phsafe ledger init`, `show` and `verify`."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.privacy.ledger import Statement

app = typer.Typer(
    name="ledger",
    help="Manage the ledger of a population: privacy loss charged so far, and its cap.",
    no_args_is_help=True,
)

LedgerPath = Annotated[Path, typer.Argument(metavar="FILE", help="Ledger file; its key is in FILE.key beside it.")]
#: The most digits of a cap, before and after the decimal point.
MAX_DIGITS = 30
#: Parts of an entry's details; and the settings that a listing mentions.
DETAILS = ("config", "settings")
SETTINGS = {
    "truncate": (False, "not truncated"),
    "allow_unclassified": (True, "unclassified records allowed"),
    "allow_empty_states": (True, "empty states allowed"),
    "skip_validation": (True, "validation skipped"),
}


@app.command()
def init(
    file: LedgerPath,
    cap: Annotated[str, typer.Option(metavar="RHO", help="Total privacy loss allowed: ρ, or ε for pure DP.")],
    privacy: Annotated[
        str, typer.Option(metavar="DEFINITION", help="Privacy definition: zcdp (ρ) or puredp (ε).")
    ] = "zcdp",
) -> None:
    """Create the ledger of a population. The cap can't be changed later."""
    from phsafe.cli.console import note, result
    from phsafe.model.exact_numbers import text
    from phsafe.privacy.ledger import UNITS, Ledger
    from phsafe.privacy.ledger_file import key_path

    definition = next((known for known in UNITS if known == privacy), None)
    if definition is None:
        raise typer.BadParameter(f"expected one of {', '.join(UNITS)}, got {privacy}", param_hint="--privacy")
    amount = _amount(cap)
    Ledger.create(file, amount, definition)
    result({"file": str(file), "key": str(key_path(file)), "privacy": definition, "cap": amount})
    note(
        f"Created {file} with a cap of {text(amount)} {UNITS[definition]}. Keep {key_path(file)} beside it, and secret."
    )


@app.command()
def show(file: LedgerPath) -> None:
    """Show the cap, the loss spent and left, and every release."""
    from phsafe.cli.console import result
    from phsafe.privacy.ledger import Ledger

    statement = Ledger.open(file).read()
    result(_document(statement), *_shown(statement))


@app.command()
def verify(
    file: LedgerPath,
    head: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="Head noted earlier: detects a ledger restored from an old copy."),
    ] = None,
) -> None:
    """Check that no entry was changed, removed, moved or cut off."""
    from phsafe.cli.console import note, result
    from phsafe.privacy.ledger import Ledger, LedgerError

    ledger = Ledger(file)
    problems = ledger.verify(head)
    if problems:
        raise LedgerError(p if p.startswith(str(file)) else f"{file}: {p}" for p in problems)
    statement = ledger.read()
    result({"file": str(file), "unmodified": True, "releases": len(statement.entries), "head": statement.head})
    note(f"{file}: complete and unmodified, releases: {len(statement.entries)}, head {statement.head}")


def _amount(value: str) -> Decimal:
    """Parse a finite decimal above 0, exactly as typed."""
    try:
        amount = Decimal(value)
    except InvalidOperation:
        amount = Decimal(0)
    exponent = amount.as_tuple().exponent
    small = isinstance(exponent, int) and exponent >= -MAX_DIGITS and amount.adjusted() < MAX_DIGITS
    if not (amount.is_finite() and amount > 0 and small):
        raise typer.BadParameter(f"expected a finite number above 0, got {value}", param_hint="--cap")
    return amount


def _document(statement: Statement) -> dict[str, Any]:
    """Return the ledger as a JSON document. Amounts are in the unit of `privacy`: ρ for zcdp, ε for puredp."""
    return {
        "privacy": statement.definition,
        "cap": statement.cap,
        "spent": statement.spent,
        "spent_bounded": statement.spent_bounded,
        "left": statement.left,
        "head": statement.head,
        "entries": [
            {
                "number": entry.number,
                "time": entry.time,
                "release_id": entry.release_id,
                "loss": entry.loss.unbounded,
                "loss_bounded": entry.loss.bounded,
                "details": dict(entry.details),
                "fingerprint": entry.fingerprint,
                "version": entry.version,
                "hash": entry.hash,
            }
            for entry in statement.entries
        ],
    }


def _in_short(details: Mapping[str, Any]) -> str:
    """Summarise what was released and how; the JSON output has all details."""
    config, settings = (found if isinstance(found := details.get(key), dict) else {} for key in DETAILS)
    words = [_in_config(config)] if config else []
    words += [said for name, (value, said) in SETTINGS.items() if settings.get(name) == value]
    words += [f"{name} {value}" for name, value in details.items() if name not in DETAILS]
    return ", ".join(words)


def _in_config(config: Mapping[str, Any]) -> str:
    budgets, states = config.get("privacy_budget"), config.get("state_filter")
    parts = [str(config.get("sensitivity", "published"))]
    if isinstance(budgets, dict):
        measured = [name for name, levels in budgets.items() if any(str(b) != "0" for b in dict(levels).values())]
        parts.append(" ".join(measured) if len(measured) < len(budgets) else "all tabulations")
    parts += [f"states: {len(states)}"] if isinstance(states, list) else []
    return ", ".join(parts)


def _shown(statement: Statement) -> tuple[Table, str, str]:
    from rich.table import Table

    from phsafe.model.exact_numbers import text
    from phsafe.privacy.ledger import UNITS

    unit = UNITS[statement.definition]
    table = Table("#", "Time (UTC)")
    table.add_column("Release", overflow="fold")
    for name in (unit, f"bounded {unit}", "Details"):
        table.add_column(name)
    for entry in statement.entries:
        losses = text(entry.loss.unbounded), text(entry.loss.bounded)
        time = entry.time.removesuffix("+00:00").replace("T", " ")
        table.add_row(str(entry.number), time, entry.release_id, *losses, _in_short(entry.details))
    cap, spent, left = (text(amount) for amount in (statement.cap, statement.spent, statement.left))
    bounded = text(statement.spent_bounded)
    amounts = f"Cap {cap} {unit}, spent {spent} (bounded: {bounded}), left {left}"
    return table, amounts, f"Head {statement.head}"
