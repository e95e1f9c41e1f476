"""Reading finished tables from a folder, and checking that they match a config."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.line_sums import table_levels
from phsafe.errors import OutputError, PHSafeError, Reasons
from phsafe.estimation.estimates import COLUMNS, STD_ERROR, VALUES, Estimates, Method
from phsafe.estimation.named_tables import NAMED_KEY
from phsafe.model.spec import Table
from phsafe.releases.file_layout import SEPARATOR
from phsafe.system.format_versions import ESTIMATES

DIAGNOSTICS = "diagnostics.json"
#: The diagnostics of a release are much smaller, so a larger file must be something else.
MAX_DIAGNOSTICS_BYTES = 10_000_000


def read(folder: Path, config: Config, release_id: str = "") -> Estimates:
    """Read finished tables that `phsafe estimate` wrote.

    Args:
        folder: The folder.
        config: The config of the release that they were estimated from.
        release_id: The id of this release, if known.

    Raises:
        PHSafeError: If they can't be read, or don't match the config or the release, with all problems found.
    """
    diagnostics = _diagnostics(folder / DIAGNOSTICS)
    made_from = str(diagnostics.get("release_id", ""))
    if made_from and release_id and made_from != release_id:
        raise OutputError(
            f"{folder}: expected tables estimated from release {release_id:.50}, got those of release {made_from:.50}"
        )
    reasons = Reasons()
    tables = {}
    for table in config.catalog.tables:
        if table_levels(config, table):
            frame = reasons.check(_table, folder, config, table)
            if frame is not None:
                tables[table.name] = frame
    reasons.settle()
    method: Method = diagnostics["method"]
    return Estimates(method, config, tables, diagnostics, made_from)


def table_file(folder: Path, name: str) -> Path:
    """The file of a table in a folder of finished tables: CSV if there is one, otherwise Parquet."""
    path = folder / f"{name}.csv"
    return path if path.exists() else path.with_suffix(".parquet")


def _diagnostics(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > MAX_DIAGNOSTICS_BYTES:
            raise OutputError(f"{path}: expected diagnostics, got a file of more than {MAX_DIAGNOSTICS_BYTES} bytes")
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise OutputError(
            f"{path.parent}: expected a folder of finished tables with a readable {DIAGNOSTICS}, got none"
        ) from None
    except (ValueError, RecursionError):
        raise OutputError(f"{path}: expected JSON, but it can't be parsed") from None
    diagnostics: dict[str, Any] = document if isinstance(document, dict) else {}
    ESTIMATES.check(path, diagnostics.pop("format", None))
    methods = get_args(Method)
    if diagnostics.get("method") not in methods:
        raise OutputError(f"{path}: expected one of {', '.join(methods)} as the method, got another or none")
    return diagnostics


def _table(folder: Path, config: Config, table: Table) -> pl.DataFrame:
    path = table_file(folder, table.name)
    value = pl.Int64 if table.average is None else pl.Float64
    texts = dict.fromkeys(("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "LABEL"), pl.String)
    types: dict[str, type[pl.DataType]] = {
        name: texts.get(name, pl.Int64 if name == "CELL" else pl.Float64 if name == STD_ERROR else value)
        for name in COLUMNS
    }
    try:
        if path.suffix == ".csv":
            frame = pl.read_csv(path, separator=SEPARATOR, schema=types, glob=False)
        else:
            frame = pl.read_parquet(path, glob=False).select(pl.col(name).cast(dtype) for name, dtype in types.items())
    except (OSError, pl.exceptions.PolarsError):
        raise OutputError(f"{path}: expected a finished table with {', '.join(COLUMNS)}, got something else") from None
    found = list(_problems(frame, config, table))
    if found:
        raise PHSafeError([f"{path}: {problem}" for problem in found])
    labels = {line.number: line.label for line in table.shell}
    return frame.with_columns(LABEL=pl.col("CELL").replace_strict(labels, return_dtype=pl.String))


def _problems(frame: pl.DataFrame, config: Config, table: Table) -> Iterator[str]:
    expected = {
        (level.geography.region_type, region, iteration.code, line.number)
        for level in table_levels(config, table)
        for region, iteration in level.groups(config.states)
        for line in table.shell
    }
    rows = frame.select(NAMED_KEY).rows()
    if len(rows) != len(expected) or set(rows) != expected:
        yield "its rows don't match the config of the release; is it from another release?"
        return
    values = pl.col(VALUES)
    if frame.select(pl.any_horizontal(values.is_null() | ~values.is_finite()).any()).item():
        yield "expected a number in every cell, but some have none"
        return
    inside = (pl.col("LOWER_90") <= pl.col("ESTIMATE")) & (pl.col("ESTIMATE") <= pl.col("UPPER_90"))
    outside = frame.select((~inside).sum()).item()
    if outside:
        yield f"expected every estimate inside its interval, got {outside} outside"
