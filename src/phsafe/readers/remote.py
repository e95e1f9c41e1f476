"""A data folder that only the engine can see: the same forms as on this machine, found through the engine."""

from __future__ import annotations

from phsafe.errors import DataError
from phsafe.readers import delimited
from phsafe.readers.forms import check_one
from phsafe.readers.options import EngineTable, Storage, TableReader
from phsafe.schema import Layout


def read(folder: str, files: dict[str, int], layout: Layout, engine: TableReader, storage: Storage) -> EngineTable:
    """The one form in which a table stands among a folder's files."""
    form = check_one(folder, layout, {name.split("/")[0] for name in files})
    if form in files:
        if form.endswith(".parquet"):
            return engine.read_parquet([f"{folder}/{form}"])
        if form != layout.name:
            file = f"{folder}/{form}"
            header = delimited.header(file, storage.first_line(file))
            return engine.read_csv(file, header, gzip=form.endswith(".gz"))
    parts = sorted(n for n in files if n.startswith(f"{form}/") and n.count("/") == 1 and n.endswith(".parquet"))
    if not parts or not form.removesuffix(".parquet") == layout.name:
        raise DataError(f"{folder}/{form}: expected Parquet files in the folder, got none")
    return engine.read_parquet([f"{folder}/{part}" for part in parts])
