"""The signed hash chain of a ledger: append-only SQLite rows, each hashed with its predecessor, and a signed head.

Anyone can recompute the hashes and, with the public key, verify the signatures; only the holder of the private key can
sign. A changed, missing, moved or added row has no valid signature. Rows cut off at the end no longer match the head.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from typing import Any, NamedTuple

from phsafe.privacy.ledger_file import APPLICATION_ID, DamageError, OldFormatError
from phsafe.privacy.ledger_keys import Signer, is_signed

_TABLES = {
    "entries": "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL, "
    "signature TEXT NOT NULL)",
    "head": "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), entries INTEGER NOT NULL, "
    "signature TEXT NOT NULL)",
}
#: Format 1 had no signatures, so that verifying it took its secret key.
_FORMAT_1 = "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)"
#: Protect against accidents. Anyone who drops them on purpose is still detected by the chain.
TRIGGERS = {
    f"no_{verb.lower()}_of_{table}": (
        f"CREATE TRIGGER no_{verb.lower()}_of_{table} BEFORE {verb} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    )
    for table, verb in (("entries", "UPDATE"), ("entries", "DELETE"), ("head", "DELETE"))
}
_SET_HEAD = """INSERT INTO head VALUES (1, ?, ?)
    ON CONFLICT (one) DO UPDATE SET entries = excluded.entries, signature = excluded.signature"""


class ChainRow(NamedTuple):
    """One row: its number from 0, its JSON text, the hash of both with the previous hash, and its signature."""

    number: int
    body: str
    hash: str
    signature: str


def start(database: sqlite3.Connection, signer: Signer, body: dict[str, Any]) -> None:
    """Create the tables and write the first row."""
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in (*_TABLES.values(), *TRIGGERS.values()):
        database.execute(statement)
    append(database, signer, None, body)


def append(database: sqlite3.Connection, signer: Signer, last: ChainRow | None, body: dict[str, Any]) -> ChainRow:
    """Append a signed row after `last` and update the head."""
    number, before = (0, "") if last is None else (last.number + 1, last.hash)
    encoded = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    message = _message(number, before, encoded)
    row = ChainRow(number, encoded, _hash(message), signer.sign(message))
    database.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", row)
    database.execute(_SET_HEAD, (number + 1, signer.sign(_head(number + 1, row.hash))))
    return row


def rows(database: sqlite3.Connection) -> list[ChainRow]:
    """All rows in order, without verifying the chain.

    The schema must be exactly that of a ledger: a view in place of a table could run arbitrary queries.
    """
    schema = _schema(database)
    if schema.get("entries") == _FORMAT_1:
        raise OldFormatError
    if {name: sql for name, sql in schema.items() if name not in TRIGGERS} != _TABLES:
        raise DamageError("its tables are not those of a ledger")
    found = database.execute("SELECT number, body, hash, signature FROM entries ORDER BY number").fetchall()
    if not found:
        raise DamageError("its first entry, with the cap, is missing")
    return [ChainRow(*row) for row in found]


def unsigned_rows(database: sqlite3.Connection) -> list[tuple[str, str]]:
    """The bodies and hashes of a ledger of any format, to sum up one that is superseded."""
    return database.execute("SELECT body, hash FROM entries ORDER BY number").fetchall()


def problems(database: sqlite3.Connection, public_key: str) -> list[str]:
    """Every problem with the chain, the signatures, the head and the triggers, as a sentence; empty if none."""
    if database.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
        raise DamageError("SQLite reports corrupt pages")
    chain = rows(database)
    broken = _first_break(chain, public_key)
    found = [broken] if broken else []
    head = database.execute("SELECT entries, signature FROM head").fetchone()
    if head is None:
        found.append("the head, which records the number of entries, is missing")
    elif head[0] != len(chain) or not is_signed(public_key, head[1], _head(len(chain), chain[-1].hash)):
        found.append("entries at the end were cut off or replaced, or the key belongs to another ledger")
    if _schema(database) != _TABLES | TRIGGERS:
        found.append("the triggers that keep the ledger append-only were removed or changed")
    return found


def _schema(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT name, sql FROM sqlite_master").fetchall())


def _first_break(chain: list[ChainRow], public_key: str) -> str | None:
    before = ""
    for expected, row in enumerate(chain):
        if row.number != expected:
            return f"entry {expected} is missing" if expected else "the first entry, with the cap, is missing"
        what = f"entry {row.number}" if row.number else "the cap or the privacy definition"
        message = _message(row.number, before, row.body)
        if row.hash != _hash(message):
            return f"{what} was changed or moved"
        if not is_signed(public_key, row.signature, message):
            return f"{what} is not signed with the ledger's key, or the public key is that of another ledger"
        before = row.hash
    return None


def _message(number: int, before: str, body: str) -> bytes:
    """What is hashed and signed: the number, the previous hash and the body."""
    return f"entry\n{number}\n{before}\n{body}".encode("utf-8", "surrogatepass")


def _head(entries: int, digest: str) -> bytes:
    return f"head\n{entries}\n{digest}".encode()


def _hash(message: bytes) -> str:
    return hashlib.sha256(message).hexdigest()
