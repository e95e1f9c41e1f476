"""Finished tables with names beside codes, and what each of their columns means."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.names import with_names
from phsafe.display.numbers import FLAG, FLAG_TEXT


class NamedColumn(NamedTuple):
    """A column of a named table: its name, its title for display, its type and what it means."""

    name: str
    title: str
    type: str
    about: str


#: The columns of a named table, in order. An average has the type "number" where a count has "integer".
NAMED_COLUMNS = (
    NamedColumn("REGION_TYPE", "Region type", "string", "USA for the nation, STATE for a state."),
    NamedColumn("REGION_ID", "Region code", "string", "1 for the nation, otherwise the state's FIPS code."),
    NamedColumn("REGION", "Region", "string", "The name of the region."),
    NamedColumn("ITERATION_CODE", "Race or ethnicity code", "string", "* for everyone, otherwise A to I."),
    NamedColumn("RACE_ETHNICITY", "Race or ethnicity", "string", "The name of the race or ethnicity group."),
    NamedColumn("CELL", "Line", "integer", "The number of the line in the table."),
    NamedColumn("LABEL", "Line label", "string", "The label of the line. Labels can repeat in a table; numbers can't."),
    NamedColumn("ESTIMATE", "Estimate", "value", "The estimated count, or the average number of people."),
    NamedColumn("LOWER_90", "Lower 90 %", "value", "The lower end of the 90 % interval."),
    NamedColumn("UPPER_90", "Upper 90 %", "value", "The upper end of the 90 % interval."),
    NamedColumn(
        "STD_ERROR",
        "Standard error",
        "number",
        "The standard error of the estimate, ignoring that counts aren't negative.",
    ),
    NamedColumn("NOTE", "Note", "string", f"Empty, or “{FLAG_TEXT}”: use the interval ({FLAG})."),
)
#: The columns that identify a row.
NAMED_KEY = ("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL")


def named(config: Config, frame: pl.DataFrame) -> pl.DataFrame:
    """Return a finished table with the columns of `NAMED_COLUMNS`: the names of regions and iterations, and notes."""
    wide = pl.col("UPPER_90") - pl.col("LOWER_90") > pl.col("ESTIMATE")
    note = pl.when(wide).then(pl.lit(FLAG_TEXT)).otherwise(pl.lit(""))
    return with_names(config, frame.with_columns(NOTE=note))
