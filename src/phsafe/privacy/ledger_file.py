"""The SQLite file of a ledger: made atomically, for its owner alone, locked while written; a busy one is waited for."""

from __future__ import annotations

import itertools
import os
import re
import secrets
import shlex
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from phsafe.errors import PHSafeError
from phsafe.system.atomic_writes import flush

#: How long to wait for another process that has locked the ledger.
BUSY_SECONDS = 30.0
_RETRY_MS = 200
#: "PHSL", which distinguishes a ledger from any other SQLite file.
APPLICATION_ID = 0x5048534C
_OWNER_ONLY = 0o600


#: An open ledger.
Database = sqlite3.Connection


class LedgerError(PHSafeError):
    """The ledger can't be used, or it refuses a charge."""


class BusyError(LedgerError):
    """The ledger is intact, but can't be written now: it is locked or read-only, or the disk is full."""


class DamageError(Exception):
    """The ledger has invalid contents. `connection` turns this into a `LedgerError` that names the file."""


class OldFormatError(Exception):
    """The ledger is of format 1. `connection` turns this into a `LedgerError` that says how to go on."""


def key_path(path: Path) -> Path:
    """The path of a ledger's private key, next to the ledger."""
    return path.with_name(f"{path.name}.key")


def public_path(path: Path) -> Path:
    """The path of a ledger's public key, next to the ledger."""
    return path.with_name(f"{path.name}.pub")


def journal_path(path: Path) -> Path:
    """The path of SQLite's journal, which a killed process leaves behind."""
    return path.with_name(f"{path.name}-journal")


#: The files of a ledger, by its path, in the order in which they are renamed.
_PARTS: tuple[Callable[[Path], Path], ...] = (key_path, public_path, Path, journal_path)


def exists(path: Path) -> bool:
    """Whether anything has this name, be it a broken link."""
    return os.path.lexists(path)


def create_atomically(path: Path, fill: Callable[[Path], None], mode: int = _OWNER_ONLY) -> None:
    """Create a file under a temporary name, fill it, then link it to its final name.

    Linking fails if the name is taken, so of two concurrent processes exactly one succeeds, and no process ever sees an
    incomplete file.

    Args:
        path: The final name.
        fill: Called with the temporary name; writes the contents.
        mode: The file's mode, regardless of the umask.

    Raises:
        LedgerError: The name is taken, or the file can't be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
        fill(temporary)
        os.link(temporary, path)
        flush(path.parent)
    except (OSError, LedgerError) as error:
        # Leave the temporary file while the name is free: it shows `traces` that the ledger was never completed.
        if exists(path):
            remove_unfinished(path)
            raise LedgerError(f"{path}: the file already exists; a ledger is never replaced") from None
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(f"{path}: can't create the file: {error.strerror}") from None
    remove_unfinished(path)


def remove_unfinished(path: Path) -> None:
    """Remove temporary files left for a name that is taken: none of them can be completed any more."""
    for temporary in unfinished(path):
        with suppress(OSError):  # A reader may not be allowed to.
            temporary.unlink(missing_ok=True)


def remove_unfinished_beside(path: Path) -> None:
    """Remove temporary files left by a process that was killed while it created an existing ledger or its keys."""
    for file in (path, key_path(path), public_path(path)):
        if exists(file):
            remove_unfinished(file)


def unfinished(path: Path) -> list[Path]:
    """The temporary files for a name, left by any process, with SQLite's journals."""
    name = re.compile(rf"{re.escape(f'.{path.name}.')}[0-9a-f]{{16}}\.new(-journal)?")
    try:
        return [temporary for temporary in path.parent.iterdir() if name.fullmatch(temporary.name)]
    except OSError:  # a folder that can't be listed
        return []


def traces(path: Path) -> list[Path]:
    """What shows that a ledger was here before: keys (unless it was never completed), a journal, superseded ledgers."""
    # The order of the checks matters: a creating process makes the temporary file, then the keys, then the final name.
    keys = [file for file in (key_path(path), public_path(path)) if exists(file)]
    # SQLite would apply an old journal to a new ledger.
    journals = [file for file in (journal_path(path),) if exists(file)]
    is_unfinished = bool(unfinished(path))
    if exists(path):
        return superseded(path)
    return [*([] if is_unfinished else keys), *journals, *superseded(path)]


def lost(path: Path) -> str:
    """Explain why a path where a ledger was gets no new one."""
    return (
        f"{path}: the ledger that was here was moved or deleted; restore it (to start over with a new budget, use "
        f"phsafe ledger init {shlex.quote(str(path))} --cap RHO --supersede --reason TEXT)"
    )


def superseded(path: Path) -> list[Path]:
    """The ledgers that were superseded at this path, oldest first; a number without a file was lost before."""
    numbered = (_superseded_name(path, number) for number in itertools.count(1))
    return list(itertools.takewhile(lambda old: any(exists(file(old)) for file in _PARTS), numbered))


