"""`phsafe synth`: its options (households, states, seed, format)."""

from __future__ import annotations

from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def synth(
    out: arg.OutPath,
    households: Annotated[int, typer.Option(metavar="N", help="Number of households.")],
    states: Annotated[str, typer.Option(help="us, pr, or states separated by commas, such as 44,56 or RI,WY.")] = "us",
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
    format: Annotated[str, typer.Option(help="parquet (one file per state) or csv.")] = "parquet",
) -> None:
    """Generate realistic synthetic microdata of any size: persons, units and geo."""
    from phsafe.cli.console import note, progress_bar, result
    from phsafe.synthetic import MARK
    from phsafe.synthetic import synth as make

    with progress_bar("synth") as bar:
        make(out, households, states, seed, format, lambda done, total: bar("generating households", done / total))
    result({"folder": str(out), "households": households, "states": states, "seed": seed, "format": format})
    note(f"Made {households:,} households in {out} ({states}, seed {seed}), marked as public by the file {MARK}.")
