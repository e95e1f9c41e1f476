"""The sections of the study's page: thresholds, noisy counts, noise, and finished tables by region and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from phsafe.accuracy_study import study_plots
from phsafe.accuracy_study.threshold_curves import curves
from phsafe.display.html import Html, el
from phsafe.reports.page_elements import table

if TYPE_CHECKING:
    from phsafe.accuracy_study.study import Accuracy

#: Ranges of the small plots in tables: coverage, and measured over expected MOE.
COVERAGE_ENDS = (0.7, 1.0)
MOE_ENDS = (0.5, 1.5)
#: The number of groups listed by bias.
LISTED = 40
DOTS = {"joint": "d0", "independent": "d2"}


def thresholds(accuracy: Accuracy) -> str:
    """Total error by threshold and the people dropped; empty if only one threshold was tried."""
    found = curves(accuracy)
    if not found:
        return ""
    panels = [
        study_plots.svg(
            study_plots.panel(of, number),
            study_plots.WIDTH,
            study_plots.HEIGHT,
            f"{of[0].tabulation} {of[0].level.label}: total error is lowest at {of[0].best_tau}",
        )
        for number, of in enumerate(found.values())
    ]
    taus = sorted({tau for of in accuracy.shares.values() for tau in of})
    dropped = [
        [name, *(f"{of[tau]:.3f}" if tau in of else "–" for tau in taus)] for name, of in accuracy.shares.items()
    ]
    key = study_plots.legend(next(iter(found.values())))
    return f"""<section><h2>Total error by threshold</h2>
<p>As τ grows, truncation removes less and noise adds more. The plots show the root mean squared error of a cell:
lines are computed from the stated variance and the exact truncation, dots are measured. Large errors are cut off;
≤ and ≥ mean that the minimum is at the end of the range tried.</p>
<div class="scroll legend" tabindex="0" role="region" aria-label="Key">{key}</div>
<div class="panels">{"".join(panels)}</div></section>
<section><h2>People dropped by truncation</h2>
<p>The percentage of a tabulation’s people who are dropped because their household exceeds the threshold.</p>
{table("Percentage of people dropped", ["Tabulation", *(f"τ = {tau}" for tau in taus)], dropped)}</section>"""


def counts(accuracy: Accuracy) -> str:
    """Errors of noisy counts under the first variant, level by level."""
    body = []
    for row in accuracy.base(accuracy.tabulations).iter_rows(named=True):
        part = row["TRUNCATION_RMSE"] ** 2 / row["RMSE_EXPECTED"] ** 2
        columns = ("MAE", "RMSE", "BIAS", "NOISE_RMSE", "NOISE_BIAS", "TRUNCATION_RMSE", "TRUNCATION_BIAS")
        numbers = [_number(row[column]) for column in columns]
        body.append([*_name(accuracy, row), row["TAU"] or "–", row["CELLS"], *numbers, f"{100 * part:.1f} %"])
    heads = (
        "Tabulation", "Level", "τ", "Cells", "MAE", "RMSE", "Bias", "Noise: RMSE", "bias", "Truncation: RMSE", "bias",
        "share",
    )  # fmt: skip
    return f"""<section><h2>Noisy counts{_of(accuracy)}</h2>
<p>MAE, RMSE and bias against the untruncated truth, then the parts due to noise and to truncation. The last column
is the share of truncation in the expected squared error.</p>
{table("Errors of noisy counts", heads, body, text_columns=2)}</section>"""


def noise(accuracy: Accuracy) -> str:
    """The measured MOE of the noise against the expected one."""
    body = []
    for row in accuracy.base(accuracy.tabulations).iter_rows(named=True):
        expected = max(row["MOE_EXPECTED"], 1)
        dot = (row["MOE"] / expected, "d0" if row["AS_STATED"] else "bad")
        band = row["MOE_LOWEST"] / expected, row["MOE_HIGHEST"] / expected
        body.append(
            [
                *_name(accuracy, row), f"{row['CELLS'] * row['RELEASES']:,}", f"{row['MOE_EXPECTED']:,}",
                f"{row['MOE']:,}", f"{row['MOE_LOWEST']:,} – {row['MOE_HIGHEST']:,}",
                study_plots.strip(*band, [dot], 1.0, MOE_ENDS), f"{row['P_VALUE']:.2g}",
                "yes" if row["AS_STATED"] else el("b", "no", class_="wrong"),
            ]
        )  # fmt: skip
    heads = (
        "Tabulation", "Level", "Noisy counts", "90 % MOE expected", "measured", "band", "measured / expected",
        "p-value", "as stated",
    )  # fmt: skip
    return f"""<section><h2>Is the noise as stated?{_of(accuracy)}</h2>
