"""`phsafe tabulate`: its options (`--finished`, `--no-truncate`), and what it prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from phsafe.engines import EngineOptions


@arg.with_engine_options
def tabulate(
    config: arg.ConfigPath,
    data: arg.DataPath,
    out: arg.OutPath,
    finished: Annotated[
        bool,
        typer.Option(
            "--finished", help="Write finished tables, as estimate does, instead of counts; budgets aren't needed."
        ),
    ] = False,
    truncate: Annotated[
        bool | None,
        typer.Option(
            "--truncate/--no-truncate",
            help="Leave out persons beyond the truncation thresholds, or count everyone "
            "(default: truncate counts, but not finished tables).",
        ),
    ] = None,
    allow_unclassified: arg.AllowUnclassified = False,
    allow_empty_states: arg.AllowEmptyStates = False,
    skip_validation: arg.SkipValidation = False,
    catalog: arg.CatalogPath = None,
    *,
    options: EngineOptions,
) -> None:
    """Write exact counts, or exact tables. [bold red]NOT PRIVATE[/]: only for people who may see the records."""
    from phsafe.cli.console import note, progress_bar, result, warn
    from phsafe.pipeline import calls
    from phsafe.pipeline.exact_counts import NOT_PRIVATE

    truncated = not finished if truncate is None else truncate
    with progress_bar("tabulate") as progress:
        made = (calls.exact_tables if finished else calls.tabulate)(
            config, data, out, truncate=truncated, allow_unclassified=allow_unclassified,
            allow_empty_states=allow_empty_states, skip_validation=skip_validation, catalog=catalog,
            options=options, progress=progress,
        )  # fmt: skip
    if isinstance(made, dict):
        rows = {name: frame.height for name, frame in made.items()}
        what = f"{len(made)} exact finished tables"
    else:
        rows = dict(Counter(made.get_column("TABULATION", default=[])))
        what = f"{len(made)} exact basis counts"
    warn(NOT_PRIVATE)
    result(
        {
            "folder": str(out), "notice": NOT_PRIVATE.strip(), "finished": finished, "truncated": truncated,
            "rows": rows,
        }
    )  # fmt: skip
    note(f"Wrote {what} to {out} (NOT PRIVATE).")
