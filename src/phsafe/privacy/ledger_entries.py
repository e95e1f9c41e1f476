"""What a ledger's rows say: the cap, and the charges. A row that says it in another form is damage, not an amount."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger_chain import Row
from phsafe.privacy.ledger_file import DamageError

if TYPE_CHECKING:
    from phsafe.privacy.sensitivity import Definition

FORMAT = 1
UNITS: Mapping[Definition, str] = {"zcdp": "ρ", "puredp": "ε"}
#: Plain digits only: Python would take "1e999999999" for an amount, and all memory for computing it.
_AMOUNT = re.compile(r"[0-9]{1,400}(\.[0-9]{1,400})?|[0-9]{1,400}/[1-9][0-9]{0,400}")


@dataclass(frozen=True)
class Entry:
    """One charge. `details` says how the release was made: sensitivity mode, settings, and so on."""

    number: int
    time: str
    release_id: str
    loss: Loss
    details: Mapping[str, Any]
    fingerprint: str | None
    version: str
    hash: str


@dataclass(frozen=True)
class Statement:
    """All that a ledger holds, read at one moment."""

    definition: Definition
    cap: Fraction
    entries: tuple[Entry, ...]
    head: str

    @property
    def spent(self) -> Fraction:
        """The sum of all unbounded losses."""
        return sum((entry.loss.unbounded for entry in self.entries), Fraction(0))

    @property
    def spent_bounded(self) -> Fraction:
        """The sum of all bounded losses."""
        return sum((entry.loss.bounded for entry in self.entries), Fraction(0))

    @property
    def left(self) -> Fraction:
        """What the cap still allows."""
        return self.cap - self.spent


def statement(rows: list[Row]) -> Statement:
    """All rows, read; a `DamageError` if one can't be."""
    try:
        first = json.loads(rows[0].body)
        if first["format"] != FORMAT or first["definition"] not in UNITS:
            raise DamageError(f"expected format {FORMAT}; another version of PHSafe may know it")
        entries = tuple(entry(first["definition"], row) for row in rows[1:])
        return Statement(first["definition"], _amount(first["cap"]), entries, rows[-1].hash)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamageError("an entry can't be read") from None


def entry(definition: Definition, row: Row) -> Entry:
    """One charge."""
    fields = json.loads(row.body)
    loss = Loss(definition, _amount(fields["unbounded"]), _amount(fields["bounded"]))
    fingerprint = fields["fingerprint"]
    if not isinstance(fields["details"], dict):
        raise TypeError
    return Entry(
        row.number, _line(fields["time"]), _line(fields["release_id"]), loss, fields["details"],
        None if fingerprint is None else _line(fingerprint), _line(fields["version"]), row.hash,
    )  # fmt: skip


def _amount(text: str) -> Fraction:
    if not _AMOUNT.fullmatch(text):
        raise ValueError
    return Fraction(text)


def _line(text: str) -> str:
    """One line that a terminal shows and doesn't obey."""
    if not text.isprintable():
        raise ValueError
    return text
