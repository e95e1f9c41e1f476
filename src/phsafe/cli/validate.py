"""`phsafe validate`: its options, what it prints, and how it exits after violations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from phsafe.engines import EngineOptions


@arg.with_engine_options
def validate(
    config: arg.ConfigPath,
    data: arg.DataPath,
    allow_unclassified: arg.AllowUnclassified = False,
    allow_empty_states: arg.AllowEmptyStates = False,
    examples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the household keys of violations to a new file that only you can read."
        ),
    ] = None,
    catalog: arg.CatalogPath = None,
    *,
    options: EngineOptions,
) -> None:
    """Check the input against every rule. [bold red]NOT PRIVATE[/]: counts the records that violate each rule."""
    from phsafe.cli.console import note, progress_bar, result, warn
    from phsafe.pipeline import calls
    from phsafe.pipeline.validation import NOT_PRIVATE
    from phsafe.pipeline.validation_output import as_table, states_table, summary, write_offenders

    with progress_bar("validate") as progress:
        report = calls.validate(
            config, data, allow_unclassified=allow_unclassified, allow_empty_states=allow_empty_states,
            examples=0 if examples is None else arg.MAX_EXAMPLES, catalog=catalog, options=options, progress=progress,
        )  # fmt: skip
    warn(NOT_PRIVATE)
    if examples is not None and report.findings:
        number = write_offenders(examples, report.offenders)
        note(f"Wrote {number} household keys of violations to {examples} (confidential; only you can read it).")
    findings = [as_table(report)] if report.findings else []
    result(report.to_dict(), *findings, states_table(report), summary(report))
    raise typer.Exit(0 if report.ok else 1)
