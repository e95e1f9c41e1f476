"""`phsafe ledger init`, `show`, `verify`, `amend`, `import` and `note`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from phsafe.privacy.ledger import Charge, Entry, Statement

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
By = Annotated[str, typer.Option(metavar="WHO", help="Who decided it.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why.")]
#: Parts of an entry's details; and the settings that a listing mentions.
DETAILS = ("config", "settings")
SETTINGS = {
    "truncate": (False, "not truncated"),
    "allow_unclassified": (True, "unclassified records allowed"),
    "skip_validation": (True, "validation skipped"),
}


@app.command()
def init(
    file: LedgerPath,
    cap: Annotated[str, typer.Option(metavar="RHO", help="Total privacy loss allowed: ρ, or ε for pure DP.")],
    privacy: Annotated[
        str,
        typer.Option(metavar="DEFINITION", help="Unit of the ledger: zcdp (ρ, for releases of both kinds) or puredp."),
    ] = "zcdp",
    population: arg.Population = None,
    states: Annotated[
        str | None,
        typer.Option(metavar="CODES", help="Their states: us, pr, or 44,56 (default: those of the first release)."),
    ] = None,
    max_rho: arg.MaxRho = None,
    supersede: Annotated[
        bool, typer.Option("--supersede", help="Replace the ledger that is or was here; the old file is kept.")
    ] = False,
    by: Annotated[str | None, typer.Option(metavar="WHO", help="Who supersedes it (default: the user).")] = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why it is superseded.")] = None,
) -> None:
    """Create the ledger of a population. Later changes of the cap stay in it, with a reason."""
    from phsafe.configs.config_rules import read_states
    from phsafe.privacy.ledger import UNITS, Ledger
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
        f"Made the ledger {file} with a cap of {text(statement.cap)} {UNITS[statement.definition]}{whom}. Keep "
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
def show(
    file: LedgerPath,
    json: arg.Json = False,
) -> None:
    """Show the cap, the loss spent and left, and every entry. Signatures are checked by phsafe ledger verify."""
    from phsafe.model.exact_numbers import dumps
    from phsafe.privacy.ledger import Ledger

    statement = Ledger.open(file).read()
    if json:
        typer.echo(dumps(_document(statement)))
        return
    _print(statement)


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
    from phsafe.cli.console import note
    from phsafe.privacy.ledger import Ledger, LedgerError

    ledger = Ledger(file)
    problems = ledger.verify(head, public_key)
    if problems:
        raise LedgerError(p if p.startswith(str(file)) else f"{file}: {p}" for p in problems)
    statement = ledger.read()
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
    _say_what_is_left(ledger)


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
    _say_what_is_left(ledger)


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
    _say_what_is_left(ledger)


def _say_what_is_left(ledger: Any) -> None:  # noqa: ANN401
    from phsafe.cli.console import note
    from phsafe.model.exact_numbers import text
    from phsafe.privacy.ledger import UNITS

    now = ledger.read()
    note(f"{ledger.path}: {text(now.left)} of {text(now.cap)} {UNITS[now.definition]} is left, head {now.head}")


def _document(statement: Statement) -> dict[str, Any]:
    """Return the ledger as a JSON document. Amounts are in the unit of `privacy`: ρ for zcdp, ε for puredp."""
    return {
        "format": statement.opening.fields["format"],
        "privacy": statement.definition,
        "population": statement.population,
        "states": statement.states,
        "cap": statement.cap,
        "max_rho": statement.max_rho,
        "spent": statement.spent,
        "spent_bounded": statement.spent_bounded,
        "left": statement.left,
        "head": statement.head,
        "public_key": statement.opening.fields["public_key"],
        "supersedes": statement.opening.fields["supersedes"],
        "entries": [_entry(entry, charge) for entry, charge in _listed(statement)],
    }


def _listed(statement: Statement) -> Iterator[tuple[Entry, Charge | None]]:
    """The entries that are listed: all but those that finish a release, which are listed with its charge."""
    charges = {charge.entry.number: charge for charge in statement.charges}
    for entry in statement.entries:
        if entry.kind != "finish":
            yield entry, charges.get(entry.number)


def _entry(entry: Entry, charge: Charge | None) -> dict[str, Any]:
    about = {"number": entry.number, "kind": entry.kind, "time": entry.time}
    origin = {"version": entry.version, "user": entry.user, "host": entry.host, "hash": entry.hash}
    if charge is None:
        return about | dict(entry.fields) | origin
    return {
        **about,
        "release_id": charge.release_id,
        "loss": charge.charged.unbounded,
        "loss_bounded": charge.charged.bounded,
        "stated": {
            "privacy": charge.loss.definition,
            "loss": charge.loss.unbounded,
            "loss_bounded": charge.loss.bounded,
        },
        "details": dict(charge.details),
        "fingerprint": charge.fingerprint,
        "finished": charge.files is not None,
        "files": charge.files,
        **origin,
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


def _print(statement: Statement) -> None:
    from rich.table import Table

    from phsafe.cli.console import out as console
    from phsafe.cli.console import say
    from phsafe.model.exact_numbers import text
    from phsafe.privacy.ledger import UNITS

    unit = UNITS[statement.definition]
    table = Table("#", "Time (UTC)", "User")
    table.add_column("Entry", overflow="fold")
    for name in (unit, f"bounded {unit}", "Details"):
        table.add_column(name)
    for entry, charge in _listed(statement):
        time = entry.time.removesuffix("+00:00").replace("T", " ")
        table.add_row(str(entry.number), time, entry.user, *_cells(entry, charge))
    console.print(table)
    cap, spent, left = (text(amount) for amount in (statement.cap, statement.spent, statement.left))
    say(f"Population: {statement.population or 'named by the first release'}")
    say(f"Cap {cap} {unit}, spent {spent} (bounded: {text(statement.spent_bounded)}), left {left}")
    say(f"Head {statement.head}")
    for name, value in (statement.opening.fields["supersedes"] or {}).items():
        say(f"Supersedes, {name}: {value}")


def _cells(entry: Entry, charge: Charge | None) -> tuple[str, str, str, str]:
    """The cells of an entry: what it is, the unbounded and bounded loss, and the details."""
    from rich.markup import escape

    from phsafe.model.exact_numbers import text

    if charge is not None:
        state = "" if charge.files is not None else "charged, not finished; "
        amounts = text(charge.charged.unbounded), text(charge.charged.bounded)
        return escape(charge.release_id), *amounts, escape(state + _in_short(charge.details))
    fields = {name: text(value) if hasattr(value, "numerator") else value for name, value in entry.fields.items()}
    amounts = fields.pop("unbounded", ""), fields.pop("bounded", "")
    words = ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)
    return entry.kind, *amounts, escape(words)
