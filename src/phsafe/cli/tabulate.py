"""`phsafe tabulate`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def tabulate(
    config: arg.ConfigPath,
    data: arg.DataPath,
    out: arg.OutPath,
    no_truncate: Annotated[bool, typer.Option("--no-truncate", help="Count everybody: ignore thresholds.")] = False,
    allow_unclassified: arg.AllowUnclassified = False,
    skip_validation: arg.SkipValidation = False,
    engine: arg.EngineChoice = "duckdb",
    threads: arg.Threads = None,
    memory_limit: arg.MemoryLimit = None,
    temp_dir: arg.TempDir = None,
    spark_master: arg.SparkMaster = None,
    spark_conf: arg.SparkConf = None,
) -> None:
    """Write exact counts. [bold red]NOT PRIVATE[/]: for checks by people who may see the records."""
    from phsafe.cli.console import note, progress_bar, warn
    from phsafe.config import Config
    from phsafe.engines import started
    from phsafe.errors import Reasons
    from phsafe.exact_counts import NOT_PRIVATE, write_counts
    from phsafe.files import check_absent
    from phsafe.scan import Settings, count_source, open_source

    options = arg.engine_options(engine, threads, memory_limit, temp_dir, spark_master, spark_conf)
    with started(options) as running, ExitStack() as reading:
        reasons = Reasons()
        loaded = reasons.check(Config.load, config)
        reader = loaded.reader if loaded else None
        source = reasons.check(reading.enter_context, open_source(data, running, reader))
        reasons.check(check_absent, out)
        reasons.settle()
        assert loaded is not None
        assert source is not None
        warn(NOT_PRIVATE)
        with progress_bar("tabulate") as progress:
            settings = Settings(not no_truncate, allow_unclassified, skip_validation)
            counts = count_source(loaded, source, settings, progress)
            write_counts(loaded, counts, out)
    note(f"Wrote {sum(len(v) for v in counts.values())} exact basis counts to {out} (NOT PRIVATE).")
