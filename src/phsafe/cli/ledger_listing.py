"""What `phsafe ledger show` lists: every entry, the cap, and what is spent and left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from phsafe.model.exact_numbers import text
from phsafe.privacy.ledger import UNITS, Charge, Entry, Statement

#: Parts of an entry's details; and the settings that a listing mentions.
DETAILS = ("config", "settings")
SETTINGS = {
    "truncate": (False, "not truncated"),
    "allow_unclassified": (True, "unclassified records allowed"),
    "allow_empty_states": (True, "empty states allowed"),
    "skip_validation": (True, "validation skipped"),
}


def amounts(statement: Statement) -> dict[str, Any]:
    """The amounts of a ledger for a JSON document, in the unit of `privacy`."""
    return {
        "privacy": statement.definition,
        "cap": statement.cap,
        "spent": statement.spent,
        "left": statement.left,
        "head": statement.head,
    }


def document(statement: Statement) -> dict[str, Any]:
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


def shown(statement: Statement) -> list[RenderableType]:
    """What `phsafe ledger show` prints: a table of the entries, and the totals."""
    unit = UNITS[statement.definition]
    table = Table("#", "Time (UTC)", "User")
    table.add_column("Entry", overflow="fold")
    for name in (unit, f"bounded {unit}", "Details"):
        table.add_column(name)
    for entry, charge in _listed(statement):
        time = entry.time.removesuffix("+00:00").replace("T", " ")
        table.add_row(str(entry.number), time, entry.user, *_cells(entry, charge))
    cap, spent, left = (text(amount) for amount in (statement.cap, statement.spent, statement.left))
    lines = [
        f"Population: {statement.population or 'named by the first release'}",
        f"Cap {cap} {unit}, spent {spent} (bounded: {text(statement.spent_bounded)}), left {left}",
        f"Head {statement.head}",
    ]
    old = statement.opening.fields["supersedes"] or {}
    return [table, *lines, *(f"Supersedes, {name}: {value}" for name, value in old.items())]


def _cells(entry: Entry, charge: Charge | None) -> tuple[str, str, str, str]:
    """The cells of an entry: what it is, the unbounded and bounded loss, and the details."""
    if charge is not None:
        state = "" if charge.files is not None else "charged, not finished; "
        amounts = text(charge.charged.unbounded), text(charge.charged.bounded)
        return escape(charge.release_id), *amounts, escape(state + _in_short(charge.details))
    fields = {name: text(value) if hasattr(value, "numerator") else value for name, value in entry.fields.items()}
    amounts = fields.pop("unbounded", ""), fields.pop("bounded", "")
    words = ", ".join(f"{name} {value}" for name, value in fields.items() if value is not None)
    return entry.kind, *amounts, escape(words)
