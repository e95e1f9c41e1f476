"""Writing output folders whole or not at all, and the layout of the tables in them.

A folder is written under a temporary name beside its final one, flushed to disk, and renamed at the end; whoever
sees the final name sees everything. The layout is the production program's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from phsafe.errors import OutputError
from phsafe.spec import Catalog, Derived, Tabulation

SEPARATOR = "|"


def check_absent(out: Path) -> None:
    """Refuse an output that exists or can't be made, before any work is done."""
    if os.path.lexists(out):
        raise OutputError(
            f"{out}: expected a folder that doesn't exist yet; choose another name or remove it"
        )
    parent = out.absolute().parent
    if not parent.is_dir():
        raise OutputError(f"{out}: expected the folder {parent} to exist; make it first")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(
            f"{out}: can't write in the folder {parent}; choose another or change its permissions"
        )


@contextlib.contextmanager
def new_folder(out: Path, *, private: bool) -> Iterator[Path]:
    """A folder to fill, which gets its final name when the context ends well and vanishes when it doesn't.

    A private folder and its files are for the owner only, whatever the umask says.
    """
    check_absent(out)
    partial = out.absolute().parent / f".{out.name}.{uuid.uuid4().hex}.partial"
    try:
        partial.mkdir(mode=0o700)
        yield partial
        _settle(partial, private)
        check_absent(out)
        partial.rename(out)
        _flush(out.absolute().parent)
    except OSError as error:
        raise OutputError(
            f"{out}: can't write the folder: {error.strerror or error}; nothing was left there"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _settle(folder: Path, private: bool) -> None:
    """Set the modes and flush every file and folder to disk."""
    umask = os.umask(0)
    os.umask(umask)
    for path in sorted(folder.rglob("*"), reverse=True):
        mode = 0o777 if path.is_dir() else 0o666
        path.chmod(mode & (0o700 if private else ~umask))
        _flush(path)
    folder.chmod(0o700 if private else 0o777 & ~umask)
    _flush(folder)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
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
