"""The commands as Python calls. Each takes what its command takes, or objects in place of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from phsafe.config import Config
from phsafe.engine import EngineOptions
from phsafe.source import DataSource
from phsafe.spec import Catalog
from phsafe.tables import CENSUS_2020
from phsafe.tabulation import Progress, exact_counts, tidy

ConfigSource = str | Path | Mapping[str, Any] | Config


def tabulate(
    config: ConfigSource,
    data: DataSource,
    *,
    truncate: bool = True,
    catalog: Catalog = CENSUS_2020,
    options: EngineOptions | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Exact counts on the full grid, zeros included, in one tidy frame. NOT PRIVATE.

    `data` is a folder, or frames named persons, units and geo. A `catalog` brings your own tables and levels.

    >>> counts = tabulate("examples/us.json", "tests/data/small")
    >>> counts.filter(TABULATION="PH1_denom", REGION_TYPE="USA", ITERATION_CODE="*")["COUNT"].item()
    329
    """
    loaded = Config.load(config, catalog)
    return tidy(loaded, exact_counts(loaded, data, truncate=truncate, options=options, progress=progress))
