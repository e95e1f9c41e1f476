"""`phsafe pums`: its options (`--expand`, format, threads), and the table of states that it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from rich.table import Table

    from phsafe.acs_pums import Conversion

COLUMNS = {
    "STATE": "State",
    "HOUSEHOLDS": "Households",
    "PEOPLE_IN_HOUSEHOLDS": "People in them",
    "VACANT_UNITS": "Vacant units",
    "PEOPLE_IN_GROUP_QUARTERS": "In group quarters",
}
NO_HOUSING = (
    "No housing file was given, so tenure is unknown: TEN is 0 for every unit. Set the budgets of PH7 and PH8_denom "
    "to 0 in the config, or validation will report every household as an error. Vacant units are unknown too."
)


def pums(
    out: arg.OutPath,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="ACS PUMS person files and housing files: CSV, or the Bureau's zips; all of the same year or five "
            "years, for any states.",
        ),
    ],
    expand: Annotated[
        bool,
        typer.Option("--expand", help="Repeat each household by its weight, for a full population."),
    ] = False,
    format: Annotated[str, typer.Option(help="parquet (one file per state) or csv.")] = "parquet",
    threads: arg.Threads = None,
    memory_limit: arg.MemoryLimit = None,
    temp_dir: arg.TempDir = None,
) -> None:
    """Convert public microdata of the American Community Survey (PUMS) to a data folder."""
    from phsafe.acs_pums import pums as convert
    from phsafe.cli.console import note, progress_bar, result
    from phsafe.synthetic import MARK

    options = arg.engine_options(threads=threads, memory_limit=memory_limit, temp_dir=temp_dir)
    with progress_bar("pums") as progress:
        made = convert(out, files, expand=expand, format=format, options=options, progress=progress)
    result(
        {
            "folder": str(made.folder), "years": list(made.years), "expanded": made.expanded,
            "has_housing": made.has_housing, "states": made.states.to_dicts(),
        },
        as_table(made),
    )  # fmt: skip
    note(f"Wrote {out}, marked as public by the file {MARK}.")
    if not made.has_housing:
        note(NO_HOUSING)


def as_table(made: Conversion) -> Table:
    """Return a table with a line for each state, and a total."""
    from rich.table import Table

    from phsafe.model.schema import STATES

    year = f"{made.years[0]}" if len(made.years) == 1 else f"{made.years[0]}–{made.years[-1]}"
    how = "expanded by weight" if made.expanded else "each record once"
    table = Table(title=f"ACS PUMS {year}, {how}", title_justify="left", show_footer=made.states.height > 1)
    for name, label in COLUMNS.items():
        known = made.has_housing or name != "VACANT_UNITS"
        total = "All" if name == "STATE" else f"{made.states[name].sum():,}" if known else "unknown"
        table.add_column(label, justify="left" if name == "STATE" else "right", footer=total)
    for row in made.states.iter_rows(named=True):
        vacant = f"{row['VACANT_UNITS']:,}" if made.has_housing else "unknown"
        cells = [vacant if name == "VACANT_UNITS" else f"{row[name]:,}" for name in list(COLUMNS)[1:]]
        table.add_row(STATES[row["STATE"]], *cells)
    return table
