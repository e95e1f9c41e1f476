"""Arguments and options that several commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from phsafe.engines import EngineOptions

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="Config file: production JSON, or TOML.")]
DataPath = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="Folder with persons, units and geo, each as CSV or Parquet; with Spark also hdfs://, s3a:// etc.",
    ),
]
OutPath = Annotated[Path, typer.Argument(metavar="OUT", help="Folder to create; it must not exist yet.")]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="Release folder.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Number of threads (default: all cores).")]
MemoryLimit = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory limit for counting, such as 4GB; the rest spills to disk."),
]
TempDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for temporary files.")]
AllowUnclassified = Annotated[
    bool,
    typer.Option("--allow-unclassified", help="Accept records that fit no cell of a universe, with a warning."),
]
SensitivityMode = Annotated[
    str | None,
    typer.Option(
        "--sensitivity",
        metavar="MODE",
        help="How one person's effect is bounded: published, tight, tight-bounded or structured (default: the "
        "config's). All but published assume public geography and can protect a whole household less.",
    ),
]
SkipValidation = Annotated[
    bool, typer.Option("--skip-validation", help="Ignore violations of rules, because the input was validated before.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON to standard output, and nothing else.")]
#: The most household keys that `validate --examples` writes for each rule.
MAX_EXAMPLES = 10_000

#: The options of the engine: name, annotation and default.
ENGINE_OPTIONS: dict[str, tuple[Any, Any]] = {
    "engine": (Annotated[str, typer.Option("--engine", help="Where to count: duckdb or spark.")], "duckdb"),
    "threads": (Threads, None),
    "memory_limit": (MemoryLimit, None),
    "temp_dir": (TempDir, None),
    "spark_master": (
        Annotated[
            str | None,
            typer.Option(
                metavar="URL",
                help="Spark master (local[4], spark://HOST:7077, yarn, k8s://…) or Spark Connect server "
                "(sc://HOST:15002).",
            ),
        ],
        None,
    ),
    "spark_conf": (
        Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="Spark setting; may be repeated.")],
        None,
    ),
}


def with_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the engine to a command, which gets them as one argument, `options`."""

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401
        chosen = {name: given.pop(name) for name in ENGINE_OPTIONS}
        command(**given, options=engine_options(**chosen))

    # Typer evaluates annotations, and the type of `options` is imported for type checkers only.
    del command.__annotations__["options"]
    signature = inspect.signature(command, eval_str=True)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "options"]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in ENGINE_OPTIONS.items()
    ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def engine_options(
    engine: str = "duckdb",
    spark_conf: list[str] | None = None,
    **others: Any,  # noqa: ANN401
) -> EngineOptions:
    """Check the options of the engine.

    Raises:
        typer.BadParameter: An option has an invalid value.

    """
    from phsafe.engines import ENGINES, EngineOptions

    known = next((name for name in ENGINES if name == engine), None)
    if known is None:
        raise typer.BadParameter(f"expected one of {', '.join(ENGINES)}, got {engine}", param_hint="--engine")
    settings = [pair.partition("=") for pair in spark_conf or ()]
    for key, separator, _ in settings:
        if not separator or not key:
            # A setting may be a secret, so the message doesn't show it.
            raise typer.BadParameter("expected KEY=VALUE, got something else", param_hint="--spark-conf")
    return EngineOptions(known, spark_conf={key: value for key, _, value in settings}, **others)
