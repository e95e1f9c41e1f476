"""The files of one table of a Census Edited File: file names, globs such as ``units-*.txt``, and folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from phsafe.readers.file_formats import HIDDEN, MARKER
from phsafe.readers.interfaces import UNKNOWN, Location, Storage

NOT_A_FILE = "expected only data files in the folder; rename it, move it elsewhere, or name the files one by one"
NOT_MATCHED = (
    "expected no name that differs from the glob only in case, or that begins with _ or a dot; "
    "rename it, or move it elsewhere"
)


def expanded(named: Sequence[Location], storage: Storage | None, problems: list[str]) -> tuple[Location, ...]:
    """Replace globs and folders by the files in them, and report those that can't be used.

    Args:
        named: Paths or addresses. A glob may be in the last part of a path; a folder ends in a slash, or exists on this
            machine.
        storage: Access to files that only the engine sees; None to look for them on this machine.
        problems: Where to add problems.

    """
    found: list[Location] = []
    for one in named:
        folder, _, pattern = os.fspath(one).rstrip("/").rpartition("/")
        is_address = "://" in os.fspath(one)
        if os.fspath(one).endswith("/") or (not is_address and Path(one).is_dir()):
            folder, pattern = os.fspath(one).rstrip("/"), ""
        elif not any(letter in pattern for letter in "*?["):
            found.append(one)
            continue
        if is_address and storage is None:
            problems.append(f"{one}: only Spark can read this URI; add --engine spark")
            continue
        names = _names(folder, storage)
        chosen = _matching(folder, pattern, names, problems) if pattern else _all(folder, names, problems)
        if not chosen:
            problems.append(f"{one}: expected at least one data file, got none")
        found += [f"{folder}/{name}" if is_address else Path(folder) / name for name in chosen]
    twice = [file for file, times in Counter(os.fspath(one) for one in found).items() if times > 1]
    if len({*named}) == len(named):  # Otherwise the repeated name has been reported.
        problems += [f"{file}: expected every file once, got it more than once" for file in twice]
    return tuple(found)


def _names(folder: str, storage: Storage | None) -> list[str]:
    """The names in a folder, or the paths below it, in order."""
    if storage is None:
        return sorted(path.name for path in Path(folder).iterdir()) if Path(folder).is_dir() else []
    address = storage.address(folder)
    files = storage.files(address)
    hidden = storage.hidden(address, max((name.count("/") for name in files), default=0))
    return sorted({*files, *hidden})


def _matching(folder: str, pattern: str, names: Sequence[str], problems: list[str]) -> list[str]:
    """The names that a glob matches. Hidden names, and names that it matches but for their case, are refused."""
    chosen = []
    for name in names:
        if fnmatchcase(name, pattern) and not HIDDEN.fullmatch(name) and "/" not in name:
            chosen.append(name)
        elif name.endswith(UNKNOWN) or (fnmatchcase(name.lower(), pattern.lower()) and "/" not in name):
            problems.append(f"{folder}/{name}: {NOT_MATCHED}")
    return chosen


def _all(folder: str, names: Sequence[str], problems: list[str]) -> list[str]:
    """All files in a folder, except markers of writers. Anything else in it is refused."""
    chosen = [name for name in names if not MARKER.fullmatch(name)]
    for name in chosen:
        if "/" in name or HIDDEN.fullmatch(name) or name.endswith(UNKNOWN) or (Path(folder) / name).is_dir():
            problems.append(f"{folder}/{name}: {NOT_A_FILE}")
    return chosen
