"""The files of a ledger: made whole or not at all, owner-only, and opened with every failure put in words."""

from __future__ import annotations

import errno
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

#: How long a command waits for another that holds the ledger.
BUSY_SECONDS = 30.0
_STEP_MS = 200
#: "PHSL": tells a ledger from any other SQLite file.
APPLICATION_ID = 0x5048534C
KEY_BYTES = 32
_OWNER_ONLY = 0o600


class LedgerError(PHSafeError):
    """A ledger that can't be used, or that refuses a charge."""


class DamageError(Exception):
    """Contents that a ledger can't have; `connection` names the file and makes it a `LedgerError`."""


def key_path(path: Path) -> Path:
    """Where a ledger's key lies: beside it."""
    return path.with_name(f"{path.name}.key")


def publish(path: Path, fill: Callable[[Path], None]) -> None:
    """Make a file under a temporary name with mode 0600, fill it, and give it its name if that is free.

    A link either takes the name or fails, so of two processes one wins, and nobody sees half a file.
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
        _sync_folder(path.parent)
    except (OSError, LedgerError) as error:
        # While the name is free, what was begun stays: the key beside it is then not a lost ledger's.
        if os.path.lexists(path):
            sweep(path)
            raise LedgerError(f"{path}: there is a file of this name already; a ledger is never replaced") from None
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(f"{path}: can't make the file: {error.strerror}") from None
    sweep(path)


def sweep(path: Path) -> None:
    """Remove what others, the dead and the late, have begun for a name that is taken: none of it can get it."""
    for begun in unfinished(path):
        begun.unlink(missing_ok=True)


def unfinished(path: Path) -> list[Path]:
    """What processes have begun for a name, with SQLite's journals."""
    name = re.compile(rf"{re.escape(f'.{path.name}.')}[0-9a-f]{{16}}\.new(-journal)?")
    try:
        return [begun for begun in path.parent.iterdir() if name.fullmatch(begun.name)]
    except OSError:  # a folder that can't be listed
        return []


def was_lost(path: Path) -> bool:
    """Whether a ledger that is not there has been there: it left its key, and nobody is making it now."""
    # In this order: a process that makes it now first begins it, then makes the key, then gives it its name.
    return os.path.lexists(key_path(path)) and not unfinished(path) and not os.path.lexists(path)


def load_key(path: Path) -> bytes:
    """The key beside a ledger: a plain file that nobody but its owner can read."""
    place = key_path(path)
    try:
        status = place.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise LedgerError(f"{place}: expected a plain file with the ledger's key, got something else")
        _only_name(place, status)
        if status.st_mode & 0o077:
            raise LedgerError(f"{place}: the key can be read or changed by others; chmod 600 it")
        key = bytes.fromhex(place.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise LedgerError(f"{place}: the ledger's key is missing; put it back beside the ledger") from None
    except OSError as error:
        raise LedgerError(f"{place}: can't read the ledger's key: {error.strerror}") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LedgerError(f"{place}: expected a ledger's key, got something else")
    return key


def load_or_make_key(path: Path) -> bytes:
    """The key beside a ledger, made if there is none: any random key is as good as another."""
    place = key_path(path)
    if not os.path.lexists(place):
        try:
            publish(place, lambda file: _write(file, secrets.token_hex(KEY_BYTES)))
        except LedgerError:
            if not os.path.lexists(place):
                raise
    return load_key(path)


@contextmanager
def connection(path: Path, *, new: bool = False) -> Iterator[sqlite3.Connection]:
    """An open ledger. Whatever goes wrong with the file comes out as one sentence."""
    if not new:
        _refuse_odd_file(path)
    mode = "rw" if os.access(path, os.W_OK) else "ro"
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as database:
            # EXTRA is FULL plus a sync of the folder: a charge that was confirmed survives a power cut.
            _patiently(database, "PRAGMA synchronous = EXTRA")
            database.execute("PRAGMA trusted_schema = OFF")
            if not new and _patiently(database, "PRAGMA application_id").fetchone() != (APPLICATION_ID,):
                raise LedgerError(f"{path}: expected a PHSafe ledger, got another file")
            yield database
    except sqlite3.Error as error:
        raise LedgerError(f"{path}: {_words(error)}") from None
    except UnicodeDecodeError:  # of SQLite's own message, which quotes the file
        raise LedgerError(f"{path}: the ledger is damaged") from None
    except DamageError as error:
        raise LedgerError(f"{path}: the ledger is damaged: {error}") from None


@contextmanager
def transaction(database: sqlite3.Connection, kind: str) -> Iterator[None]:
    """One transaction, committed at the end and rolled back on any error. IMMEDIATE lets in one writer at a time."""
    _patiently(database, f"BEGIN {kind}")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _patiently(database: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
    """Wait for another process in short steps: SQLite's own waiting can't be stopped with Ctrl-C."""
    deadline = time.monotonic() + BUSY_SECONDS
    database.execute(f"PRAGMA busy_timeout = {_STEP_MS}")
    try:
        while True:
            try:
                return database.execute(statement)
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
    finally:
        database.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def _refuse_odd_file(path: Path) -> None:
    """A link could be turned to another ledger, with a fresh budget, between two releases.

    Under two names a ledger has two journals, and SQLite can lose what one of them holds.
    """
    try:
        status = path.lstat()
        status = _only_name(path, status)
    except FileNotFoundError:
        raise LedgerError(f"{path}: there is no ledger here; phsafe ledger init makes one") from None
    except OSError as error:
        raise LedgerError(f"{path}: can't open the ledger: {error.strerror}") from None
    if stat.S_ISLNK(status.st_mode):
        raise LedgerError(f"{path}: expected the ledger itself, got a symbolic link to it")
    if not stat.S_ISREG(status.st_mode):
        raise LedgerError(f"{path}: expected a ledger, got something that is not a plain file")
    if status.st_nlink > 1:
        raise LedgerError(f"{path}: expected a ledger with one name, got a file with another hard link; remove it")


def _only_name(path: Path, status: os.stat_result) -> os.stat_result:
    """Take away the temporary name that a process killed at the end of `publish` left behind."""
    if status.st_nlink == 1:
        return status
    sweep(path)
    return path.lstat()


def _words(error: sqlite3.Error) -> str:
    message = str(error)
    known = {
        "locked": "another process holds the ledger; nothing was charged, try again",
        "readonly": "the ledger or its folder can't be written; nothing was charged",
        "full": "the disk is full; nothing was charged",
        "not a database": "expected a PHSafe ledger, got another file",
        "malformed": "the ledger is damaged",
        "no such": "the ledger is damaged",
        "decode": "the ledger is damaged",
    }
    return next((words for part, words in known.items() if part in message), f"can't use the ledger: {message}")


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (
            errno.EINVAL,
            errno.ENOTSUP,
        ):  # Some file systems can't flush a folder by itself.
            raise
    finally:
        os.close(descriptor)
