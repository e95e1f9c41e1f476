"""Errors split into noise and truncation, and detection of noise that is not as stated."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

import phsafe
from phsafe.accuracy_study import accuracy, trials
from phsafe.accuracy_study.count_errors import errors, pooled
from phsafe.accuracy_study.variants import variants
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.privacy.mechanism import Session, make_noise, noise_of

from .conftest import NEVER, SMALL

#: Enough noisy counts by race in ten releases (2,520) to detect a difference of 20 %.
STATES = ("02", "15", "16", "22", "26", "30", "38", "42", "44", "49", "50", "56")
KEYS = ["TABULATION", "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL"]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_truncation_error_is_truncated_minus_untruncated_count(report, number):
    variant = report.variants[number]
    cells = report.cells.filter(THRESHOLDS=variant.thresholds, SCALE=1.0)
    untruncated, truncated = (
        phsafe.tabulate(variant.config, SMALL, truncate=truncate, skip_validation=True).rename({"COUNT": name})
        for truncate, name in ((False, "ALL"), (True, "CUT"))
    )
    both = cells.join(untruncated, on=KEYS, validate="1:1").join(truncated, on=KEYS, validate="1:1")
    assert len(both) == len(cells) == len(untruncated)
    assert both["TRUTH"].equals(both["ALL"], check_names=False)
    assert both["TRUNCATION"].equals((both["CUT"] - both["ALL"]).alias("TRUNCATION"))
    assert both.filter(TABULATION="PH7")["TRUNCATION"].sum() < 0


def test_what_truncation_drops_is_its_own_truth():
    """It has noise but no truncation error, at every threshold, and is compared with the count at that threshold."""
    document = parameters_2020("us-measured") | {"state_filter": ["50", "56"]}
    kept = ("PH7", "PH1_dropped", "PH7_oversized")
    budgets = document["privacy_budget"]
    document["privacy_budget"] = {n: of if n in kept else dict.fromkeys(of, 0) for n, of in budgets.items()}
    config = Config.load(document | {"tau": dict.fromkeys(document["tau"], 3)})
    found = accuracy(
        config,
        SMALL,
        trials=2,
        estimate_trials=1,
        tau=[2],
        public=True,
        false_alarm=NEVER,
        skip_validation=True,
        jobs=1,
    )
    rows = found.tabulations.filter(pl.col("TABULATION").is_in(["PH1_dropped", "PH7_oversized"]))
    assert set(rows["TAU"]) == {2, 3}
    assert rows["TRUNCATION_RMSE"].max() == 0
    assert rows["AS_STATED"].all()
    totals = found.cells.filter(TABULATION="PH1_dropped", REGION_TYPE="USA").group_by("THRESHOLDS").agg(pl.sum("TRUTH"))
    assert totals.height == 2
    for variant in found.variants:
        exact = phsafe.tabulate(variant.config, SMALL, skip_validation=True)
        known = exact.filter(TABULATION="PH1_dropped", REGION_TYPE="USA")["COUNT"].sum()
        assert totals.filter(THRESHOLDS=variant.thresholds)["TRUTH"].item() == known > 0


def test_errors_are_the_sum_of_their_parts(report):
    rows = report.tabulations
    assert np.allclose(rows["BIAS"], rows["NOISE_BIAS"] + rows["TRUNCATION_BIAS"], atol=1e-9)
    cells = report.cells.group_by("TABULATION", "LEVEL", "THRESHOLDS", "SCALE").agg(
        pl.col("TRUNCATION", "BIAS").mean(), RMSE=(pl.col("RMSE") ** 2).mean().sqrt()
    )
    plain = rows.filter(pl.col("TABULATION") != "PH8_num")
    both = plain.join(cells, on=["TABULATION", "LEVEL", "THRESHOLDS", "SCALE"], suffix="_CELLS", validate="1:1")
    assert len(both) == len(plain)
    for one, other in (("BIAS", "BIAS_CELLS"), ("RMSE", "RMSE_CELLS"), ("TRUNCATION_BIAS", "TRUNCATION")):
        assert np.allclose(both[one], both[other])
    units = rows.filter(pl.col("TAU").is_null())
    assert set(units["TABULATION"]) == {"PH8_denom"}
    assert units["TRUNCATION_RMSE"].max() == 0


def test_larger_budgets_reduce_noise_and_larger_thresholds_reduce_truncation(report):
    rows = report.tabulations.filter(TABULATION="PH7", LEVEL="state_*")
    noise = {(row["TAU"], row["SCALE"]): row["RMSE_EXPECTED"] ** 2 - row["TRUNCATION_RMSE"] ** 2
             for row in rows.iter_rows(named=True)}  # fmt: skip
    # σ² = 2(τ+1)²/ρ in the published mode.
    assert noise[5, 1.0] == pytest.approx(100 * noise[5, 100.0])
    assert noise[5, 1.0] / noise[1, 1.0] == pytest.approx(9)
    lost = rows.filter(SCALE=1.0).sort("TAU")["TRUNCATION_RMSE"]
    assert lost.is_sorted(descending=True)
    assert lost.n_unique() == 3


def test_sums_of_noisy_counts_have_their_own_moe(report):
    rows = report.base(report.tabulations).filter(LEVEL="state_A-G")
    one, two = (rows.filter(TABULATION="PH8_num", TERMS=terms)["MOE_EXPECTED"].item() for terms in (1, 2))
    assert two / one == pytest.approx(2**0.5, abs=0.02)
    assert one == rows.filter(TABULATION="PH7")["MOE_EXPECTED"].item()


def test_expected_moe_equals_that_of_the_budget(report):
    expected = {(row.event.tabulation, row.event.level): row.moe_exact for row in phsafe.budget(report.config).rows}
    rows = report.base(report.tabulations).filter(pl.col("TABULATION").is_in([name for name, _ in expected]))
    assert {(row["TABULATION"], row["LEVEL"]): row["MOE_EXPECTED"] for row in rows.iter_rows(named=True)} == expected


def test_correct_noise_is_as_stated(report):
    assert report.as_stated
    assert {test.counts for test in report.tests} == {6 * 3 * 10 * (3 + 2)}
    assert all(0.8 < test.within < 1 and 0.9 <= test.expected < 0.95 for test in report.tests)


class _TooLittle(Session):
    """A broken session: its noise has a different scale from the calibrated one."""

    factor = 0.8

    def __init__(self, config, counts):
        super().__init__(config, counts)
        self._config, self._counts = config, counts

    def measure(self, m):
        (noise,) = noise_of(self._config, m)
        exact = self._counts[m.tabulation.name, m.level.key]
        self.completed.append((m, (noise,)))
        return make_noise(self._config.privacy, len(exact), self.factor * noise.scale)(exact.tolist())


class _TooMuch(_TooLittle):
    factor = 1.25


@pytest.mark.parametrize(("broken", "definition"), [(_TooLittle, "zcdp"), (_TooMuch, "puredp")])
def test_noise_with_wrong_scale_is_flagged(make_config, monkeypatch, broken, definition):
    monkeypatch.setattr(trials, "open_session", broken)
    found = accuracy(
        make_config(STATES, kept=("PH7",), privacy_defn=definition), SMALL, trials=10, estimate_trials=0, public=True,
        skip_validation=True, jobs=1,
    )  # fmt: skip
    assert not found.as_stated
    assert not found.tests[0].as_stated
    off = found.tabulations.filter(~pl.col("AS_STATED"))
    assert "state_A-G" in set(off["LEVEL"])
    side = pl.col("MOE") < pl.col("MOE_LOWEST") if broken is _TooLittle else pl.col("MOE") > pl.col("MOE_HIGHEST")
    assert off.select(side.all()).item()


def test_same_study_passes_with_correct_noise(make_config):
    found = accuracy(
        make_config(STATES, kept=("PH7",), privacy_defn="puredp"), SMALL, trials=10, estimate_trials=1, public=True,
        skip_validation=True, false_alarm=NEVER, jobs=1,
    )  # fmt: skip
    assert found.as_stated


def test_two_outliers_are_not_enough_to_fail_the_pooled_test(make_config):
    """With correct noise, two counts out of two are outside their MOE in one run of a hundred."""
    config = make_config(kept=("PH8_denom",))
    config = replace(config, budgets={**config.budgets, "PH8_denom": {**dict.fromkeys(config.budgets["PH8_denom"], 0),
                                                                     "usa_*": Decimal("0.001")}})  # fmt: skip
    (variant,) = variants(config)
    counts = {("PH8_denom", "usa_*"): np.array([7, 9])}
    far = {key: np.array([vector + 10**6]) for key, vector in counts.items()}
    (one,) = errors(variant, counts, counts, far)
    test = pooled(variant, [one], 0.001)
    assert test.counts == 2
    assert test.p_value == pytest.approx(2 * (1 - test.expected) ** 2)
    assert test.as_stated
