"""The files of a ledger: atomic, readable by their owner only, and opened with a clear message for every failure."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from phsafe.errors import PHSafeError
from phsafe.system.atomic_writes import flush

#: How long to wait for another process that has locked the ledger.
BUSY_SECONDS = 30.0
_RETRY_MS = 200
#: "PHSL", which distinguishes a ledger from any other SQLite file.
APPLICATION_ID = 0x5048534C
KEY_BYTES = 32
_OWNER_ONLY = 0o600


class LedgerError(PHSafeError):
    """The ledger can't be used, or it refuses a charge."""


class DamageError(Exception):
    """The ledger has invalid contents. `connection` turns this into a `LedgerError` that names the file."""


def key_path(path: Path) -> Path:
    """The path of a ledger's key, next to the ledger."""
    return path.with_name(f"{path.name}.key")


def create_atomically(path: Path, fill: Callable[[Path], None]) -> None:
    """Create a file with mode 0600 under a temporary name, fill it, then link it to its final name.

    Linking fails if the name is taken, so of two concurrent processes exactly one succeeds, and no process ever sees an
    incomplete file.

    Args:
        path: The final name.
        fill: Called with the temporary name; writes the contents.

    Raises:
        LedgerError: The name is taken, or the file can't be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY)
        try:
            os.fchmod(descriptor, _OWNER_ONLY)
        finally:
            os.close(descriptor)
        fill(temporary)
        os.link(temporary, path)
        flush(path.parent)
    except (OSError, LedgerError) as error:
        # Leave the temporary file while the name is free: it shows `is_lost` that the ledger was never completed.
        if os.path.lexists(path):
            remove_unfinished(path)
            raise LedgerError(f"{path}: the file already exists; a ledger is never replaced") from None
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(f"{path}: can't create the file: {error.strerror}") from None
    remove_unfinished(path)


def remove_unfinished(path: Path) -> None:
    """Remove temporary files left for a name that is taken: none of them can be completed any more."""
    for temporary in unfinished(path):
        temporary.unlink(missing_ok=True)


def unfinished(path: Path) -> list[Path]:
    """The temporary files for a name, left by any process, with SQLite's journals."""
    name = re.compile(rf"{re.escape(f'.{path.name}.')}[0-9a-f]{{16}}\.new(-journal)?")
    try:
        return [temporary for temporary in path.parent.iterdir() if name.fullmatch(temporary.name)]
    except OSError:  # a folder that can't be listed
        return []


def is_lost(path: Path) -> bool:
    """Whether a ledger existed once but is gone: its key exists, and no process is creating the ledger now."""
    # The order of the checks matters: a creating process makes the temporary file, then the key, then the final name.
    return os.path.lexists(key_path(path)) and not unfinished(path) and not os.path.lexists(path)


def load_key(path: Path) -> bytes:
    """Load the key of a ledger from a regular file that only its owner can read."""
    file = key_path(path)
    try:
        status = file.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{file}: expected a regular file with the ledger's key, got something else")
        _drop_temporary_name(file, status)
        if status.st_mode & 0o077:
            raise LedgerError(f"{file}: other users can read or change the key; run chmod 600 on it")
        key = bytes.fromhex(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise LedgerError(f"{file}: the ledger's key is missing; restore it next to the ledger") from None
    except OSError as error:
        raise LedgerError(f"{file}: can't read the ledger's key: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerError(f"{file}: expected a ledger's key, got something else")
    return key


def load_or_create_key(path: Path) -> bytes:
    """Load the key of a ledger, creating a random one if there is none."""
    file = key_path(path)
    if not os.path.lexists(file):
        try:
            create_atomically(file, lambda temporary: _write(temporary, secrets.token_hex(KEY_BYTES)))
        except LedgerError:
            if not os.path.lexists(file):
                raise
    return load_key(path)


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
        raise LedgerError(f"{path}: {_explain(error)}") from None
    except UnicodeDecodeError:  # in SQLite's own message, which quotes the file
        raise LedgerError(f"{path}: the ledger is damaged") from None
    except DamageError as error:
        raise LedgerError(f"{path}: the ledger is damaged: {error}") from None


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
        status = _drop_temporary_name(path, status)
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


def _drop_temporary_name(path: Path, status: os.stat_result) -> os.stat_result:
    """Remove the temporary name left by a process that was killed at the end of `create_atomically`."""
    if status.st_nlink == 1:
        return status
    remove_unfinished(path)
    return path.lstat()


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


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