<p>The measured 90 % margin of error (MOE), and the band around the expected one that correct noise stays within.
Correct noise falls outside any band or fails any pooled test of this report with a probability of at most
{accuracy.false_alarm:g}. The small plots range from {MOE_ENDS[0]} to {MOE_ENDS[1]}.</p>
{table("Margins of error, measured and expected", heads, body, text_columns=2)}{_pooled(accuracy)}</section>"""


def finished(accuracy: Accuracy) -> str:
    """Errors and coverage of finished tables under the first variant, level by level."""
    if not accuracy.estimated:
        return ""
    by_level: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in accuracy.base(accuracy.tables).iter_rows(named=True):
        by_level.setdefault((row["TABLE"], row["LEVEL"]), {})[row["METHOD"]] = row
    labels, errors, coverage = _labels(accuracy), [], []
    for (name, level), rows in by_level.items():
        any_row = next(iter(rows.values()))
        dots = [(row["COVERAGE"], DOTS[method]) for method, row in rows.items()]
        numbers = (_number(row[column]) for column in ("MAE", "RMSE", "BIAS") for row in rows.values())
        errors.append([name, labels[level], any_row["LINES"], *numbers, _number(any_row["TRUNCATION_BIAS"])])
        shares = (f"{100 * row['COVERAGE_TRUNCATED']:.1f}" for row in rows.values())
        widths = (_number(row["WIDTH"]) for row in rows.values())
        plot = study_plots.strip(0, 0, dots, 0.9, COVERAGE_ENDS)
        coverage.append([name, labels[level], *map(_share, rows.values()), plot, *shares, *widths])
    methods = accuracy.tables["METHOD"].unique(maintain_order=True).to_list()

    def heads(*figures: str) -> list[str]:
        return [f"{figure} {method}" for figure in figures for method in methods]

    error_heads = ["Table", "Level", "Lines", *heads("MAE", "RMSE", "bias"), "truncation bias"]
    coverage_heads = ["Table", "Level", *heads("%"), "70 to 100 %", *heads("truncated, %", "width")]
    return f"""<section><h2>Finished tables{_of(accuracy)}</h2>
<p>{accuracy.estimated} of the releases, finished by both methods. Coverage is of the true value, with everyone counted
(± its standard error between releases); further columns show how often the interval contains the truncated value, which
is all that the independent method estimates. The dashed line is at 90 %; the blue dot is the joint method, the other
one the independent method. Averages over no households are undefined and left out. Bias by region and by size is shown
beside that of raw counts and of least squares before any constraint, which leave truncation as is.</p>
{table("Errors of estimates", error_heads, errors, text_columns=2)}
{table("Coverage of 90 % intervals", coverage_heads, coverage, text_columns=2)}
{_by_region(accuracy)}{_by_size(accuracy)}{_by_threshold(accuracy)}</section>"""


def _by_region(accuracy: Accuracy) -> Html:
    """Bias and error of each region and table: errors of opposite sign cancel in tables by level."""
    heads, rows = _grouped(accuracy, "REGION_ID")
    text = f"Bias by region: the {len(rows[:LISTED])} largest of the joint method, relative to its error"
    return table(text, ["Table", "Region", *heads], rows[:LISTED], text_columns=2)


def _by_size(accuracy: Accuracy) -> Html:
    """Bias and error by the true size of a line."""
    heads, rows = _grouped(accuracy, "SIZE")
    return table("Bias by true size of count lines", ["Table", "True value", *heads], sorted(rows), text_columns=2)


def _grouped(accuracy: Accuracy, by: str) -> tuple[list[str], list[list[str]]]:
    """Bias and RMSE of the lines of count tables by each method, beside raw counts and least squares.

    Returns:
        The heads of the columns of figures; and the rows, those with the largest bias of the first method first.
    """
    counts = [spec.name for spec in accuracy.config.catalog.tables if spec.average is None]
    truth = pl.col("TRUTH")
    size = pl.when(truth < 1).then(pl.lit("0")).when(truth < 10).then(pl.lit("1–9")).when(truth < 100).then(
        pl.lit("10–99")).otherwise(pl.lit("100 and more"))  # fmt: skip
    found = (
        accuracy.base(accuracy.lines)
        .filter(pl.col("TABLE").is_in(counts))
        .with_columns(SIZE=size, REGION_ID=pl.col("REGION_TYPE") + " " + pl.col("REGION_ID"))
        .group_by("TABLE", by, "METHOD", maintain_order=True)
        .agg(bias=(pl.col("ESTIMATE") - truth).mean(), RMSE=pl.col("RMSE").pow(2).mean().sqrt())
    )
    methods = found["METHOD"].unique(maintain_order=True).to_list()
    wide = found.pivot("METHOD", index=["TABLE", by], values=["bias", "RMSE"], maintain_order=True)
    columns = [f"{figure}_{method}" for figure in ("bias", "RMSE") for method in methods]
    share = (pl.col(columns[0]) / pl.col(columns[len(methods)])).abs() if methods else pl.lit(0)
    rows = wide.sort(share, descending=True).select("TABLE", by, *columns).iter_rows()
    return (
        [column.replace("_", " ") for column in columns],
        [[name, key, *map(_number, figures)] for name, key, *figures in rows],
    )


def _by_threshold(accuracy: Accuracy) -> Html | str:
    """The measured error of estimates for each threshold; empty if only one was tried."""
    first, scale = accuracy.tables["METHOD"][0], float(accuracy.variants[0].scale)
    tried = list(dict.fromkeys(one.thresholds for one in accuracy.variants))
    if len(tried) < 2:
        return ""
    wide = accuracy.tables.filter(METHOD=first, SCALE=scale).pivot(
        "THRESHOLDS", index=["TABLE", "LEVEL"], values="RMSE", maintain_order=True
    )
    labels, rows = _labels(accuracy), []
    for name, level, *values in wide.select("TABLE", "LEVEL", *tried).iter_rows():
        lowest = min(value for value in values[1:] if value is not None)
        numbers = [
            el("b", _number(value)) if i and value == lowest else _number(value) for i, value in enumerate(values)
        ]
        rows.append([name, labels[level], *numbers])
    heads = ["Table", "Level", *("config" if one == "config" else f"τ = {one}" for one in tried)]
    return table(
        f"RMSE of estimates at each threshold, {first} method; the lowest of those tried is bold",
        heads,
        rows,
        text_columns=2,
    )


def reading(accuracy: Accuracy) -> str:
    """How to interpret the figures, and where to find all of them."""
    return """<section><h2>How to read this report</h2>
