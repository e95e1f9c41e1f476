"""`phsafe validate`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def validate(
    config: arg.ConfigPath,
    data: arg.DataPath,
    allow_unclassified: arg.AllowUnclassified = False,
    examples: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write keys of offending records to a new file, for its owner only."),
    ] = None,
    json: arg.Json = False,
    engine: arg.EngineChoice = "duckdb",
    threads: arg.Threads = None,
    memory_limit: arg.MemoryLimit = None,
    temp_dir: arg.TempDir = None,
    spark_master: arg.SparkMaster = None,
    spark_conf: arg.SparkConf = None,
) -> None:
    """Check every rule of the input. [bold red]NOT PRIVATE[/]: counts of records that break a rule."""
    from phsafe import exact
    from phsafe.cli.console import note, out, progress_bar, warn
    from phsafe.config import Config
    from phsafe.engines import started
    from phsafe.errors import Reasons
    from phsafe.scan import open_source, validate_source
    from phsafe.validation.report import NOT_PRIVATE, offenders
    from phsafe.validation.report_output import as_table, summary, write_examples

    options = arg.engine_options(engine, threads, memory_limit, temp_dir, spark_master, spark_conf)
    with started(options) as running, ExitStack() as reading:
        reasons = Reasons()
        loaded = reasons.check(Config.load, config)
        reader = loaded.reader if loaded else None
        source = reasons.check(reading.enter_context, open_source(data, running, reader))
        reasons.settle()
        assert loaded is not None
        assert source is not None
        warn(NOT_PRIVATE)
        with progress_bar("validate") as progress:
            report, tabulated = validate_source(
                loaded, source, allow_unclassified=allow_unclassified,
                examples=0 if examples is None else arg.MAX_EXAMPLES, progress=progress,
            )  # fmt: skip
            if examples is not None and report.findings:
                number = write_examples(examples, offenders(tabulated))
                note(f"Wrote {number} keys of offending records to {examples} (confidential, owner only).")
    if json:
        typer.echo(exact.dumps(report.to_dict()))
    else:
        if report.findings:
            out.print(as_table(report))
        out.print(summary(report), markup=False)
    raise typer.Exit(0 if report.ok else 1)