def set_aside(path: Path) -> Path:
    """Rename a ledger, its keys and its journal to the next free superseded name, and return that name.

    If this is cut short, the rest follows when it is repeated: the ledger comes after the keys, its journal last.
    """
    there = [file for file in _PARTS if exists(file(path))]
    if not there:
        return superseded(path)[-1]
    numbered = (_superseded_name(path, number) for number in itertools.count(1))
    free = next(old for old in numbered if not any(exists(file(old)) for file in there))
    try:
        for file in there:
            file(path).rename(file(free))
        flush(path.absolute().parent)
        return free
    except OSError as error:
        raise LedgerError(f"{path}: can't rename the ledger that was here: {error.strerror}") from None


def _superseded_name(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.superseded-{number}")


@contextmanager
def connection(path: Path, *, new: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a ledger. Every failure is reported as a `LedgerError` of one sentence.

    Args:
        path: The ledger file.
        new: Whether the file is still empty, so that nothing about it is checked yet.
    """
    if not new:
        _require_regular_file(path)
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
            # EXTRA is FULL plus a sync of the folder, so a confirmed charge survives a power failure.
            _execute_with_retries(database, "PRAGMA synchronous = EXTRA")
            database.execute("PRAGMA trusted_schema = OFF")
            if not new and _execute_with_retries(database, "PRAGMA application_id").fetchone() != (APPLICATION_ID,):
                raise LedgerError(f"{path}: expected a PHSafe ledger, got another file")
            yield database
    except sqlite3.Error as error:
        busy = any(word in str(error) for word in BUSY)
        raise (BusyError if busy else LedgerError)(f"{path}: {_explain(error)}") from None
    except UnicodeDecodeError:  # in SQLite's own message, which quotes the file
        raise LedgerError(f"{path}: the ledger is damaged") from None
    except DamageError as error:
        raise LedgerError(f"{path}: the ledger is damaged: {error}") from None
    except OldFormatError:
        raise LedgerError(
            f"{path}: expected a ledger of format 2, got format 1, whose entries are not signed; start a signed one "
            f"with phsafe ledger init {shlex.quote(str(path))} --cap RHO --supersede --reason TEXT, which keeps this "
            "file and shows how to carry its spending over"
        ) from None


@contextmanager
def transaction(database: sqlite3.Connection, kind: str) -> Iterator[None]:
    """Run one transaction: committed at the end, rolled back on any error.

    Args:
        database: An open ledger.
        kind: SQLite's transaction type: DEFERRED to read, IMMEDIATE to be the only writer.
    """
    _execute_with_retries(database, f"BEGIN {kind}")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _execute_with_retries(database: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Execute a statement, retrying while the ledger is locked: SQLite's own wait can't be interrupted with Ctrl-C."""
    deadline = time.monotonic() + BUSY_SECONDS
    database.execute(f"PRAGMA busy_timeout = {_RETRY_MS}")
    try:
        while True:
            try:
                return database.execute(statement)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
    finally:
        database.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def _require_regular_file(path: Path) -> None:
    """Refuse anything but a regular file with a single name.

    A symbolic link could be redirected between two releases to another ledger with a new budget. Under two names a
    ledger has two journals, and SQLite can lose the transactions in one of them.
    """
    try:
        status = path.lstat()
        status = keep_one_name(path, status)
    except FileNotFoundError:
        raise LedgerError(
            f"{path}: there is no ledger at this path; correct the path, or create a ledger with phsafe ledger init"
        ) from None
    except OSError as error:
        raise LedgerError(f"{path}: can't open the ledger: {error.strerror}") from None
    if stat.S_ISLNK(status.st_mode):
        raise LedgerError(f"{path}: expected the ledger itself, got a symbolic link to it")
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"{path}: expected a ledger, got something that is not a regular file")
    if status.st_nlink > 1:
        raise LedgerError(f"{path}: expected a ledger with one name, got a second hard link to it; remove that link")


def keep_one_name(path: Path, status: os.stat_result) -> os.stat_result:
    """Remove the temporary name left by a process that was killed at the end of `create_atomically`."""
    if status.st_nlink == 1:
        return status
    remove_unfinished(path)
    return path.lstat()


#: Words in SQLite's messages about a ledger that is intact.
BUSY = ("locked", "readonly", "full")


def _explain(error: sqlite3.Error) -> str:
    message = str(error)
    known = {
        "locked": "another process has locked the ledger; nothing was charged, try again",
        "readonly": "the ledger or its folder is not writable; nothing was charged",
        "full": "the disk is full; nothing was charged",
        "not a database": "expected a PHSafe ledger, got another file",
        "malformed": "the ledger is damaged",
        "no such": "the ledger is damaged",
        "decode": "the ledger is damaged",
    }
    return next((text for part, text in known.items() if part in message), f"can't use the ledger: {message}")


def write(file: Path, text: str) -> None:
    """Write a small text and flush it to disk."""
    with file.open("w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
