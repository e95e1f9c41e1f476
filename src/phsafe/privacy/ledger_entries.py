"""The kinds of ledger entries, and the statement that they add up to. A row of any other form counts as damage."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger_chain import ChainRow
from phsafe.privacy.ledger_file import DamageError

if TYPE_CHECKING:
    from phsafe.privacy_math.sensitivity import Definition

FORMAT = 2
UNITS: Mapping[Definition, str] = {"zcdp": "ρ", "puredp": "ε"}
#: Plain digits only: Python would accept "1e999999999" as an amount, and run out of memory computing it.
_AMOUNT = re.compile(r"[0-9]{1,400}(\.[0-9]{1,400})?|[0-9]{1,400}/[1-9][0-9]{0,400}")
_STATE = re.compile("[0-9]{2}")
_HASH = re.compile("[0-9a-f]{64}")


def is_line(value: object) -> bool:
    """Whether a value is printable text: no line breaks, no terminal control sequences."""
    return isinstance(value, str) and value.isprintable()


def _line(value: Any) -> str:  # noqa: ANN401
    return str(_checked(value, is_line(value)))


def read_amount(value: Any) -> Fraction:  # noqa: ANN401
    """Read an amount, or raise an error if it is anything but plain digits."""
    return Fraction(_checked(value, _AMOUNT.fullmatch(value)))


def read_definition(value: Any) -> Definition:  # noqa: ANN401
    """Read a privacy definition, or raise an error if it is unknown."""
    checked: Definition = _checked(value, value in UNITS)
    return checked


def _states(value: Any) -> tuple[str, ...]:  # noqa: ANN401
    return tuple(_checked(value, isinstance(value, list) and all(map(_STATE.fullmatch, value))))


def _object(value: Any) -> Mapping[str, Any]:  # noqa: ANN401
    return dict(_checked(value, isinstance(value, dict)))


def _hashes(value: Any) -> Mapping[str, str]:  # noqa: ANN401
    return {_line(name): str(_checked(digest, _HASH.fullmatch(digest))) for name, digest in _object(value).items()}


def _format(value: Any) -> int:  # noqa: ANN401
    if value != FORMAT:
        raise DamageError(f"expected format {FORMAT}, got another; a newer version of PHSafe may support it")
    return FORMAT


def _checked(value: Any, is_valid: object) -> Any:  # noqa: ANN401
    if not is_valid:
        raise ValueError
    return value


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


_BY = {"by": _line, "reason": _line}
#: Entry kind → its fields, each with the function that checks and reads its JSON value.
KINDS: Mapping[str, Mapping[str, Callable[[Any], Any]]] = {
    "open": {
        "format": _format, "ledger": _line, "public_key": _line, "definition": read_definition, "cap": read_amount,
        "max_rho": _or_none(read_amount), "population": _or_none(_line), "states": _or_none(_states),
        "supersedes": _or_none(_object),
    },
    "charge": {
        "release_id": _line, "definition": read_definition, "unbounded": read_amount, "bounded": read_amount,
        "population": _or_none(_line), "states": _or_none(_states), "details": _object, "fingerprint": _or_none(_line),
    },
    "finish": {"release_id": _line, "files": _hashes},
    "amend": {"cap": _or_none(read_amount), "max_rho": _or_none(read_amount), **_BY},
    "import": {"unbounded": read_amount, "bounded": read_amount, **_BY},
    "note": {"by": _line, "text": _line},
    "supersede": _BY,
}  # fmt: skip
#: Fields of every entry: what wrote it, when, and who ran it on which machine.
COMMON = ("time", "version", "user", "host")


@dataclass(frozen=True)
class Entry:
    """One entry of any kind, with its fields (see `KINDS`)."""

    number: int
    kind: str
    time: str
    version: str
    user: str
    host: str
    hash: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Charge:
    """One charged release.

    Attributes:
        entry: The entry that charged it. `details` records how it was produced: config and settings.
        loss: Its loss, under its own privacy definition.
        charged: What was charged for it, under the ledger's definition.
        files: Name → SHA-256 of each file of the finished release; None if it was charged but not finished.
    """

    entry: Entry
    loss: Loss
    charged: Loss
    files: Mapping[str, str] | None

    @property
    def release_id(self) -> str:
        """The identifier of the release."""
        return str(self.entry.fields["release_id"])

    @property
    def details(self) -> Mapping[str, Any]:
        """How the release was produced."""
        details: Mapping[str, Any] = self.entry.fields["details"]
        return details

    @property
    def fingerprint(self) -> str | None:
        """The keyed fingerprint of its input."""
        fingerprint: str | None = self.entry.fields["fingerprint"]
        return fingerprint


@dataclass(frozen=True)
class Statement:
    """The contents of a ledger, read in one transaction: the opening entry, and all others in order."""

    opening: Entry
    entries: tuple[Entry, ...]

    @property
    def definition(self) -> Definition:
        """The privacy definition whose unit is charged."""
        definition: Definition = self.opening.fields["definition"]
        return definition

    @property
    def cap(self) -> Fraction:
        """The largest total unbounded loss that may be charged, as last amended."""
        return Fraction(self._latest("cap"))

    @property
    def max_rho(self) -> Fraction | None:
        """The largest loss of one release that the ledger allows, as last amended; None if it sets none."""
        limit: Fraction | None = self._latest("max_rho")
        return limit

    @property
    def population(self) -> str | None:
        """The population, as named when the ledger was created, or else by its first release."""
        named: str | None = self._named("population")
        return named

    @property
    def states(self) -> tuple[str, ...] | None:
        """The states of the population, as named when the ledger was created, or else by its first release."""
        states: tuple[str, ...] | None = self._named("states")
        return states

    @cached_property
    def charges(self) -> tuple[Charge, ...]:
        """All charged releases, oldest first."""
        finished = {e.fields["release_id"]: e.fields["files"] for e in self.of("finish")}
        return tuple(_charge(self.definition, entry, finished) for entry in self.of("charge"))

    @property
    def spent(self) -> Fraction:
        """The sum of all unbounded losses, imported ones included."""
        return sum((loss.unbounded for loss in self._losses()), Fraction(0))

    @property
    def spent_bounded(self) -> Fraction:
        """The sum of all bounded losses, imported ones included."""
        return sum((loss.bounded for loss in self._losses()), Fraction(0))

    @property
    def left(self) -> Fraction:
        """The unbounded loss that can still be charged."""
        return self.cap - self.spent

    @property
    def head(self) -> str:
        """The hash of the last entry."""
        return [self.opening, *self.entries][-1].hash

    def of(self, kind: str) -> list[Entry]:
        """All entries of one kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def _losses(self) -> list[Loss]:
        imported = [Loss(self.definition, e.fields["unbounded"], e.fields["bounded"]) for e in self.of("import")]
        return [*imported, *(charge.charged for charge in self.charges)]

    def _latest(self, name: str) -> Any:  # noqa: ANN401
        values = [entry.fields[name] for entry in (self.opening, *self.of("amend"))]
        return next((value for value in reversed(values) if value is not None), None)

    def _named(self, name: str) -> Any:  # noqa: ANN401
        values = [entry.fields[name] for entry in (self.opening, *self.of("charge"))]
        return next((value for value in values if value is not None), None)


