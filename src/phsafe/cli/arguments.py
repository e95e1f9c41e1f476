"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from phsafe.engines import EngineOptions

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="Parameters: production JSON, or TOML.")]
DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Folder with persons, units and geo, each as CSV or Parquet; for Spark also hdfs://, s3a:// and so on.",
    ),
]
OutPath = Annotated[Path, typer.Argument(metavar="OUT", help="Folder to make; it must not exist yet.")]
EngineChoice = Annotated[str, typer.Option("--engine", help="Where to count: duckdb or spark.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads to use (default: all cores).")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory for counting, such as 4GB; more goes to the temp folder."),
]
SparkMaster = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Spark's master (local[4], spark://HOST:7077, yarn, k8s://…) or Spark Connect server (sc://HOST:15002).",
    ),
]
SparkConf = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark; repeat for more.")]
AllowUnclassified = Annotated[
    bool,
    typer.Option("--allow-unclassified", help="Records that fit no cell of a universe are a warning, not an error."),
]
SensitivityMode = Annotated[
    str | None,
    typer.Option(
        "--sensitivity",
        metavar="MODE",
        help="How a person's reach is bounded: published, tight or tight-bounded (default: the config's).",
    ),
]
SkipValidation = Annotated[
    bool, typer.Option("--skip-validation", help="Do not validate first, because it has just been done.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, and nothing else there.")]
#: Keys of offenders that are written for each rule.
MAX_EXAMPLES = 10_000
TempDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Where to put temporary files.")]


def engine_options(
    engine: str,
    threads: int | None,
    memory_limit: str | None,
    temp_dir: Path | None,
    spark_master: str | None = None,
    spark_conf: list[str] | None = None,
) -> EngineOptions:
    """The options of an engine, checked."""
    from phsafe.engines import ENGINES, EngineOptions

    if engine not in ENGINES:
        raise typer.BadParameter(f"expected one of {', '.join(ENGINES)}, got {engine}", param_hint="--engine")
    settings = [pair.partition("=") for pair in spark_conf or ()]
    for key, separator, _ in settings:
        if not separator or not key:
            # Settings may be secrets, so none is shown.
            raise typer.BadParameter("expected KEY=VALUE, got something else", param_hint="--spark-conf")
    return EngineOptions(
        engine, threads, memory_limit, temp_dir, spark_master, {key: value for key, _, value in settings}
    )
