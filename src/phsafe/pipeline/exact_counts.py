"""Exact counts as a frame or a folder. Not private, and marked so."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.grid import Counts, output_frame
from phsafe.releases.file_layout import write_table
from phsafe.system.atomic_writes import check_new_folder, new_folder

NOT_PRIVATE = (
    "NOT PRIVATE: these are exact counts of confidential records, without noise. "
    "Do not publish them and do not share them with anyone who may not see the records.\n"
)


def tidy(config: Config, counts: Counts) -> pl.DataFrame:
    """Return all counts in one frame: TABULATION, REGION_TYPE, REGION_ID, ITERATION_CODE, DATA_CELL, COUNT."""
    frames = [
        output_frame(config, output, counts).select(
            pl.lit(output.name).alias("TABULATION"),
            "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL", "COUNT",
        )
        for output, _ in config.outputs()
    ]  # fmt: skip
    return pl.concat(frames) if frames else pl.DataFrame()


def write_counts(config: Config, counts: Counts, out: Path) -> None:
    """Write a folder in the layout of a release, with the columns up to COUNT, readable by its owner only."""
    check_new_folder(out)
    with new_folder(out, private=True) as folder:
        (folder / "NOT_PRIVATE").write_text(NOT_PRIVATE)
        for output, _ in config.outputs():
            write_table(folder, config.catalog, output, output_frame(config, output, counts))
