"""What a ledger refuses: a charge above what is left of its cap, a release that is too large, or another population."""

from __future__ import annotations

import json
import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phsafe.configs.publication import MAX_TEXT
from phsafe.model.exact_numbers import Exact, text
from phsafe.privacy import ledger_chain
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger_entries import UNITS, Statement, is_line, read_amount, read_definition
from phsafe.privacy.ledger_file import LedgerError, connection

if TYPE_CHECKING:
    from phsafe.privacy_math.sensitivity import Definition

#: The largest unbounded loss of one release, in ρ, unless its ledger or its command names another: about eight times
#: that of the 2020 parameters. Above it the noise is small next to any count, and the guarantee exists in name only.
MAX_RHO = Fraction(10)


@dataclass(frozen=True)
class Population:
    """Whom a release is about.

    Attributes:
        text: Their description.
        states: The codes of their states.
        is_stated: Whether the config itself has the description; otherwise it was derived from the states.
    """

    text: str
    states: tuple[str, ...]
    is_stated: bool


def check_line(name: str, value: str) -> None:
    """Refuse text that is empty, long or not printable."""
    if not value.strip() or not is_line(value) or len(value) > MAX_TEXT:
        raise LedgerError(f"{name}: expected one line of printable text, of at most {MAX_TEXT} characters")


def check_charge(
    path: Path,
    now: Statement,
    loss: Loss,
    release_id: str | None,
    population: Population | None,
    max_rho: Exact | None,
) -> None:
    """Refuse a loss that can't be charged: more than is left or allowed, another population, or charged before."""
    if loss.unbounded < 0 or loss.bounded < 0:
        raise LedgerError("a charge can't be negative: the ledger never refunds")
    check_population(path, now, population)
    unit = UNITS[now.definition]
    left = f"{text(now.left)} of {text(now.cap)} {unit} is left in the ledger {path}"
    if now.definition == "puredp" and loss.definition == "zcdp":
        raise LedgerError(
            f"nothing was charged: {left}, which is for pure DP, and a zCDP release doesn't satisfy pure DP for any ε; "
            "charge both kinds to a zCDP ledger"
        )
    check_ceiling(loss, max_rho, now.max_rho)
    needed = loss if now.definition == loss.definition else loss.as_zcdp()
    if needed.unbounded > now.left:
        raise LedgerError(
            f"nothing was charged: this release needs {text(needed.unbounded)} {unit}, but {left}; fit the budgets "
            "into what is left, or raise the cap with a reason (phsafe ledger amend)"
        )
    if release_id in {charge.release_id for charge in now.charges}:
        raise LedgerError(f"nothing was charged: the release {release_id} has already been charged, and {left}")


def check_population(path: Path, now: Statement, given: Population | None) -> None:
    """Refuse a release that is not about the ledger's population, or a part of it."""
    if given is None:
        return
    outside = _not_in(given.states, now.states)
    if outside:
        raise LedgerError(
            f"nothing was charged: the ledger {path} is for {now.population or 'other states'} (states "
            f"{', '.join(now.states or ())}), and this release is also about {', '.join(outside)}; "
            "use a separate ledger for each population"
        )
    if given.is_stated and now.population not in (None, given.text):
        raise LedgerError(
            f"nothing was charged: the ledger {path} is for {now.population}, and the config is for {given.text}; "
            "use a separate ledger for each population"
        )


def check_ceiling(loss: Loss, *limits: Exact | None) -> None:
    """Refuse a loss above the smallest of the given limits, or above `MAX_RHO` if none is given."""
    rho = loss.as_zcdp().unbounded
    limit = min((Fraction(limit) for limit in limits if limit is not None), default=MAX_RHO)
    if rho > limit:
        raise LedgerError(
            f"nothing was charged: expected an unbounded loss of at most ρ = {text(limit)}, got {text(rho)}; lower the "
            "budgets, or raise the limit (--max-rho, or for an existing ledger phsafe ledger amend --max-rho)"
        )


def previous_ledger(old: Path) -> dict[str, Any]:
    """The name, unit, head and spending of a ledger that was set aside; only its name if it can't be read."""
    found: dict[str, Any] = {"file": old.name, "privacy": None, "head": None, "spent": None}
    try:
        with connection(old) as database:
            rows = ledger_chain.unsigned_rows(database)
        bodies = [json.loads(body) for body, _ in rows]
        unit = read_definition(bodies[0]["definition"])
        spent = sum((_charged(unit, body) for body in bodies if "unbounded" in body), Fraction(0))
        return found | {"privacy": unit, "head": rows[-1][1], "spent": text(spent)}
    except (LedgerError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return found


def _charged(unit: Definition, body: Mapping[str, Any]) -> Fraction:
    """What an entry counts towards the cap, in the ledger's unit, which is also that of entries in format 1."""
    loss = Loss(body.get("definition", unit), read_amount(body["unbounded"]), read_amount(body["bounded"]))
    return loss.as_zcdp().unbounded if unit == "zcdp" else loss.unbounded


def common_fields() -> dict[str, str]:
    """The fields of every entry: when, which version, and who ran it on which machine."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": program_version(),
        "user": user,
        "host": socket.gethostname(),
    }


def program_version() -> str:
    """The installed version of PHSafe, recorded in each entry."""
    try:
        return version("phsafe")
    except PackageNotFoundError:
        return "unknown"


def _not_in(states: Sequence[str], known: Sequence[str] | None) -> list[str]:
    return [] if known is None else sorted({*states} - {*known})
