"""The sections of the page: thresholds, noise, noisy counts, finished tables, and how to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from phsafe.appraisal import plots
from phsafe.appraisal.curves import curves
from phsafe.display.html import Html, el
from phsafe.reporting.parts import table

if TYPE_CHECKING:
    from phsafe.appraisal.run import Accuracy

#: What the small pictures in tables span: coverage, and a MOE over the one expected.
COVERAGE_ENDS = (0.7, 1.0)
MOE_ENDS = (0.5, 1.5)
DOTS = {"joint": "d0", "independent": "d2"}


def thresholds(accuracy: Accuracy) -> str:
    """Total error against τ, and the people lost; nothing where one threshold was tried."""
    found = curves(accuracy)
    if not found:
        return ""
    pictures = [
        plots.svg(
            plots.panel(of, plots.panel_title(of[0]), number),
            plots.WIDTH,
            plots.HEIGHT,
            f"{plots.panel_title(of[0])}: total error is least at {of[0].least}",
        )
        for number, of in enumerate(found.values())
    ]
    taus = sorted({tau for of in accuracy.shares.values() for tau in of})
    lost = [[name, *(f"{of[tau]:.3f}" if tau in of else "–" for tau in taus)] for name, of in accuracy.shares.items()]
    key = plots.legend(next(iter(found.values())))
    return f"""<section><h2>Total error against the threshold</h2>
<p>As τ grows, truncation takes less away and noise adds more. Shown is the root of the mean squared error of a
cell: lines by the stated variance and the exact truncation, dots as measured. Large errors are cut off; ≤ and ≥ say
that the least is at the end of what was tried.</p>
<div class="scroll legend" tabindex="0" role="region" aria-label="Key">{key}</div>
<div class="panels">{"".join(pictures)}</div></section>
<section><h2>People lost, in percent</h2>
<p>The share of a tabulation’s people who stand beyond the threshold in their household.</p>
{table("Percent of people lost", ["Tabulation", *(f"τ = {tau}" for tau in taus)], lost)}</section>"""


def counts(accuracy: Accuracy) -> str:
    """Errors of noisy counts under the config, level by level."""
    body = []
    for row in accuracy.base(accuracy.tabulations).iter_rows(named=True):
        part = row["TRUNCATION_RMSE"] ** 2 / row["RMSE_EXPECTED"] ** 2
        columns = ("MAE", "RMSE", "BIAS", "NOISE_RMSE", "NOISE_BIAS", "TRUNCATION_RMSE", "TRUNCATION_BIAS")
        numbers = [_number(row[column]) for column in columns]
        body.append([*_name(accuracy, row), row["TAU"] or "–", row["CELLS"], *numbers, f"{100 * part:.1f} %"])
    heads = (
        "Tabulation", "Level", "τ", "Cells", "MAE", "RMSE", "Bias", "Noise: RMSE", "bias", "Truncation: RMSE", "bias",
        "its part",
    )  # fmt: skip
    return f"""<section><h2>Noisy counts{_of(accuracy)}</h2>
<p>MAE, RMSE and bias against the truth with everybody in it; then of what noise adds, and of what truncation
takes. The part of truncation is its share of the expected squared error.</p>
{table("Errors of noisy counts", heads, body, words=2)}</section>"""


def noise(accuracy: Accuracy) -> str:
    """The measured MOE of noise against the expected one."""
    body = []
    for row in accuracy.base(accuracy.tabulations).iter_rows(named=True):
        expected = max(row["MOE_EXPECTED"], 1)
        dot = (row["MOE"] / expected, "d0" if row["AS_STATED"] else "bad")
        band = row["MOE_LOWEST"] / expected, row["MOE_HIGHEST"] / expected
        body.append(
            [
                *_name(accuracy, row), f"{row['CELLS'] * row['RELEASES']:,}", f"{row['MOE_EXPECTED']:,}",
                f"{row['MOE']:,}", f"{row['MOE_LOWEST']:,} – {row['MOE_HIGHEST']:,}",
                plots.strip(*band, [dot], 1.0, MOE_ENDS), f"{row['P_VALUE']:.2g}",
                "yes" if row["AS_STATED"] else el("b", "no", class_="wrong"),
            ]
        )  # fmt: skip
    heads = (
        "Tabulation", "Level", "Noisy counts", "90 % MOE expected", "measured", "band", "measured / expected",
        "p-value", "as stated",
    )  # fmt: skip
    return f"""<section><h2>Is the noise as stated?{_of(accuracy)}</h2>
