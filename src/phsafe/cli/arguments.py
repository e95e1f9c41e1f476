"""Arguments and options that several commands share, with their defaults, and what makes a value invalid."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phsafe.cli.output import OUTPUT

if TYPE_CHECKING:
    from phsafe.engines import EngineOptions

ConfigPath = Annotated[Path, typer.Argument(metavar="CONFIG", help="Config file: JSON in the 2020 format, or TOML.")]
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
    typer.Option(metavar="SIZE", help="Memory limit of DuckDB, not of workers, such as 4GB; the rest spills to disk."),
]
TempDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for temporary files.")]
AllowUnclassified = Annotated[
    bool,
    typer.Option("--allow-unclassified", help="Accept records that fall in no cell of their universe, with a warning."),
]
AllowEmptyStates = Annotated[
    bool,
    typer.Option(
        "--allow-empty-states",
        help="Accept states of the filter without housing units, and empty tables, with a warning.",
    ),
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
CatalogPath = Annotated[
    Path | None,
    typer.Option(
        "--catalog", metavar="FILE", help="Tables and levels, as JSON or TOML (default: PH1–PH8 of the 2020 Census)."
    ),
]
SkipValidation = Annotated[
    bool, typer.Option("--skip-validation", help="Don't check the rules (for input that was validated before).")
]
Population = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Population of the ledger (default: as in the config, or its states)."),
]
MaxRho = Annotated[
    str | None,
    typer.Option(metavar="RHO", help="Largest unbounded loss of one release (default: the ledger's, or 10)."),
]
PublicKey = Annotated[
    Path | None, typer.Option(metavar="FILE.pub", help="The ledger's public key (default: beside the ledger).")
]
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


#: The options of every command: name, annotation and default.
OUTPUT_OPTIONS: dict[str, tuple[Any, Any]] = {
    "json": (
        Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output, and nothing else.")],
        False,
    ),
    "quiet": (
        Annotated[
            bool, typer.Option("--quiet", help="Print only results and errors: no notices, warnings or progress.")
        ],
        False,
    ),
    "log": (
        Annotated[
            Path | None, typer.Option("--log", metavar="FILE", help="Append what happens to this file, as JSON lines.")
        ],
        None,
    ),
}
#: The most digits of an amount, before and after the decimal point.
MAX_DIGITS = 30


def amount(value: str | None, option: str) -> Decimal | None:
    """Parse a finite decimal above 0, exactly as typed; None if it was not given.

    Raises:
        typer.BadParameter: It is anything else.

    """
    if value is None:
        return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal(0)
    exponent = number.as_tuple().exponent
    small = isinstance(exponent, int) and exponent >= -MAX_DIGITS and number.adjusted() < MAX_DIGITS
    if not (number.is_finite() and number > 0 and small):
        raise typer.BadParameter(f"expected a finite number above 0, got {value}", param_hint=option)
    return number


def with_engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the engine to a command, which gets them as one argument, `options`."""

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401
        chosen = {name: given.pop(name) for name in ENGINE_OPTIONS}
        command(**given, options=engine_options(**chosen))

    # Typer evaluates annotations, and the type of `options` is imported for type checkers only.
    del command.__annotations__["options"]
    return _declared(run, command, ENGINE_OPTIONS)


def with_output_options(command: Callable[..., None], name: str) -> Callable[..., None]:
    """Add `--json`, `--quiet` and `--log` to a command with the given name."""

    @wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401
        OUTPUT.start(name, **{option: given.pop(option) for option in OUTPUT_OPTIONS})
        command(**given)

    return _declared(run, command, OUTPUT_OPTIONS)


def _declared(
    run: Callable[..., None], command: Callable[..., None], options: dict[str, tuple[Any, Any]]
) -> Callable[..., None]:
    """Declare, for Typer, that `run` has the parameters of a command and these options."""
    signature = inspect.signature(command, eval_str=True)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "options"]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
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
