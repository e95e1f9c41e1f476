"""The privacy ledger of a population: the losses of all its releases, which never exceed the cap (claim C12).

A ledger belongs to a population, not to a file: corrected or copied input gets no new budget. It is append-only, and
nothing is refunded. Entry 0 records the cap, the population and the public key. Every entry is signed together with
the hash of its predecessor, and so is a head that records the number of entries: without the private key, no entry can
be changed, removed, moved, added or cut off unnoticed. The holder of the key, and anyone who restores an older copy of
the whole ledger, is detected only by comparison with a head noted elsewhere.

A release is charged its unbounded loss. Charges add up across releases and sensitivity modes, because each is an upper
bound for the same neighbours; on a zCDP ledger, a pure-DP release is charged ε²/2 (claim C13). The bounded loss is
recorded too, but needs no cap of its own: it is at most four times (zCDP) or twice (pure DP) the unbounded loss.
Amounts are stored as exact decimals or fractions.
"""

from __future__ import annotations

import hashlib
import hmac
import stat
import uuid
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phsafe.model.exact_numbers import Exact, text
from phsafe.privacy import ledger_chain, ledger_file, ledger_keys
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger_entries import FORMAT, UNITS, Charge, Entry, Statement, parse, statement
from phsafe.privacy.ledger_file import BusyError, LedgerError, connection, public_path, transaction
from phsafe.privacy.ledger_policy import Population, check_charge, check_line, common_fields, previous_ledger

if TYPE_CHECKING:
    from phsafe.privacy_math.sensitivity import Definition

__all__ = ["UNITS", "Charge", "Entry", "Ledger", "LedgerError", "Population", "Statement"]

#: The largest ratio of a bounded to an unbounded loss.
MOST_BOUNDED: Mapping[Definition, int] = {"zcdp": 4, "puredp": 2}


