"""Errors and coverage of finished tables."""

from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from phsafe.accuracy_study.study_page import page
from phsafe.accuracy_study.table_errors import Finished, finished, lines_of, rows_of
from phsafe.accuracy_study.variants import Variant


def frame(values, names=("VALUE",)):
    keys = {"REGION_TYPE": "STATE", "REGION_ID": "50", "ITERATION_CODE": "*"}
    rows = [{**keys, "CELL": i, **dict(zip(names, value, strict=True))} for i, value in enumerate(values)]
    return pl.DataFrame(rows)


def test_coverage_of_truncated_value_and_of_truth(make_config):
    variant = Variant(None, Decimal(1), make_config())
    true = frame([(10.0,), (20.0,), (float("nan"),)]).with_columns(LEVEL=pl.lit("state_*"))
    cut = frame([(8.0,), (20.0,), (float("nan"),)]).with_columns(LEVEL=pl.lit("state_*"))
    names = ("LABEL", "ESTIMATE", "LOWER_90", "UPPER_90")
    releases = [
        {"joint": {"PH1": frame([("a", 7, 6, 10), ("b", 20, 20, 20), ("c", 1, 1, 1)], names)}},
        {"joint": {"PH1": frame([("a", 11, 9, 12), ("b", 26, 21, 30), ("c", 1, 1, 1)], names)}},
    ]
    (one,) = finished(variant, {"PH1": true}, {"PH1": cut}, releases)
    (row,) = rows_of(one)
    assert (row["LINES"], row["RELEASES"]) == (2, 2)
    assert row["COVERAGE_TRUNCATED"] == 0.5
    assert row["COVERAGE"] == 0.75
    assert row["COVERAGE_ERROR"] == pytest.approx(0.25)
    assert row["BIAS"] == pytest.approx(np.mean([-3, 0, 1, 6]))
    assert row["NOISE_BIAS"] == pytest.approx(np.mean([-1, 0, 3, 6]))
    assert row["TRUNCATION_BIAS"] == -1
    assert row["WIDTH"] == pytest.approx(np.mean([4, 0, 3, 9]))
    lines = lines_of(one)
    assert lines["COVERAGE"].to_list() == [1.0, 0.5]
    assert lines["COVERAGE_TRUNCATED"].to_list() == [0.5, 0.5]
    assert lines["TRUNCATION"].to_list() == [-2, 0]
    assert isinstance(one, Finished)


def test_both_methods_finish_the_same_releases(report):
    rows = report.base(report.tables)
    assert set(rows["METHOD"]) == {"joint", "independent"}
    assert set(rows["TABLE"]) == {"PH7", "PH8"}
    assert set(rows["RELEASES"]) == {1}
    # The truth and the effect of truncation don't depend on the method.
    truncation = rows.group_by("TABLE", "LEVEL").agg(pl.col("TRUNCATION_BIAS").n_unique(), pl.col("LINES").n_unique())
    assert truncation["TRUNCATION_BIAS"].max() == truncation["LINES"].max() == 1


def test_intervals_cover_the_truth(report):
    """Coverage is far from 90 % only if something is wrong.

    These few households are unlike any population, so public shares say little about those beyond low thresholds.
    """
    share = report.lines.filter(METHOD="joint", TABLE="PH7", THRESHOLDS="5", SCALE=1.0)["COVERAGE"].mean()
    assert 0.8 < share <= 1


def test_raw_counts_and_least_squares_are_shown_beside_the_methods(report):
    """The finished release of a study: raw errors are exactly those of its noisy counts, and the fit removes some."""
    lines = report.base(report.lines).filter(TABLE="PH7")
    assert set(lines["METHOD"]) == {"joint", "independent", "raw", "least squares"}
    assert lines.group_by("METHOD").len()["len"].n_unique() == 1
    assert lines.filter(METHOD="raw")["COVERAGE"].null_count() == len(lines) // 4
    level = lines.filter(LEVEL="state_*", CELL=1)
    errors = {method: level.filter(METHOD=method)["RMSE"].pow(2).mean() for method in ("raw", "least squares")}
    assert errors["least squares"] != errors["raw"] > 0
    whole = lines.filter(METHOD="raw").pivot("CELL", index=["LEVEL", "REGION_ID", "ITERATION_CODE"], values="ESTIMATE")
    assert whole.select((pl.col("1") - pl.col("2") - pl.col("3") - pl.col("4")).abs().max()).item() < 1e-6
    shown = page(report)
    assert "bias least squares" in shown and "RMSE raw" in shown
    assert "Bias by region" in shown and "Bias by true size" in shown
