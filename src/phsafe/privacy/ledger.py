"""The ledger: what a population's data has cost so far, and never more than its cap (claim C12).

A ledger stands for a population, not for a file: a corrected or copied input gets no fresh budget. It is
append-only and never refunds. Entry 0 states the cap and the privacy definition; each entry carries the
SHA-256 of itself and the one before, and a keyed head says how many there are, so a changed, missing, moved or
cut-off entry is found. A whole ledger put back from an older copy is found only against a head noted elsewhere.

What is charged is the unbounded loss of the release's mode (ρ for zCDP, ε for pure DP), which adds up across
releases and modes because each is an upper bound for the same neighbours. The bounded loss is recorded beside
it; it needs no cap of its own, being at most four times (zCDP) or twice (pure DP) the unbounded loss.
Amounts are exact decimals or fractions as text.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phsafe.exact import Exact, text
from phsafe.privacy import ledger_chain, ledger_file
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger_chain import Row
from phsafe.privacy.ledger_entries import FORMAT, UNITS, Entry, Statement, entry, statement
from phsafe.privacy.ledger_file import LedgerError, connection, load_key, transaction

if TYPE_CHECKING:
    import sqlite3

    from phsafe.privacy.sensitivity import Definition

__all__ = ["NAMES", "UNITS", "Entry", "Ledger", "LedgerError", "Statement"]

NAMES: Mapping[Definition, str] = {"zcdp": "zCDP", "puredp": "pure DP"}


class Ledger:
    """A ledger file that exists. Every call reads or writes the file; nothing is kept in memory."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, cap: Exact, definition: Definition = "zcdp") -> Ledger:
        """Make a new ledger, whole or not at all; refused where there is one."""
        path = Path(path)
        if definition not in UNITS:
            raise LedgerError(f"expected one of {', '.join(UNITS)} as privacy definition, got {definition!r}")
        if not Fraction(cap) > 0:
            raise LedgerError(f"{path}: expected a cap above 0, got {text(cap)}")
        if os.path.lexists(path):
            raise LedgerError(f"{path}: there is a file of this name already; a ledger is never replaced")
        if not path.parent.is_dir():
            raise LedgerError(f"{path}: there is no folder {path.parent}")
        first = {
            "format": FORMAT,
            "ledger": str(uuid.uuid4()),
            "time": _now(),
            "definition": definition,
            "cap": text(cap),
            "version": program_version(),
        }

        def fill(file: Path) -> None:
            key = ledger_file.load_or_make_key(path)
            with connection(file, new=True) as database, transaction(database, "IMMEDIATE"):
                ledger_chain.start(database, key, first)

        ledger_file.publish(path, fill)
        return cls(path)

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """A ledger that is there and can be read."""
        ledger = cls(path)
        ledger.read()
        return ledger

    @classmethod
    def open_or_create(cls, path: str | Path, cap: Exact, definition: Definition = "zcdp") -> tuple[Ledger, bool]:
        """The ledger at a path and whether it was made now; processes that start together get the same one.

        A key without its ledger is refused: a ledger that was lost must come back, not begin again at 0.
        """
        path = Path(path)
        if not os.path.lexists(path):
            if ledger_file.was_lost(path):
                raise LedgerError(
                    f"{path}: the ledger is missing, but its key is here, so it was moved or deleted; put it back "
                    "(phsafe ledger init begins a new one, with a budget of its own)"
                )
            try:
                return cls.create(path, cap, definition), True
            except LedgerError:
                if not os.path.lexists(path):
                    raise
        ledger_file.sweep(path)
        return cls.open(path), False

    def charge(
        self,
        loss: Loss,
        release_id: str,
        details: Mapping[str, Any],
        fingerprint: str | None = None,
        locked: Callable[[], object] = lambda: None,
    ) -> Entry:
        """Charge a release's whole loss, or refuse it with a `LedgerError` that says what is left.

        One IMMEDIATE transaction: parallel releases queue up, so they can't pass the cap together. When this
        returns, the charge is on disk, and nothing takes it back. `locked` is called when the waiting is over and
        nothing is written yet.
        """
        if loss.unbounded < 0 or loss.bounded < 0:
            raise LedgerError("a charge can't be negative: the ledger never refunds")
        with self._writing() as (database, key):
            rows = self._ready(database, key, loss, release_id)
            locked()
            body = {
                "time": _now(),
                "release_id": release_id,
                "unbounded": text(loss.unbounded),
                "bounded": text(loss.bounded),
                "details": dict(details),
                "fingerprint": fingerprint,
                "version": program_version(),
            }
            row = ledger_chain.append(database, key, rows[-1], body)
        return entry(loss.definition, row)

    def check(self, loss: Loss) -> None:
        """Refuse now what a charge would refuse, without charging: to stop early, before the work."""
        with self._writing() as (database, key):
            self._ready(database, key, loss, None)

    def read(self) -> Statement:
        """Everything in the ledger, at one moment."""
        with connection(self.path) as database, transaction(database, "DEFERRED"):
            return statement(ledger_chain.rows(database))

    @property
    def definition(self) -> Definition:
        """The one privacy definition of this ledger."""
        return self.read().definition

    @property
    def cap(self) -> Fraction:
        """What may be spent in all."""
        return self.read().cap

    @property
    def spent(self) -> Fraction:
        """The unbounded loss charged so far."""
        return self.read().spent

    @property
    def left(self) -> Fraction:
        """What the cap still allows."""
        return self.read().left

    def entries(self) -> tuple[Entry, ...]:
        """All charges, oldest first."""
        return self.read().entries

    def fingerprint(self, chunks: Iterable[bytes]) -> str:
        """A keyed fingerprint of an input: equal for equal bytes, and useless to whoever lacks the key."""
        digest = hmac.new(load_key(self.path), b"fingerprint\n", hashlib.sha256)
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest()

    def verify(self, head: str | None = None) -> list[str]:
        """Every sign of tampering, in words; an empty list if all is well.

        `head` is a hash noted after an earlier charge: if it is no longer in the chain, the ledger was replaced.
        """
        try:
            with connection(self.path) as database, transaction(database, "DEFERRED"):
                key = load_key(self.path)
                problems, rows = ledger_chain.problems(database, key), ledger_chain.rows(database)
                overspent = not problems and statement(rows).left < 0
        except LedgerError as error:
            return list(error.reasons)
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            problems.append("the ledger can be read or changed by others than its owner")
        if head is not None and head not in [row.hash for row in rows]:
            problems.append("the noted head is not in the chain: this is an older copy or another ledger")
        if overspent:
            problems.append("more was charged than the cap allows")
        return problems

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, bytes]]:
        """The only writer of the ledger, until the transaction ends."""
        with connection(self.path) as database, transaction(database, "IMMEDIATE"):
            yield database, load_key(self.path)

    def _ready(self, database: sqlite3.Connection, key: bytes, loss: Loss, release_id: str | None) -> list[Row]:
        """The rows of an untouched ledger that can take the charge; else a `LedgerError`."""
        problems = ledger_chain.problems(database, key)
        if problems:
            raise LedgerError(f"{self.path}: nothing was charged, the ledger was tampered with: {problems[0]}")
        rows = ledger_chain.rows(database)
        now = statement(rows)
        unit = UNITS[now.definition]
        left = f"{text(now.left)} of {text(now.cap)} {unit} is left in the ledger {self.path}"
        if loss.definition != now.definition:
            raise LedgerError(
                f"nothing was charged: {left}, which counts {NAMES[now.definition]}; "
                f"a {NAMES[loss.definition]} release needs a ledger of its own"
            )
        if loss.unbounded > now.left:
            raise LedgerError(f"nothing was charged: this release needs {text(loss.unbounded)} {unit}, but {left}")
        if release_id in {entry.release_id for entry in now.entries}:
            raise LedgerError(f"nothing was charged: the release {release_id} was charged before, and {left}")
        return rows


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def program_version() -> str:
    """The version of PHSafe that writes an entry."""
    try:
        return version("phsafe")
    except PackageNotFoundError:
        return "unknown"
