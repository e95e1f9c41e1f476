"""`phsafe tabulate`: exact counts as a frame or a folder. Not private, and loud about it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from phsafe.config import Config
from phsafe.engine import EngineOptions, open_engine
from phsafe.files import check_absent, new_folder, write_table
from phsafe.grid import Counts, output_frame
from phsafe.source import DataSource, load
from phsafe.tabulation.run import Progress, tabulate_tables

NOT_PRIVATE = (
    "NOT PRIVATE: these are exact counts of confidential records, without noise. "
    "Do not publish them and do not share them with anyone who may not see the records.\n"
)


def exact_counts(
    config: Config,
    data: DataSource,
    *,
    truncate: bool = True,
    options: EngineOptions | None = None,
    progress: Progress | None = None,
) -> Counts:
    """The exact counts of every measurement of a config. Not private."""
    with open_engine(options) as engine:
        return tabulate_tables(
            load(data, engine), config, engine, truncate=truncate, progress=progress
        ).counts()


def tidy(config: Config, counts: Counts) -> pl.DataFrame:
    """All outputs in one frame: TABULATION, REGION_TYPE, REGION_ID, ITERATION_CODE, DATA_CELL, COUNT."""
    frames = [
        output_frame(config, output, counts).select(
            pl.lit(output.name).alias("TABULATION"),
            "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL", "COUNT",
        )
        for output, _ in config.outputs()
    ]  # fmt: skip
    return pl.concat(frames) if frames else pl.DataFrame()


def write_counts(config: Config, counts: Counts, out: Path) -> None:
    """A folder in the release's layout with the columns up to COUNT, marked NOT_PRIVATE, for the owner only."""
    check_absent(out)
    with new_folder(out, private=True) as folder:
        (folder / "NOT_PRIVATE").write_text(NOT_PRIVATE)
        for output, _ in config.outputs():
            write_table(folder, config.catalog, output, output_frame(config, output, counts))
