"""Atomic writes: an output gets its final name only when it is complete, and never replaces an existing one.

A folder or file is written under a temporary name next to its final one, flushed to disk, and renamed at the end.
Anything under the final name is therefore complete.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from phsafe.errors import OutputError
from phsafe.system.scratch import ScratchFolder, sweep

#: The suffix of an incomplete output.
PARTIAL = ".partial"


def check_new_folder(out: Path) -> None:
    """Refuse an output folder that exists or can't be created, before any work is done."""
    _check_new(out, "folder")


def check_new_file(out: Path) -> None:
    """Refuse an output file that exists or can't be created, before any work is done."""
    _check_new(out, "file")


def _check_new(out: Path, what: str) -> None:
    try:
        str(out.absolute()).encode()
    except UnicodeEncodeError:
        # Polars and Arrow only accept UTF-8 paths.
        raise OutputError(f"{str(out)!a}: expected a path in UTF-8, got other bytes") from None
    if os.path.lexists(out):
        raise OutputError(f"{out}: expected a {what} that doesn't exist yet; choose another name or remove it")
    parent = out.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"{out}: expected the folder {parent} to exist; create it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{out}: can't write in the folder {parent}; choose another or change its permissions")


def write_new_file(path: Path, content: bytes) -> None:
    """Write a new file atomically.

    Args:
        path: The file to create; it must not exist yet.
        content: The whole content.

    Raises:
        OutputError: The file exists or can't be written; nothing is left behind.

    """
    check_new_file(path)
    # Create an unpredictable name exclusively, so that no one can plant a link there.
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PARTIAL}")
    try:
        with partial.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(partial, path)
    except FileExistsError:
        check_new_file(path)
        raise
    except OSError as error:
        raise OutputError(f"{path}: can't write the file: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


class Draft:
    """A folder under a temporary name, to be filled and then renamed by `finish`."""

    def __init__(self, out: Path, scratch: ScratchFolder, private: bool) -> None:
        self.path = scratch.path
        self._out = out
        self._modes = (0o700, 0o600) if private else _usual_modes(scratch.path)

    def finish(self) -> None:
        """Set the modes, flush everything to disk, and rename the folder to its final name."""
        with _os_errors(self._out):
            _set_modes_and_flush(self.path, *self._modes)
            check_new_folder(self._out)
            self.path.rename(self._out)
        with _os_errors(self._out, "the folder is complete, but its name may not be on disk yet; check that it exists"):
            flush(self._out.absolute().parent)


@contextlib.contextmanager
def draft(out: Path, *, private: bool) -> Iterator[Draft]:
    """Open a folder to fill, which is removed at the end of the context unless it was finished.

    Only the owner can access a private folder and its files, regardless of the umask. Leftovers of killed runs for the
    same name are removed; if another run is still writing that name, this one is refused.
    """
    check_new_folder(out)
    parent, prefix = out.absolute().parent, f".{out.name}."
    with _os_errors(out):
        scratch = ScratchFolder(parent, prefix, PARTIAL)
    try:
        if set(sweep(parent, prefix, PARTIAL)) - {scratch.path}:
            raise OutputError(f"{out}: another run is writing this folder now; choose another name")
        with _os_errors(out):
            opened = Draft(out, scratch, private)
        yield opened
    finally:
        scratch.remove()


@contextlib.contextmanager
def new_folder(out: Path, *, private: bool) -> Iterator[Path]:
    """Open a folder to fill, which gets its final name if the context succeeds and is removed if it fails."""
    with draft(out, private=private) as opened:
        with _os_errors(out):
            yield opened.path
        opened.finish()


@contextlib.contextmanager
def _os_errors(out: Path, outcome: str = "nothing was left behind") -> Iterator[None]:
    """Turn an `OSError` into an `OutputError` that names the outcome."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{out}: can't write the folder: {error.strerror or error}; {outcome}") from None


def _usual_modes(folder: Path) -> tuple[int, int]:
    """The modes that the umask gives to new folders and files, by probing; reading the umask means changing it."""
    probe = folder / "probe"
    probe.mkdir(mode=0o777)
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.rmdir()
    return mode, mode & 0o666


def _set_modes_and_flush(folder: Path, folders: int, files: int) -> None:
    """Set the modes and flush every file and folder to disk."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        path.chmod(folders if path.is_dir() else files)
        flush(path)


def flush(path: Path) -> None:
    """Flush a file or folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems don't support flushing a folder; there is nothing more to do on them.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)