def statement(rows: list[ChainRow]) -> Statement:
    """Parse all rows, or raise a `DamageError`."""
    try:
        opening, *entries = map(parse, rows)
        found = Statement(opening, tuple(entries))
        if opening.kind != "open" or found.of("open"):
            raise ValueError
        ids = [charge.release_id for charge in found.charges]
        finished = [entry.fields["release_id"] for entry in found.of("finish")]
        if len({*ids}) < len(ids) or len({*finished}) < len(finished) or not {*finished} <= {*ids}:
            raise ValueError
        return found
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DamageError("an entry can't be read") from None


def parse(row: ChainRow) -> Entry:
    """Parse one row."""
    body = json.loads(row.body)
    kind = KINDS[body["kind"]]
    fields = {name: read(body.pop(name)) for name, read in kind.items()}
    entry = Entry(row.number, body.pop("kind"), hash=row.hash, fields=fields, **{n: _line(body.pop(n)) for n in COMMON})
    _checked(body, not body)
    return entry


def _charge(definition: Definition, entry: Entry, finished: Mapping[str, Mapping[str, str]]) -> Charge:
    loss = Loss(*(entry.fields[name] for name in ("definition", "unbounded", "bounded")))
    charged = loss.as_zcdp() if definition == "zcdp" else loss
    _checked(charged, charged.definition == definition)
    return Charge(entry, loss, charged, finished.get(entry.fields["release_id"]))
