"""The hash chain of a ledger: append-only rows, each hashed together with its predecessor, and a keyed head.

Anyone can recompute the chain, but only the holder of the key can compute a head. A changed, missing or moved row
breaks the chain; if rows are cut off at the end, or the chain is recomputed, it no longer matches the head.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from typing import Any, NamedTuple

from phsafe.privacy.ledger_file import APPLICATION_ID, DamageError

_TABLES = {
    "entries": "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL)",
    "head": "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), entries INTEGER NOT NULL, mac TEXT NOT NULL)",
}
#: Protect against accidents. Anyone who drops them on purpose is still detected by the chain.
TRIGGERS = {
    f"no_{verb.lower()}_of_{table}": (
        f"CREATE TRIGGER no_{verb.lower()}_of_{table} BEFORE {verb} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"
    )
    for table, verb in (("entries", "UPDATE"), ("entries", "DELETE"), ("head", "DELETE"))
}
_SET_HEAD = """INSERT INTO head VALUES (1, ?, ?)
    ON CONFLICT (one) DO UPDATE SET entries = excluded.entries, mac = excluded.mac"""


class ChainRow(NamedTuple):
    """One row: its number from 0, its JSON text, and the hash of both together with the previous hash."""

    number: int
    body: str
    hash: str


def start(database: sqlite3.Connection, key: bytes, body: dict[str, Any]) -> None:
    """Create the tables and write the first row."""
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in (*_TABLES.values(), *TRIGGERS.values()):
        database.execute(statement)
    append(database, key, None, body)


def append(database: sqlite3.Connection, key: bytes, last: ChainRow | None, body: dict[str, Any]) -> ChainRow:
    """Append a row after `last` and update the head."""
    number, before = (0, "") if last is None else (last.number + 1, last.hash)
    encoded = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    row = ChainRow(number, encoded, _hash(number, before, encoded))
    database.execute("INSERT INTO entries VALUES (?, ?, ?)", row)
    database.execute(_SET_HEAD, (number + 1, _mac(key, number + 1, row.hash)))
    return row


def rows(database: sqlite3.Connection) -> list[ChainRow]:
    """All rows in order, without verifying the chain.

    The schema must be exactly that of a ledger: a view in place of a table could run arbitrary queries.
    """
    if {name: sql for name, sql in _schema(database).items() if name not in TRIGGERS} != _TABLES:
        raise DamageError("its tables are not those of a ledger")
    found = database.execute("SELECT number, body, hash FROM entries ORDER BY number").fetchall()
    if not found:
        raise DamageError("its first entry, with the cap, is missing")
    return [ChainRow(*row) for row in found]


def problems(database: sqlite3.Connection, key: bytes) -> list[str]:
    """Every problem with the chain, the head and the triggers, as a sentence; empty if there is none."""
    if database.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
        raise DamageError("SQLite reports corrupt pages")
    chain = rows(database)
    broken = _first_break(chain)
    found = [broken] if broken else []
    head = database.execute("SELECT entries, mac FROM head").fetchone()
    if head is None:
        found.append("the head, which records the number of entries, is missing")
    elif str(head[1]) != _mac(key, len(chain), chain[-1].hash) or head[0] != len(chain):
        found.append("entries at the end were cut off or replaced, or the key belongs to another ledger")
    if _schema(database) != _TABLES | TRIGGERS:
        found.append("the triggers that keep the ledger append-only were removed or changed")
    return found


def _schema(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT name, sql FROM sqlite_master").fetchall())


def _first_break(chain: list[ChainRow]) -> str | None:
    before = ""
    for expected, row in enumerate(chain):
        if row.number != expected:
            return f"entry {expected} is missing" if expected else "the first entry, with the cap, is missing"
        if row.hash != _hash(row.number, before, row.body):
            what = f"entry {row.number}" if row.number else "the cap or the privacy definition"
            return f"{what} was changed or moved"
        before = row.hash
    return None


def _hash(number: int, before: str, body: str) -> str:
    return hashlib.sha256(f"{number}\n{before}\n{body}".encode("utf-8", "surrogatepass")).hexdigest()


def _mac(key: bytes, entries: int, digest: str) -> str:
    return hmac.new(key, f"head\n{entries}\n{digest}".encode(), hashlib.sha256).hexdigest()
