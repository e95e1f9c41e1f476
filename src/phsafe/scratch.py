"""Folders that last as long as their process: locked while it lives, and removed by the next run if it was killed.

Nothing that runs after a kill -9 or a power cut is left to the one that died. Each scratch folder is locked with
`flock`, which the system lets go when its process ends, however it ends. Whoever makes the next folder of the same
kind in the same place removes those that nobody holds. Where there are no such locks (some network file systems), or
on another machine, nothing is removed, because nobody can tell the living from the dead.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from phsafe.errors import PHSafeError

#: How the names of temporary folders start.
TEMPORARY = "phsafe-temp-"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: How often a name is tried again; a sweep by another process can only take one that is not locked yet.
_TRIES = 10


class ScratchFolder:
    """A folder for the owner only, under a name that nobody else has, until `remove` or the end of the process."""

    def __init__(self, parent: Path, kind: str, ending: str = "") -> None:
        """Make it; `kind` and `ending` stand before and behind a random name. An `OSError` says why it can't be."""
        for _ in range(_TRIES):
            path = parent / f"{kind}{''.join(_places())}{secrets.token_hex(8)}{ending}"
            path.mkdir(mode=0o700)
            # Between making and locking, a sweep may take it for a dead one.
            try:
                descriptor = _open(path)
            except FileNotFoundError:
                continue
            if _lock(descriptor) is not False and _is(path, descriptor):
                os.fchmod(descriptor, 0o700)
                self.path = path
                self._descriptor: int | None = descriptor
                return
            os.close(descriptor)
        raise FileExistsError(None, "other processes remove what this one makes", str(parent))

    def remove(self) -> None:
        """Remove it and all that is in it, or let go of it where it has a name of its own by now."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def sweep(parent: Path, kind: str, ending: str = "") -> list[Path]:
    """Remove the folders of that kind whose processes are dead; returns those whose processes are alive."""
    name = re.compile(rf"{re.escape(kind)}([0-9a-f]{{8}})([0-9a-f]{{8}})[0-9a-f]{{16}}{re.escape(ending)}")
    try:
        found = [(path, match) for path in parent.iterdir() if (match := name.fullmatch(path.name))]
    except OSError:
        return []
    return [path for path, match in found if _alive(path, match.group(1), match.group(2))]


def temporary_folder(parent: Path | None) -> ScratchFolder:
    """A folder for what does not fit in memory; those of killed runs go first, because records lie in them."""
    try:
        place = Path(tempfile.gettempdir()) if parent is None else parent
        sweep(place, TEMPORARY)
        return ScratchFolder(place, TEMPORARY)
    except OSError as error:
        raise PHSafeError(
            f"can't make a temporary folder in {parent or 'the usual places'}: {error.strerror}; "
            "name another one with --temp-dir"
        ) from None


def _alive(path: Path, host: str, boot: str) -> bool:
    """Whether a process holds the folder. One that nobody holds is removed, if it was made on this machine."""
    try:
        descriptor = _open(path)
    except OSError:
        return False
    try:
        held = _lock(descriptor)
        # Machines that share a file system may not see each other's locks.
        here = host == _places()[0] or boot == _places()[1]
        if held and here and os.fstat(descriptor).st_uid == os.geteuid() and _is(path, descriptor):
            shutil.rmtree(path, ignore_errors=True)
        return held is False
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _lock(descriptor: int) -> bool | None:
    """Whether this process holds the folder now; None where there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is(path: Path, descriptor: int) -> bool:
    """Whether the name still means the open folder."""
    try:
        named = path.lstat()
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return stat.S_ISDIR(named.st_mode) and (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _places() -> tuple[str, str]:
    """This machine by its name, and by its running kernel: containers share the second, restarts the first."""
    try:
        boot = _BOOT.read_text()
    except OSError:
        boot = socket.gethostname()
    return _short(socket.gethostname()), _short(boot)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
