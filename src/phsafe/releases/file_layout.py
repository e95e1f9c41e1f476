"""The layout of table files, for releases and for exact counts: that of the 2020 production program."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from phsafe.model.spec import Catalog, Derived, Tabulation

SEPARATOR = "|"


def table_path(output: Tabulation | Derived) -> Path:
    """Return the path of a tabulation's file within a folder, such as ``PH1_num/ph1_num.csv``."""
    return Path(output.name) / f"{output.name.lower()}.csv"


def cell_column(output: Tabulation | Derived) -> str:
    """Return the header of the cell column, such as ``PH1_NUM_DATA_CELL``."""
    return f"{output.name.upper()}_DATA_CELL"


def key_columns(catalog: Catalog, output: Tabulation | Derived) -> dict[str, str]:
    """Map the key columns of a file to their names in the grid; only tabulations that iterate have ITERATION_CODE."""
    columns = {"REGION_ID": "REGION_ID", "REGION_TYPE": "REGION_TYPE"}
    if catalog.measured(output).iterate_by is not None:
        columns["ITERATION_CODE"] = "ITERATION_CODE"
    return columns | {cell_column(output): "DATA_CELL"}


def write_table(folder: Path, catalog: Catalog, output: Tabulation | Derived, frame: pl.DataFrame) -> Path:
    """Write the rows of one tabulation in the production layout; return the path within the folder."""
    keys = key_columns(catalog, output)
    values = [name for name in frame.columns if name not in keys.values() and name != "ITERATION_CODE"]
    path = table_path(output)
    (folder / path).parent.mkdir()
    layout = frame.select(*(pl.col(name).alias(header) for header, name in keys.items()), *values)
    layout.write_csv(folder / path, separator=SEPARATOR)
    return path
