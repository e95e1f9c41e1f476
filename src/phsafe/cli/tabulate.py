"""`phsafe tabulate`."""

from __future__ import annotations

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
    no_truncate: Annotated[
        bool, typer.Option("--no-truncate", help="Count everyone, even beyond the truncation thresholds.")
    ] = False,
    allow_unclassified: arg.AllowUnclassified = False,
    allow_empty_states: arg.AllowEmptyStates = False,
    skip_validation: arg.SkipValidation = False,
    *,
    options: EngineOptions,
) -> None:
    """Write exact counts. [bold red]NOT PRIVATE[/]: only for people who may see the records."""
    from phsafe.cli.console import note, progress_bar, warn
    from phsafe.pipeline import calls
    from phsafe.pipeline.exact_counts import NOT_PRIVATE

    with progress_bar("tabulate") as progress:
        counts = calls.tabulate(
            config, data, out, truncate=not no_truncate, allow_unclassified=allow_unclassified,
            allow_empty_states=allow_empty_states, skip_validation=skip_validation, options=options, progress=progress,
        )  # fmt: skip
    warn(NOT_PRIVATE)
    note(f"Wrote {len(counts)} exact basis counts to {out} (NOT PRIVATE).")