<p>An error is (noisy − true) = (noisy − truncated) + (truncated − true): noise plus truncation. Noise is random and
averages out over releases; truncation is the same in every release of these data. The joint method estimates whom it
dropped and includes that uncertainty in its intervals; the independent method does not. Consider raising a threshold if
truncation is the larger part, and lowering it if noise is.</p>
<p>The files beside this page hold all figures as tidy tables separated by |, for every threshold and budget that was
tried: tabulations.csv and tables.csv by level, cells.csv and lines.csv for every published number. shares.json is
for phsafe explore --shares.</p></section>"""


def _name(accuracy: Accuracy, row: dict[str, Any]) -> tuple[str, str]:
    sums = "" if row["TERMS"] == 1 else f", sums of {row['TERMS']}"
    return f"{row['TABULATION']}{sums}", _labels(accuracy)[row["LEVEL"]]


def _number(value: float) -> str:
    """A number with at least three significant digits, and few more.

    >>> [_number(value) for value in (12345.6, -12.34, 0.012345, 0.0)]
    ['12,346', '-12.3', '0.0123', '0']
    """
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def _share(row: dict[str, Any]) -> str:
    error = f" ± {100 * row['COVERAGE_ERROR']:.1f}" if row["COVERAGE_ERROR"] is not None else ""
    return f"{100 * row['COVERAGE']:.1f}{error}"


def _labels(accuracy: Accuracy) -> dict[str, str]:
    return {level.key: level.label for level in accuracy.config.catalog.levels}


def _of(accuracy: Accuracy) -> str:
    """The variant that a section covers, if there are several."""
    return f" ({accuracy.variants[0].name})" if len(accuracy.variants) > 1 else ""


def _pooled(accuracy: Accuracy) -> Html:
    """The pooled test of every variant."""
    off = accuracy.tabulations.group_by("THRESHOLDS", "SCALE").agg(off=(~pl.col("AS_STATED")).sum())
    rows = []
    for test in accuracy.tests:
        own = off.filter(THRESHOLDS=test.variant.thresholds, SCALE=float(test.variant.scale))
        shares = (f"{100 * share:.2f}" for share in (test.within, test.expected))
        rows.append([test.variant.name, f"{test.counts:,}", *shares, f"{test.p_value:.2g}", own["off"].item()])
    heads = ("Variant", "Noisy counts", "within MOE, %", "expected, %", "p-value", "rows outside their band")
    return table("Pooled test of each variant", heads, rows)


#: The page, from top to bottom.
SECTIONS = (thresholds, counts, noise, finished, reading)
