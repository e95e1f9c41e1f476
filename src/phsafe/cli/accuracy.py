"""`phsafe accuracy`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars import Series
    from rich.table import Table

    from phsafe.appraisal import Accuracy


def accuracy(
    config: arg.ConfigPath,
    data: arg.DataPath,
    out: arg.OutPath,
    trials: Annotated[int, typer.Option(min=2, help="Releases to make in memory, for each scenario.")] = 100,
    estimate_trials: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="How many of them to finish, by both methods (default: 10)."),
    ] = None,
    tau: Annotated[
        str | None,
        typer.Option(metavar="T,T…", help="Thresholds to try as well, for all tabulations of persons: 6,8,10,12."),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="X,X…", help="Multiply all budgets by each of these: 0.5,1,2.")
    ] = None,
    sensitivity: arg.SensitivityMode = None,
    public: Annotated[
        bool,
        typer.Option(
            "--i-know-this-is-public",
            help="The data are public, although no file PUBLIC beside them says so.",
        ),
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes that share the work (default: all cores).")] = None,
    allow_unclassified: arg.AllowUnclassified = False,
    skip_validation: arg.SkipValidation = False,
    engine: arg.EngineChoice = "duckdb",
    threads: arg.Threads = None,
    memory_limit: arg.MemoryLimit = None,
    temp_dir: arg.TempDir = None,
    spark_master: arg.SparkMaster = None,
    spark_conf: arg.SparkConf = None,
) -> None:
    """Measure errors where the truth is public: many releases in memory against exact counts."""
    from phsafe.appraisal import accuracy as run
    from phsafe.appraisal.page import nowhere_words
    from phsafe.cli import console
    from phsafe.errors import PHSafeError

    options = arg.engine_options(engine, threads, memory_limit, temp_dir, spark_master, spark_conf)
    taus = [_threshold(word) for word in tau.split(",")] if tau else []
    with console.progress_bar("accuracy") as progress:
        found = run(
            config, data, out, trials=trials, estimate_trials=estimate_trials, tau=taus,
            scale=scale.split(",") if scale else (), sensitivity=sensitivity, public=public,
            allow_unclassified=allow_unclassified, skip_validation=skip_validation, options=options, jobs=jobs,
            progress=progress,
        )  # fmt: skip
    if found.nowhere:
        console.warn(nowhere_words(found.nowhere))
    for table in (_noise(found), _finished(found), _best(found)):
        if table is not None:
            console.out.print(table)
    console.say(
        f"\nWhere to look:\n"
        f"  {out}/accuracy.html     the report, for a browser\n"
        f"  {out}/tabulations.csv   errors of noisy counts by level; tables.csv those of finished tables\n"
        f"  {out}/shares.json       people lost at each threshold: phsafe explore --shares {out}/shares.json"
    )
    if not found.as_stated:
        raise PHSafeError(
            "the noise is not as stated: its measured 90 % MOE is outside of sampling error; the report says where"
        )
    console.note("The noise is as stated: every measured 90 % MOE is within sampling error of the expected one.")


def _threshold(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise typer.BadParameter(
            f"expected whole numbers with commas between them, got {word!r}", param_hint="--tau"
        ) from None


def _noise(found: Accuracy) -> Table:
    """A line for each measured tabulation: its errors, and its noise against what is stated."""
    table = _table(
        f"Noisy counts, {found.scenarios[0].name}; releases: {found.trials:,}",
        ("Tabulation", "τ", "RMSE", "Truncation bias", "MOE / expected", "Noise"),
    )
    for tabulation in dict.fromkeys(m.tabulation for m in found.config.measurements()):
        rows = found.base(found.tabulations).filter(TABULATION=tabulation.name)
        ratios = rows["MOE"] / rows["MOE_EXPECTED"].clip(1)
        table.add_row(
            tabulation.name,
            str(rows["TAU"][0] or ""),
            _range(rows["RMSE"], ",.0f"),
            _range(rows["TRUNCATION_BIAS"], ",.1f"),
            _range(ratios, ".2f"),
            "as stated" if rows["AS_STATED"].all() else "NOT AS STATED",
        )
    return table


def _finished(found: Accuracy) -> Table | None:
    """A line for each finished table: errors and coverage by both methods."""
    import numpy as np

    if not found.estimated:
        return None
    lines = found.base(found.lines)
    methods = lines["METHOD"].unique(maintain_order=True).to_list()
    heads = [f"{what} {method}" for what in ("RMSE", "Coverage") for method in methods]
    table = _table(f"Finished tables, releases: {found.estimated}; coverage of 90 % intervals", ("Table", *heads))
    for name in lines["TABLE"].unique(maintain_order=True):
        rows = [lines.filter(TABLE=name, METHOD=method) for method in methods]
        table.add_row(
            name,
            *(f"{np.sqrt(np.square(own['RMSE'].to_numpy()).mean()):,.4g}" for own in rows),
            *(f"{100 * own['COVERAGE_TRUNCATED'].to_numpy().mean():.1f} %" for own in rows),
        )
    return table


def _best(found: Accuracy) -> Table | None:
    """Where total error is least, for each tabulation and level, and each budget."""
    from phsafe.appraisal.curves import curves

    known = curves(found)
    if not known:
        return None
    levels = list(dict.fromkeys(key for _, key in known))
    scales = dict.fromkeys(one.scale for one in found.scenarios)
    by = f", budgets × {', '.join(map(str, scales))}" if len(scales) > 1 else ""
    table = _table(f"Least total error of the τ tried{by} (≤, ≥: at their end)", ("Tabulation", *levels))
    for name in dict.fromkeys(name for name, _ in known):
        cells = [[curve.least for curve in known.get((name, level), [])] for level in levels]
        table.add_row(name, *(", ".join(least).replace("τ ", "").replace("= ", "") for least in cells))
    return table


def _range(values: Series, form: str) -> str:
    numbers = values.to_numpy()
    low, high = (f"{value:{form}}" for value in (numbers.min(), numbers.max()))
    return low if low == high else f"{low} – {high}"


def _table(title: str, heads: Sequence[str]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, name in enumerate(heads):
        table.add_column(name, justify="right" if i else "left", overflow="fold")
    return table
