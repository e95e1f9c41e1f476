"""`phsafe accuracy`: its options (trials, thresholds, jobs), and the tables of errors that it prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars import Series
    from rich.table import Table

    from phsafe.accuracy_study import Accuracy
    from phsafe.engines import EngineOptions


@arg.with_engine_options
def accuracy(
    config: arg.ConfigPath,
    data: arg.DataPath,
    out: arg.OutPath,
    trials: Annotated[
        int, typer.Option(min=2, help="Number of releases to simulate for each variant of the config.")
    ] = 100,
    estimate_trials: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Number of these releases to estimate tables from, by both methods (default: 10).",
        ),
    ] = None,
    tau: Annotated[
        str | None,
        typer.Option(
            metavar="T,T…", help="More truncation thresholds to try for every tabulation of persons, such as 6,8,10,12."
        ),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(metavar="X,X…", help="Factors to multiply all budgets by, such as 0.5,1,2.")
    ] = None,
    sensitivity: arg.SensitivityMode = None,
    public: Annotated[
        bool,
        typer.Option(
            "--i-know-this-is-public",
            help="Confirm that the data are public, although the folder has no file PUBLIC.",
        ),
    ] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes (default: all cores).")] = None,
    allow_unclassified: arg.AllowUnclassified = False,
    skip_validation: arg.SkipValidation = False,
    catalog: arg.CatalogPath = None,
    *,
    options: EngineOptions,
) -> None:
    """Measure errors on public or synthetic data, by comparing many simulated releases with exact counts."""
    from phsafe.accuracy_study import accuracy as run
    from phsafe.accuracy_study.study_page import empty_regions_warning
    from phsafe.cli import console
    from phsafe.errors import PHSafeError

    taus = [_threshold(word) for word in tau.split(",")] if tau else []
    with console.progress_bar("accuracy") as progress:
        study = run(
            config, data, out, trials=trials, estimate_trials=estimate_trials, tau=taus,
            scale=scale.split(",") if scale else (), sensitivity=sensitivity, public=public,
            allow_unclassified=allow_unclassified, skip_validation=skip_validation, catalog=catalog, options=options,
            jobs=jobs, progress=progress,
        )  # fmt: skip
    if study.empty_regions:
        console.warn(empty_regions_warning(study.empty_regions))
    console.result(
        {
            "folder": str(out), "as_stated": study.as_stated, "trials": study.trials, "estimated": study.estimated,
            "variants": [variant.name for variant in study.variants], "empty_regions": list(study.empty_regions),
        },
        *(table for table in (_noise(study), _finished(study), _best(study)) if table is not None),
        f"\nNext:\n"
        f"  {out}/accuracy.html     the report, for a browser\n"
        f"  {out}/tabulations.csv   errors of noisy counts by level; tables.csv: errors of finished tables\n"
        f"  {out}/shares.json       people dropped at each threshold: phsafe explore --shares {out}/shares.json",
    )  # fmt: skip
    if not study.as_stated:
        raise PHSafeError(
            "the noise is not as stated: a measured 90 % MOE differs by more than sampling error; see the report"
        )
    console.note("The noise is as stated: every measured 90 % MOE is within sampling error of the expected one.")


def _threshold(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        raise typer.BadParameter(
            f"expected whole numbers separated by commas, got {word!r}", param_hint="--tau"
        ) from None


def _noise(study: Accuracy) -> Table:
    """Return a table with a line for each tabulation: its errors, and its noise compared with the stated noise."""
    table = _table(
        f"Noisy counts, {study.variants[0].name}; releases: {study.trials:,}",
        ("Tabulation", "τ", "RMSE", "Truncation bias", "MOE / expected", "Noise"),
    )
    for tabulation in dict.fromkeys(m.tabulation for m in study.config.measurements()):
        rows = study.base(study.tabulations).filter(TABULATION=tabulation.name)
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


def _finished(study: Accuracy) -> Table | None:
    """Return a table with a line for each finished table: errors and coverage of both methods."""
    import numpy as np

    if not study.estimated:
        return None
    lines = study.base(study.lines).drop_nulls("COVERAGE")
    methods = lines["METHOD"].unique(maintain_order=True).to_list()
    heads = [f"{what} {method}" for what in ("RMSE", "Coverage") for method in methods]
    table = _table(f"Finished tables, releases: {study.estimated}; coverage of 90 % intervals", ("Table", *heads))
    for name in lines["TABLE"].unique(maintain_order=True):
        rows = [lines.filter(TABLE=name, METHOD=method) for method in methods]
        table.add_row(
            name,
            *(f"{np.sqrt(np.square(part['RMSE'].to_numpy()).mean()):,.4g}" for part in rows),
            *(f"{100 * part['COVERAGE_TRUNCATED'].to_numpy().mean():.1f} %" for part in rows),
        )
    return table


def _best(study: Accuracy) -> Table | None:
    """Return a table of the thresholds with the lowest total error, by tabulation, level and budget."""
    from phsafe.accuracy_study.threshold_curves import curves

    by_measurement = curves(study)
    if not by_measurement:
        return None
    levels = list(dict.fromkeys(key for _, key in by_measurement))
    scales = dict.fromkeys(variant.scale for variant in study.variants)
    budgets = f", budgets × {', '.join(map(str, scales))}" if len(scales) > 1 else ""
    table = _table(f"τ with the lowest total error{budgets} (≤, ≥: at an end of the range)", ("Tabulation", *levels))
    for name in dict.fromkeys(name for name, _ in by_measurement):
        cells = [[curve.best_tau for curve in by_measurement.get((name, level), [])] for level in levels]
        table.add_row(name, *(", ".join(best).replace("τ ", "").replace("= ", "") for best in cells))
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
