"""`phsafe tabulate`: exact counts as a frame or a folder. Not private, and loud about it."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from phsafe.config import Config
from phsafe.files import check_absent, new_folder, write_table
from phsafe.grid import Counts, output_frame

NOT_PRIVATE = (
    "NOT PRIVATE: these are exact counts of confidential records, without noise. "
    "Do not publish them and do not share them with anyone who may not see the records.\n"
)


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