<p>The 90 % margin of error as measured, and the band around the exact one in which that of sound noise lies.
All bands and pooled tests of this report together leave sound noise out in at most {accuracy.false_alarm:g} of
reports. The small pictures span {MOE_ENDS[0]} to {MOE_ENDS[1]}.</p>
{table("Margins of error, measured and expected", heads, body, words=2)}{_pooled(accuracy)}</section>"""


def finished(accuracy: Accuracy) -> str:
    """Errors and coverage of finished tables under the config, level by level."""
    if not accuracy.estimated:
        return ""
    by_level: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in accuracy.base(accuracy.tables).iter_rows(named=True):
        by_level.setdefault((row["TABLE"], row["LEVEL"]), {})[row["METHOD"]] = row
    labels, errors, coverage = _labels(accuracy), [], []
    for (name, level), rows in by_level.items():
        any_row = next(iter(rows.values()))
        dots = [(row["COVERAGE_TRUNCATED"], DOTS[method]) for method, row in rows.items()]
        numbers = (_number(row[column]) for column in ("MAE", "RMSE", "BIAS") for row in rows.values())
        errors.append([name, labels[level], any_row["LINES"], *numbers, _number(any_row["TRUNCATION_BIAS"])])
        shares = (f"{100 * row['COVERAGE']:.1f}" for row in rows.values())
        widths = (_number(row["WIDTH"]) for row in rows.values())
        picture = plots.strip(0, 0, dots, 0.9, COVERAGE_ENDS)
        coverage.append([name, labels[level], *map(_share, rows.values()), picture, *shares, *widths])
    methods = accuracy.tables["METHOD"].unique(maintain_order=True).to_list()

    def heads(*kinds: str) -> list[str]:
        return [f"{kind} {method}" for kind in kinds for method in methods]

    error_heads = ["Table", "Level", "Lines", *heads("MAE", "RMSE", "bias"), "of it truncation"]
    coverage_heads = ["Table", "Level", *heads("%"), "70 to 100 %", *heads("of the truth, %", "width")]
    return f"""<section><h2>Finished tables{_of(accuracy)}</h2>
<p>{accuracy.estimated} of the releases, finished by both methods. An interval speaks of the truncated value,
and its coverage is of that (± its standard error between releases); then how often it holds the truth with
everybody in it. The dashed line is at 90 %, the blue dot is the joint method, the other the independent one.
Averages over no households have no truth and are left out.</p>
{table("Errors of estimates", error_heads, errors, words=2)}
{table("Coverage of 90 % intervals", coverage_heads, coverage, words=2)}{_by_threshold(accuracy)}</section>"""


def _by_threshold(accuracy: Accuracy) -> Html | str:
    """The measured error of estimates under each set of thresholds, where there are several."""
    first, scale = accuracy.tables["METHOD"][0], float(accuracy.scenarios[0].scale)
    tried = list(dict.fromkeys(one.thresholds for one in accuracy.scenarios))
    if len(tried) < 2:
        return ""
    wide = accuracy.tables.filter(METHOD=first, SCALE=scale).pivot(
        "THRESHOLDS", index=["TABLE", "LEVEL"], values="RMSE", maintain_order=True
    )
    labels, rows = _labels(accuracy), []
    for name, level, *values in wide.select("TABLE", "LEVEL", *tried).iter_rows():
        least = min(value for value in values[1:] if value is not None)
        numbers = [
            el("b", _number(value)) if i and value == least else _number(value) for i, value in enumerate(values)
        ]
        rows.append([name, labels[level], *numbers])
    heads = ["Table", "Level", *("config" if one == "config" else f"τ = {one}" for one in tried)]
    return table(
        f"RMSE of estimates at each threshold, {first}; the least of those tried is bold",
        heads,
        rows,
        words=2,
    )


def reading(accuracy: Accuracy) -> str:
    """What the numbers mean, and where all of them are."""
    return """<section><h2>How to read it</h2>
<p>An error is (noisy − true) = (noisy − truncated) + (truncated − true): what noise adds, and what truncation
takes. The first part is random and averages out over releases; the second is the same in every release of these
data, and no interval knows of it. A threshold is worth raising while truncation is the larger part, and
lowering while noise is.</p>
<p>All of it as tidy tables, separated by |, lies beside this page: tabulations.csv and tables.csv by level,
cells.csv and lines.csv for every published number, under every threshold and budget that was tried. shares.json
is for phsafe explore --shares.</p></section>"""


def _name(accuracy: Accuracy, row: dict[str, Any]) -> tuple[str, str]:
    sums = "" if row["TERMS"] == 1 else f", sums of {row['TERMS']}"
    return f"{row['TABULATION']}{sums}", _labels(accuracy)[row["LEVEL"]]


def _number(value: float) -> str:
    """Three significant digits or more, and no more than help.

    >>> [_number(value) for value in (12345.6, -12.34, 0.012345, 0.0)]
    ['12,346', '-12.3', '0.0123', '0']
    """
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def _share(row: dict[str, Any]) -> str:
    error = f" ± {100 * row['COVERAGE_ERROR']:.1f}" if row["COVERAGE_ERROR"] is not None else ""
    return f"{100 * row['COVERAGE_TRUNCATED']:.1f}{error}"


def _labels(accuracy: Accuracy) -> dict[str, str]:
    return {level.key: level.label.strip("()") for level in accuracy.config.catalog.levels}


def _of(accuracy: Accuracy) -> str:
    """Which scenario a section is about, where there are several."""
    return f" ({accuracy.scenarios[0].name})" if len(accuracy.scenarios) > 1 else ""


def _pooled(accuracy: Accuracy) -> Html:
    """The pooled test of every scenario."""
    off = accuracy.tabulations.group_by("THRESHOLDS", "SCALE").agg(off=(~pl.col("AS_STATED")).sum())
    rows = []
    for test in accuracy.tests:
        mine = off.filter(THRESHOLDS=test.scenario.thresholds, SCALE=float(test.scenario.scale))
        shares = (f"{100 * share:.2f}" for share in (test.within, test.expected))
        rows.append([test.scenario.name, f"{test.counts:,}", *shares, f"{test.p_value:.2g}", mine["off"].item()])
    heads = ("Scenario", "Noisy counts", "within MOE, %", "expected, %", "p-value", "rows out of their band")
    return table("All noise of a scenario together", heads, rows)


#: The page, from top to bottom.
SECTIONS = (thresholds, counts, noise, finished, reading)