class Ledger:
    """An existing ledger file. Every call reads or writes the file; nothing is cached."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @classmethod
    def create(
        cls,
        path: str | Path,
        cap: Exact,
        definition: Definition = "zcdp",
        *,
        population: str | None = None,
        states: tuple[str, ...] | None = None,
        max_rho: Exact | None = None,
        supersede: Mapping[str, str] | None = None,
    ) -> Ledger:
        """Create a ledger atomically, with a new pair of keys in ``FILE.key`` and ``FILE.pub``.

        Args:
            path: The ledger file.
            cap: The largest total unbounded loss that may be charged.
            definition: The privacy definition whose unit is charged: ρ (zcdp) or ε (puredp).
            population: Whom the releases are about; by default as the first release names them.
            states: The states of the population; by default those of the first release.
            max_rho: The largest loss of one release, in ρ.
            supersede: Who replaces the ledger that is or was here, and why (``by`` and ``reason``). It is kept under
                another name, and the new ledger names its head.

        Raises:
            LedgerError: A ledger is or was here, the cap is not positive, or the files can't be written.
        """
        path = Path(path)
        if definition not in UNITS:
            raise LedgerError(f"expected one of {', '.join(UNITS)} as the privacy definition, got {definition!r}")
        for name, amount in (("cap", cap), ("max_rho", max_rho)):
            if amount is not None and not Fraction(amount) > 0:
                raise LedgerError(f"{path}: expected a {name} above 0, got {text(amount)}")
        if population is not None:
            check_line("population", population)
        if not path.parent.is_dir():
            raise LedgerError(f"{path}: there is no folder {path.parent}; create it first")
        first = {
            "kind": "open", "format": FORMAT, "ledger": str(uuid.uuid4()), "definition": definition,
            "cap": text(cap), "max_rho": None if max_rho is None else text(max_rho),
            "population": population, "states": None if states is None else sorted(states),
            "supersedes": cls(path)._make_room(supersede), **common_fields(),
        }  # fmt: skip

        def fill(file: Path) -> None:
            signer = ledger_keys.load_or_create(path)
            with connection(file, new=True) as database, transaction(database, "IMMEDIATE"):
                ledger_chain.start(database, signer, first | {"public_key": signer.public_key})

        ledger_file.create_atomically(path, fill)
        return cls(path)

    @classmethod
    def open(cls, path: str | Path) -> Ledger:
        """Open an existing ledger, checking that it can be read."""
        ledger = cls(path)
        ledger_file.remove_unfinished_beside(ledger.path)
        ledger.read()
        return ledger

    def charge(
        self,
        loss: Loss,
        release_id: str,
        details: Mapping[str, Any],
        fingerprint: str | None = None,
        locked: Callable[[], object] = lambda: None,
        *,
        population: Population | None = None,
        max_rho: Exact | None = None,
    ) -> Entry:
        """Charge the whole loss of a release.

        The charge is one IMMEDIATE transaction: parallel releases queue up, so together they can't exceed the cap.
        When this returns, the charge is on disk and permanent.

        Args:
            loss: The loss of the release; what its unbounded loss is in the ledger's unit counts towards the cap.
            release_id: The identifier of the release, which can be charged only once.
            details: How the release was produced, recorded with the charge.
            fingerprint: A keyed fingerprint of the input, from `fingerprint`.
            locked: Called once the ledger is locked and before anything is written.
            population: Whom the release is about, which must be the ledger's population.
            max_rho: The largest loss allowed for this release, in ρ.

        Raises:
            LedgerError: The charge would exceed the cap (the message says what is left), or the ledger can't be used.
        """

        def allowed(now: Statement) -> None:
            check_charge(self.path, now, loss, release_id, population, max_rho)
            locked()

        return self._append(
            "charge",
            {
                "release_id": release_id,
                "definition": loss.definition,
                "unbounded": text(loss.unbounded),
                "bounded": text(loss.bounded),
                "population": None if population is None else population.text,
                "states": None if population is None else list(population.states),
                "details": dict(details),
                "fingerprint": fingerprint,
            },
            allowed,
        )

    def check(self, loss: Loss, population: Population | None = None, max_rho: Exact | None = None) -> None:
        """Raise what `charge` would raise, without charging: a release that can't be charged stops before it starts."""
        with connection(self.path) as database, transaction(database, "IMMEDIATE"):
            _, now = self._intact(database, ledger_keys.load_signer(self.path))
            check_charge(self.path, now, loss, None, population, max_rho)

    def finish(self, release_id: str, files: Mapping[str, str]) -> Entry:
        """Record the SHA-256 of every file of a charged release that is complete."""

        def allowed(now: Statement) -> None:
            if release_id not in {charge.release_id for charge in now.charges if charge.files is None}:
                raise LedgerError(f"{self.path}: expected a release that is charged and not finished, got {release_id}")

        return self._append("finish", {"release_id": release_id, "files": dict(files)}, allowed)

    def amend(self, by: str, reason: str, *, cap: Exact | None = None, max_rho: Exact | None = None) -> Entry:
        """Change the cap, or the largest loss of one release. Both stay in the ledger, with who decided it and why."""

        def allowed(now: Statement) -> None:
            if cap is not None and Fraction(cap) < now.spent:
                raise LedgerError(f"{self.path}: expected a cap of at least {text(now.spent)}, which is spent already")

        given = {"cap": cap, "max_rho": max_rho}
        if all(amount is None for amount in given.values()):
            raise LedgerError(f"{self.path}: expected a new cap or a new max_rho, got neither")
        if any(amount is not None and not Fraction(amount) > 0 for amount in given.values()):
            raise LedgerError(f"{self.path}: expected a cap and a max_rho above 0")
        amounts = {name: None if amount is None else text(amount) for name, amount in given.items()}
        return self._append("amend", amounts | {"by": by, "reason": reason}, allowed)

    def import_spending(self, unbounded: Exact, by: str, reason: str, bounded: Exact | None = None) -> Entry:
        """Carry over what an earlier system spent on the same population; without its bounded loss, the largest."""
        if not Fraction(unbounded) > 0 or (bounded is not None and not Fraction(bounded) > 0):
            raise LedgerError(f"{self.path}: expected an amount above 0")

        def allowed(now: Statement) -> None:
            if Fraction(unbounded) > now.left:
                raise LedgerError(
                    f"{self.path}: expected at most {text(now.left)} {UNITS[now.definition]}, the amount left, got "
                    f"{text(unbounded)}; raise the cap first (phsafe ledger amend)"
                )

        most = MOST_BOUNDED[self.read().definition] * Fraction(unbounded)
        amounts = {"unbounded": text(unbounded), "bounded": text(most if bounded is None else bounded)}
        return self._append("import", amounts | {"by": by, "reason": reason}, allowed)

    def note(self, by: str, text: str) -> Entry:
        """Add a remark."""
        return self._append("note", {"by": by, "text": text})

    def read(self) -> Statement:
        """Read the whole ledger in one transaction. Needs no key."""
        with connection(self.path) as database, transaction(database, "DEFERRED"):
            return statement(ledger_chain.rows(database))

    def charges(self) -> tuple[Charge, ...]:
        """All charged releases, oldest first."""
        return self.read().charges

    def fingerprint(self, chunks: Iterable[bytes]) -> str:
        """A keyed fingerprint of an input: equal for equal bytes, and meaningless without the private key."""
        digest = hmac.new(ledger_keys.load_signer(self.path).derive(b"fingerprint"), digestmod=hashlib.sha256)
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest()

    def verify(self, head: str | None = None, public_key: Path | None = None) -> list[str]:
        """List every sign of tampering as a sentence; empty if the ledger is intact. Needs the public key only.

        Args:
            head: A hash noted after an earlier charge. If it is not in the chain, the ledger was replaced.
            public_key: The file with the public key; by default FILE.pub.
        """
        try:
            with connection(self.path) as database, transaction(database, "DEFERRED"):
                rows = ledger_chain.rows(database)
                key = ledger_keys.load_public_key(public_key or public_path(self.path))
                problems = ledger_chain.problems(database, key)
                overspent = not problems and statement(rows).left < 0
        except LedgerError as error:
            return list(error.reasons)
        if stat.S_IMODE(self.path.stat().st_mode) & 0o007:
            problems.append("every user of this machine can read or change the ledger; set its mode to 600, or to 660 "
                            "if a group shares it")  # fmt: skip
        if head is not None and head not in [row.hash for row in rows]:
            problems.append("the head given is not in this ledger: it is an older copy, or another ledger")
        if overspent:
            problems.append("more was charged than the cap allows")
        return problems

    def _append(
        self, kind: str, fields: Mapping[str, Any], allowed: Callable[[Statement], None] = lambda _: None
    ) -> Entry:
        """Append a signed entry if the ledger is intact and open, and `allowed` raises nothing."""
        for name in ("by", "reason", "text", "release_id"):
            check_line(name, fields.get(name, "-"))
        with connection(self.path) as database, transaction(database, "IMMEDIATE"):
            signer = ledger_keys.load_signer(self.path)
            rows, now = self._intact(database, signer)
            allowed(now)
            return parse(ledger_chain.append(database, signer, rows[-1], {"kind": kind, **fields, **common_fields()}))

    def _intact(
        self, database: ledger_file.Database, signer: ledger_keys.Signer
    ) -> tuple[list[ledger_chain.ChainRow], Statement]:
        """Return the rows and what they say if the ledger is intact and not superseded; else raise."""
        problems = ledger_chain.problems(database, signer.public_key)
        if problems:
            raise LedgerError(f"{self.path}: nothing was charged, because the ledger was tampered with: {problems[0]}")
        rows = ledger_chain.rows(database)
        now = statement(rows)
        for entry in now.of("supersede"):
            raise LedgerError(
                f"{self.path}: nothing was charged, this ledger was superseded by {entry.fields['by']} "
                f"({entry.fields['reason']}); use the new one"
            )
        return rows, now

    def _make_room(self, supersede: Mapping[str, str] | None) -> dict[str, Any] | None:
        """Refuse a path where a ledger is or was; or set it aside, and return what the new one says about it."""
        path, traces = self.path, ledger_file.traces(self.path)
        there = ledger_file.exists(path)
        if supersede is None:
            if there:
                raise LedgerError(f"{path}: the file already exists; a ledger is never replaced")
            if traces:
                raise LedgerError(ledger_file.lost(path))
            return None
        if not there and not traces:
            raise LedgerError(f"{path}: expected a ledger to supersede, got neither a ledger nor its key")
        for name in ("by", "reason"):
            check_line(name, supersede[name])
        try:
            self._append("supersede", supersede)
        except BusyError:
            raise
        except LedgerError:
            pass  # A ledger that is damaged, or has no key, can't be closed with an entry.
        return {**previous_ledger(ledger_file.set_aside(path)), **supersede}
