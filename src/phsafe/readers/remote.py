"""Reads a data folder that only the engine can access (hdfs, s3a); it has the same forms as a local one."""

from __future__ import annotations

from phsafe.errors import DataError
from phsafe.model.schema import Layout
from phsafe.readers import delimited
from phsafe.readers.file_formats import parquet_parts, single_form
from phsafe.readers.interfaces import EngineTable, Storage, TableReader


def read(folder: str, files: dict[str, int], layout: Layout, engine: TableReader, storage: Storage) -> EngineTable:
    """Read a table in the one form in which the folder has it."""
    form = single_form(folder, layout, {name.split("/")[0] for name in files})
    if form in files:
        if form.endswith(".parquet"):
            return engine.read_parquet([f"{folder}/{form}"])
        if form != layout.name:
            file = f"{folder}/{form}"
            header = delimited.header(file, storage.first_line(file))
            return engine.read_csv(file, header, gzip=form.endswith(".gz"))
    if form.removesuffix(".parquet") != layout.name:
        raise DataError(f"{folder}/{form}: expected a CSV file, got a folder")
    names = [name.removeprefix(f"{form}/") for name in files if name.startswith(f"{form}/")]
    return engine.read_parquet([f"{folder}/{form}/{part}" for part in parquet_parts(f"{folder}/{form}", names)])
