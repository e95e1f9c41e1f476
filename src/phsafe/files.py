"""Writing output folders whole or not at all, and the layout of the tables in them.

A folder is written under a temporary name beside its final one, flushed to disk, and renamed at the end; whoever
sees the final name sees everything. The layout is the production program's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from phsafe.errors import OutputError
from phsafe.scratch import ScratchFolder, sweep
from phsafe.spec import Catalog, Derived, Tabulation

SEPARATOR = "|"
#: The ending of a folder that has no name yet.
PARTIAL = ".partial"


def check_absent(out: Path) -> None:
    """Refuse an output that exists or can't be made, before any work is done."""
    try:
        str(out.absolute()).encode()
    except UnicodeEncodeError:
        # Polars and Arrow take paths as UTF-8.
        raise OutputError(f"{str(out)!a}: expected a path in UTF-8, got other bytes") from None
    if os.path.lexists(out):
        raise OutputError(f"{out}: expected a folder that doesn't exist yet; choose another name or remove it")
    parent = out.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"{out}: expected the folder {parent} to exist; make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(f"{out}: can't write in the folder {parent}; choose another or change its permissions")


class Draft:
    """A folder to fill under a temporary name, which `finish` turns into the final one."""

    def __init__(self, out: Path, scratch: ScratchFolder, private: bool) -> None:
        self.path = scratch.path
        self._out = out
        self._modes = (0o700, 0o600) if private else _usual_modes(scratch.path)

    def finish(self) -> None:
        """Set the modes, flush everything to disk, and give the folder its name."""
        with _in_words(self._out):
            _settle(self.path, *self._modes)
            check_absent(self._out)
            self.path.rename(self._out)
        with _in_words(self._out, "the folder is whole, but the disk didn't confirm its name; look at it again"):
            _flush(self._out.absolute().parent)


@contextlib.contextmanager
def draft(out: Path, *, private: bool) -> Iterator[Draft]:
    """A folder to fill; it vanishes when the context ends unless it was finished.

    A private folder and its files are for the owner only, whatever the umask says. What a killed run left for the
    same name is removed; while another run is at work on that name, this one is refused.
    """
    check_absent(out)
    parent, kind = out.absolute().parent, f".{out.name}."
    with _in_words(out):
        scratch = ScratchFolder(parent, kind, PARTIAL)
    try:
        if set(sweep(parent, kind, PARTIAL)) - {scratch.path}:
            raise OutputError(f"{out}: another run is writing this folder now; choose another name")
        with _in_words(out):
            made = Draft(out, scratch, private)
        yield made
    finally:
        scratch.remove()


@contextlib.contextmanager
def new_folder(out: Path, *, private: bool) -> Iterator[Path]:
    """A folder to fill, which gets its final name when the context ends well and vanishes when it doesn't."""
    with draft(out, private=private) as made:
        with _in_words(out):
            yield made.path
        made.finish()


@contextlib.contextmanager
def _in_words(out: Path, outcome: str = "nothing was left there") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{out}: can't write the folder: {error.strerror or error}; {outcome}") from None


def _usual_modes(folder: Path) -> tuple[int, int]:
    """The modes that the umask gives to new folders and files; asking for the umask would change it for a moment."""
    probe = folder / "probe"
    probe.mkdir(mode=0o777)
    mode = stat.S_IMODE(probe.stat().st_mode)
    probe.rmdir()
    return mode, mode & 0o666


def _settle(folder: Path, folders: int, files: int) -> None:
    """Set the modes and flush every file and folder to disk."""
    for path in [*sorted(folder.rglob("*"), reverse=True), folder]:
        path.chmod(folders if path.is_dir() else files)
        _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems can't flush a folder by itself, and say so; what they do flush is as good as they give.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def table_path(output: Tabulation | Derived) -> Path:
    """Where a tabulation's file stands in a folder: ``PH1_num/ph1_num.csv``."""
    return Path(output.name) / f"{output.name.lower()}.csv"


def cell_column(output: Tabulation | Derived) -> str:
    """The header of the cell column: ``PH1_NUM_DATA_CELL``."""
    return f"{output.name.upper()}_DATA_CELL"


def key_columns(catalog: Catalog, output: Tabulation | Derived) -> dict[str, str]:
    """The key columns of a file → their names in a grid. A tabulation that doesn't iterate has no iteration."""
    columns = {"REGION_ID": "REGION_ID", "REGION_TYPE": "REGION_TYPE"}
    if catalog.measured(output).iterate_by is not None:
        columns["ITERATION_CODE"] = "ITERATION_CODE"
    return columns | {cell_column(output): "DATA_CELL"}


def write_table(folder: Path, catalog: Catalog, output: Tabulation | Derived, frame: pl.DataFrame) -> Path:
    """Write one tabulation's rows in the production layout; returns the path in the folder."""
    keys = key_columns(catalog, output)
    values = [name for name in frame.columns if name not in keys.values() and name != "ITERATION_CODE"]
    path = table_path(output)
    (folder / path).parent.mkdir()
    layout = frame.select(*(pl.col(name).alias(header) for header, name in keys.items()), *values)
    layout.write_csv(folder / path, separator=SEPARATOR)
    return path
