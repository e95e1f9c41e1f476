"""Scratch folders: locked while their process runs, and removed by the next run if the process was killed.

A process can't clean up after kill -9 or a power cut. So each scratch folder is locked with `flock`, which the system
releases when the process ends for any reason, and the next run that creates a folder with the same prefix in the same
parent removes all that are unlocked. Folders from other machines, and folders on file systems without locks (some
network file systems), are never removed, because there is no way to tell whether their process still runs.
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

#: The prefix of temporary folders.
TEMPORARY = "phsafe-temp-"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: Attempts to create a folder, because another process's sweep may remove it before it is locked.
_TRIES = 10


class ScratchFolder:
    """A folder with a unique name that only its owner can access, locked until `remove` or the end of the process."""

    def __init__(self, parent: Path, prefix: str, suffix: str = "") -> None:
        """Create and lock the folder; between `prefix` and `suffix` its name is random. Raises `OSError`."""
        for _ in range(_TRIES):
            path = parent / f"{prefix}{''.join(_machine_tags())}{secrets.token_hex(8)}{suffix}"
            path.mkdir(mode=0o700)
            # Until it is locked, another process's sweep may remove it as a leftover.
            try:
                descriptor = _open(path)
            except FileNotFoundError:
                continue
            if _lock(descriptor) is not False and _is_same(path, descriptor):
                os.fchmod(descriptor, 0o700)
                self.path = path
                self._descriptor: int | None = descriptor
                return
            os.close(descriptor)
        raise FileExistsError(None, "other processes keep removing this run's temporary folders", str(parent))

    def remove(self) -> None:
        """Remove the folder with its contents and release the lock; a folder that was renamed is kept."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def sweep(parent: Path, prefix: str, suffix: str = "") -> list[Path]:
    """Remove scratch folders whose process has ended; return those whose process still runs."""
    name = re.compile(rf"{re.escape(prefix)}([0-9a-f]{{8}})([0-9a-f]{{8}})[0-9a-f]{{16}}{re.escape(suffix)}")
    try:
        found = [(path, match) for path in parent.iterdir() if (match := name.fullmatch(path.name))]
    except OSError:
        return []
    return [path for path, match in found if _in_use(path, match.group(1), match.group(2))]


def temporary_folder(parent: Path | None) -> ScratchFolder:
    """Create a folder for data that don't fit in memory. First remove those of killed runs, which hold records."""
    try:
        folder = Path(tempfile.gettempdir()) if parent is None else parent
        sweep(folder, TEMPORARY)
        return ScratchFolder(folder, TEMPORARY)
    except OSError as error:
        raise PHSafeError(
            f"can't create a temporary folder in {parent or 'the default location'}: {error.strerror}; "
            "choose another location with --temp-dir"
        ) from None


def _in_use(path: Path, host: str, boot: str) -> bool:
    """Whether a process holds the folder; if none does and it was created on this machine, remove it."""
    try:
        descriptor = _open(path)
    except OSError:
        return False
    try:
        locked = _lock(descriptor)
        # Machines that share a file system may not see each other's locks.
        here = host == _machine_tags()[0] or boot == _machine_tags()[1]
        if locked and here and os.fstat(descriptor).st_uid == os.geteuid() and _is_same(path, descriptor):
            shutil.rmtree(path, ignore_errors=True)
        return locked is False
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _lock(descriptor: int) -> bool | None:
    """Whether this process now holds the folder's lock; None if the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_same(path: Path, descriptor: int) -> bool:
    """Whether the path still refers to the open folder."""
    try:
        named = path.lstat()
    except OSError:
        return False
    opened = os.fstat(descriptor)
    return stat.S_ISDIR(named.st_mode) and (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _machine_tags() -> tuple[str, str]:
    """Hashes of the host name, which survives restarts, and of the running kernel, which containers share."""
    try:
        boot = _BOOT.read_text()
    except OSError:
        boot = socket.gethostname()
    return _short(socket.gethostname()), _short(boot)


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
