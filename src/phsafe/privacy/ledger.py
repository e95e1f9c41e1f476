"""The privacy ledger of a population: the losses of all its releases, which never exceed the cap (claim C12).

A ledger belongs to a population, not to a file: corrected or copied input gets no new budget. It is append-only, and
nothing is refunded. Entry 0 records the cap and the privacy definition. Each entry contains a SHA-256 hash of itself
and its predecessor, and a keyed head records the number of entries, so a changed, missing, moved or cut-off entry is
detected. Restoring an older copy of the whole ledger is detected only by comparison with a head noted elsewhere.

A release is charged its unbounded loss (ρ for zCDP, ε for pure DP). Charges add up across releases and sensitivity
modes, because each is an upper bound for the same neighbours. The bounded loss is recorded too, but needs no cap of
its own: it is at most four times (zCDP) or twice (pure DP) the unbounded loss. Amounts are stored as exact decimals
or fractions.
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

from phsafe.model.exact_numbers import Exact, text
from phsafe.privacy import ledger_chain, ledger_file
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger_chain import ChainRow
from phsafe.privacy.ledger_entries import FORMAT, UNITS, Entry, Statement, entry, statement
from phsafe.privacy.ledger_file import LedgerError, connection, load_key, transaction

if TYPE_CHECKING:
    import sqlite3

    from phsafe.privacy_math.sensitivity import Definition

__all__ = ["NAMES", "UNITS", "Entry", "Ledger", "LedgerError", "Statement"]

NAMES: Mapping[Definition, str] = {"zcdp": "zCDP", "puredp": "pure DP"}


class Ledger:
    """An existing ledger file. Every call reads or writes the file; nothing is cached."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, cap: Exact, definition: Definition = "zcdp") -> Ledger:
        """Create a ledger atomically.

        Args:
            path: The ledger file; its key is written next to it, to the same name with ``.key`` appended.
            cap: The largest total unbounded loss that may be charged.
            definition: The privacy definition of all releases charged to the ledger.

        Raises:
            LedgerError: The file exists, the cap is not positive, or the file can't be written.
        """
        path = Path(path)
        if definition not in UNITS:
            raise LedgerError(f"expected a privacy definition among {', '.join(UNITS)}, got {definition!r}")
        if not Fraction(cap) > 0:
            raise LedgerError(f"{path}: expected a cap above 0, got {text(cap)}")
        if os.path.lexists(path):
            raise LedgerError(f"{path}: the file already exists; a ledger is never replaced")
        if not path.parent.is_dir():
            raise LedgerError(f"{path}: there is no folder {path.parent}; make it first")
        first = {
            "format": FORMAT,
            "ledger": str(uuid.uuid4()),
            "time": _now(),
            "definition": definition,
            "cap": text(cap),
            "version": program_version(),
        }

        def fill(file: Path) -> None:
            key = ledger_file.load_or_create_key(path)
            with connection(file, new=True) as database, transaction(database, "IMMEDIATE"):
                ledger_chain.start(database, key, first)

        ledger_file.create_atomically(path, fill)
        return cls(path)

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """Open an existing ledger, checking that it can be read."""
        ledger = cls(path)
        ledger.read()
        return ledger

    @classmethod
    def open_or_create(cls, path: str | Path, cap: Exact, definition: Definition = "zcdp") -> tuple[Ledger, bool]:
        """Return the ledger at a path and whether this call created it. Concurrent callers get the same ledger.

        If only its key exists, the ledger was lost; that is refused, so that a lost ledger is restored rather than
        restarted at 0.
        """
        path = Path(path)
        if not os.path.lexists(path):
            if ledger_file.is_lost(path):
                raise LedgerError(
                    f"{path}: the ledger is missing but its key exists, so the ledger was moved or deleted; restore it "
                    "(phsafe ledger init starts a new one, with a new budget)"
                )
            try:
                return cls.create(path, cap, definition), True
            except LedgerError:
                if not os.path.lexists(path):
                    raise
        ledger_file.remove_unfinished(path)
        return cls.open(path), False

    def charge(
        self,
        loss: Loss,
        release_id: str,
        details: Mapping[str, Any],
        fingerprint: str | None = None,
        locked: Callable[[], object] = lambda: None,
    ) -> Entry:
        """Charge the whole loss of a release.

        The charge is one IMMEDIATE transaction: parallel releases queue up, so together they can't exceed the cap.
        When this returns, the charge is on disk and permanent.

        Args:
            loss: The loss of the release; `loss.unbounded` counts towards the cap.
            release_id: The identifier of the release, which can be charged only once.
            details: How the release was produced, recorded with the charge.
            fingerprint: A keyed fingerprint of the input, from `fingerprint`.
            locked: Called once the ledger is locked and before anything is written.

        Raises:
            LedgerError: The charge would exceed the cap (the message says what is left), or the ledger can't be used.
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
        """Raise what `charge` would raise, without charging: a release that can't be charged stops before it starts."""
        with self._writing() as (database, key):
            self._ready(database, key, loss, None)

    def read(self) -> Statement:
        """Read the whole ledger in one transaction."""
        with connection(self.path) as database, transaction(database, "DEFERRED"):
            return statement(ledger_chain.rows(database))

    @property
    def definition(self) -> Definition:
        """The privacy definition of all charges."""
        return self.read().definition

    @property
    def cap(self) -> Fraction:
        """The largest total unbounded loss that may be charged."""
        return self.read().cap

    @property
    def spent(self) -> Fraction:
        """The total unbounded loss charged so far."""
        return self.read().spent

    @property
    def left(self) -> Fraction:
        """The unbounded loss that can still be charged."""
        return self.read().left

    def entries(self) -> tuple[Entry, ...]:
        """All charges, oldest first."""
        return self.read().entries

    def fingerprint(self, chunks: Iterable[bytes]) -> str:
        """A keyed fingerprint of an input: equal for equal bytes, and meaningless without the key."""
        digest = hmac.new(load_key(self.path), b"fingerprint\n", hashlib.sha256)
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest()

    def verify(self, head: str | None = None) -> list[str]:
        """List every sign of tampering as a sentence; empty if the ledger is intact.

        Args:
            head: A hash noted after an earlier charge. If it is not in the chain, the ledger was replaced.
        """
        try:
            with connection(self.path) as database, transaction(database, "DEFERRED"):
                key = load_key(self.path)
                problems, rows = ledger_chain.problems(database, key), ledger_chain.rows(database)
                overspent = not problems and statement(rows).left < 0
        except LedgerError as error:
            return list(error.reasons)
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            problems.append("the ledger can be read or changed by users other than its owner; set its mode to 600")
        if head is not None and head not in [row.hash for row in rows]:
            problems.append("the head given is not in this ledger: it is an older copy, or another ledger")
        if overspent:
            problems.append("more was charged than the cap allows")
        return problems

    @contextmanager
    def _writing(self) -> Iterator[tuple[sqlite3.Connection, bytes]]:
        """Lock the ledger for writing until the transaction ends."""
        with connection(self.path) as database, transaction(database, "IMMEDIATE"):
            yield database, load_key(self.path)

    def _ready(self, database: sqlite3.Connection, key: bytes, loss: Loss, release_id: str | None) -> list[ChainRow]:
        """Return the rows if the ledger is intact and has enough left for the charge; else raise a `LedgerError`."""
        problems = ledger_chain.problems(database, key)
        if problems:
            raise LedgerError(f"{self.path}: nothing was charged, the ledger was tampered with: {problems[0]}")
        rows = ledger_chain.rows(database)
        now = statement(rows)
        unit = UNITS[now.definition]
        left = f"{text(now.left)} of {text(now.cap)} {unit} is left in the ledger {self.path}"
        if loss.definition != now.definition:
            raise LedgerError(
                f"nothing was charged: {left}, which is for {NAMES[now.definition]}; "
                f"a {NAMES[loss.definition]} release needs a ledger of its own"
            )
        if loss.unbounded > now.left:
            raise LedgerError(
                f"nothing was charged: this release needs {text(loss.unbounded)} {unit}, but {left}; "
                "the cap can't be raised, so the budgets must fit into what is left"
            )
        if release_id in {entry.release_id for entry in now.entries}:
            raise LedgerError(f"nothing was charged: the release {release_id} has already been charged, and {left}")
        return rows


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def program_version() -> str:
    """The installed version of PHSafe, recorded in each entry."""
    try:
        return version("phsafe")
    except PackageNotFoundError:
        return "unknown"
