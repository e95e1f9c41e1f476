"""Finished tables as SDMX-CSV 2.0: one file, and one dataflow, for each table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

#: The agency of the dataflows; their names are those of the tables.
AGENCY, DATAFLOW_VERSION = "PHSAFE", "1.0"
#: SDMX has a code of its own for a total, and doesn't allow the asterisk.
TOTAL_CODE = {"*": "_T"}
#: SDMX's observation status: normal, or of low reliability (the interval is wider than the estimate).
NORMAL_STATUS, LOW_RELIABILITY = "A", "U"


def write_sdmx(estimates: Estimates, folder: Path) -> None:
    """Write one SDMX-CSV file per table to a new folder."""
    folder.mkdir()
    for name, frame in estimates.tables.items():
        sdmx_frame(name, frame).write_csv(folder / f"{name}.csv")


def sdmx_frame(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a finished table with SDMX's columns: structure, dimensions, the observation and its attributes."""
    wide = pl.col("UPPER_90") - pl.col("LOWER_90") > pl.col("ESTIMATE")
    return frame.select(
        STRUCTURE=pl.lit("dataflow"),
        STRUCTURE_ID=pl.lit(f"{AGENCY}:{name}({DATAFLOW_VERSION})"),
        ACTION=pl.lit("I"),
        REGION_TYPE="REGION_TYPE",
        REF_AREA="REGION_ID",
        RACE_ETHNICITY=pl.col("ITERATION_CODE").replace(TOTAL_CODE),
        LINE="CELL",
        OBS_VALUE="ESTIMATE",
        LOWER_90="LOWER_90",
        UPPER_90="UPPER_90",
        STD_ERROR="STD_ERROR",
        OBS_STATUS=pl.when(wide).then(pl.lit(LOW_RELIABILITY)).otherwise(pl.lit(NORMAL_STATUS)),
    )
