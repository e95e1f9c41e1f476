"""Parsing the rows of a ledger: the cap, and the charges. A row of any other form means that the ledger is damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger_chain import ChainRow
from phsafe.privacy.ledger_file import DamageError

if TYPE_CHECKING:
    from phsafe.privacy_math.sensitivity import Definition

FORMAT = 1
UNITS: Mapping[Definition, str] = {"zcdp": "ρ", "puredp": "ε"}
#: Plain digits only: Python would accept "1e999999999" as an amount, and run out of memory computing it.
_AMOUNT = re.compile(r"[0-9]{1,400}(\.[0-9]{1,400})?|[0-9]{1,400}/[1-9][0-9]{0,400}")


@dataclass(frozen=True)
class Entry:
    """One charge. `details` records how the release was produced: sensitivity mode, settings and so on."""

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
    """The contents of a ledger, read in one transaction."""

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
        """The unbounded loss that can still be charged."""
        return self.cap - self.spent


def statement(rows: list[ChainRow]) -> Statement:
    """Parse all rows, or raise a `DamageError`."""
    try:
        first = json.loads(rows[0].body)
        if first["format"] != FORMAT or first["definition"] not in UNITS:
            raise DamageError(f"expected format {FORMAT}, got another; a newer version of PHSafe may support it")
        entries = tuple(entry(first["definition"], row) for row in rows[1:])
        return Statement(first["definition"], _amount(first["cap"]), entries, rows[-1].hash)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamageError("an entry can't be read") from None


def entry(definition: Definition, row: ChainRow) -> Entry:
    """Parse one charge."""
    fields = json.loads(row.body)
    loss = Loss(definition, _amount(fields["unbounded"]), _amount(fields["bounded"]))
    fingerprint = fields["fingerprint"]
    if not isinstance(fields["details"], dict):
        raise TypeError
    return Entry(
        row.number, _printable(fields["time"]), _printable(fields["release_id"]), loss, fields["details"],
        None if fingerprint is None else _printable(fingerprint), _printable(fields["version"]), row.hash,
    )  # fmt: skip


def _amount(text: str) -> Fraction:
    if not _AMOUNT.fullmatch(text):
        raise ValueError
    return Fraction(text)


def _printable(text: str) -> str:
    """Accept only printable text: no line breaks, no terminal control sequences."""
    if not text.isprintable():
        raise ValueError
    return text
