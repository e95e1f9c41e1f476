"""For any noise and any subset of measurements: no negative numbers, no NaN, nothing outside its bounds."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from phsafe.errors import PHSafeError
from phsafe.estimation import estimate_frames

METHODS = ("independent", "joint")


def check(estimates):
    """Assert that every estimate is finite, non-negative, within its interval and within the bounds of its table."""
    config = estimates.config
    for table in config.catalog.tables:
        if table.name not in estimates.tables:
            continue
        frame = estimates.tables[table.name]
        numbers = frame.select("ESTIMATE", "LOWER_90", "UPPER_90")
        assert numbers.null_count().sum_horizontal().item() == 0
        assert np.isfinite(numbers.to_numpy()).all()
        assert (numbers.to_numpy() >= 0).all()
        assert frame.select((pl.col("LOWER_90") <= pl.col("ESTIMATE")).all()).item()
        assert frame.select((pl.col("ESTIMATE") <= pl.col("UPPER_90")).all()).item()
        groups = len(frame) // len(table.shell)
        assert len(frame) == groups * len(table.shell)
        if table.average is not None:
            tau = config.tau[config.catalog.measured(next(
                o for o in config.catalog.outputs if o.name == table.average.numerator)).name]  # fmt: skip
            assert numbers.to_numpy().max() <= tau
            total = frame.filter(CELL=1).select("ESTIMATE", "LOWER_90", "UPPER_90").to_numpy()
            assert total.min() >= table.average.at_least
        else:
            assert frame["ESTIMATE"].dtype == pl.Int64


@settings(
    max_examples=5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.0, 1.0, 6.0, 30.0]),
    empty=st.booleans(),
    privacy=st.sampled_from(["zcdp", "puredp"]),
    mode=st.sampled_from(["published", "tight", "tight-bounded"]),
)
def test_estimates_respect_their_bounds(three_states, noisy, make_config, seed, scale, empty, privacy, mode):
    config = make_config(privacy_defn=privacy, sensitivity=mode)
    counts = {key: 0 * vector for key, vector in three_states[1].items()} if empty else three_states[1]
    frames = noisy(config, counts, seed=seed, scale=scale)
    for method in METHODS:
        check(estimate_frames(config, frames, method))


def test_puerto_rico_has_state_rows_only(make_config, noisy, counts):
    config = make_config(states=("72",))
    frames = noisy(config, counts(config), seed=2)
    for method in METHODS:
        estimates = estimate_frames(config, frames, method)
        check(estimates)
        assert len(estimates.tables) == 8
        assert estimates.tables["PH3"]["REGION_TYPE"].unique().to_list() == ["STATE"]


@pytest.mark.parametrize(
    ("drop", "missing"),
    [
        (("usa_*", "usa_A-G", "usa_H,I"), set()),
        (("usa_*", "state_A-G"), set()),
        (("PH1_num", "PH2"), {"PH1", "PH2"}),
        (("PH7",), {"PH7", "PH8"}),
        (("PH8_denom", "PH5_denom", "state_*"), {"PH5", "PH8"}),
        (("usa_*", "usa_A-G", "usa_H,I", "state_*", "state_H,I"), {"PH2", "PH6"}),
        ((("PH1_denom", "usa_*"), ("PH1_denom", "state_A-G"), ("PH7", "state_H,I")), set()),
    ],
)
def test_partial_releases_leave_out_only_what_they_must(three_states, noisy, make_config, drop, missing):
    config = make_config(drop=drop)
    frames = noisy(config, three_states[1], seed=4)
    for method in METHODS:
        estimates = estimate_frames(config, frames, method)
        check(estimates)
        assert set(estimates.diagnostics["left_out"]) == missing
        assert set(estimates.tables) == {t.name for t in config.catalog.tables} - missing
        assert all("no measurements of" in reason for reason in estimates.diagnostics["left_out"].values())


def test_average_without_a_common_level_is_left_out(three_states, noisy, make_config):
    config = make_config(drop=[("PH1_num", "usa_*"), *(("PH1_denom", level) for level in ALL_BUT_NATION_TOTAL)])
    estimates = estimate_frames(config, noisy(config, three_states[1]), "joint")
    assert estimates.diagnostics["left_out"] == {"PH1": "the release has no level with both PH1_num and PH1_denom"}


ALL_BUT_NATION_TOTAL = ("usa_A-G", "usa_H,I", "state_*", "state_A-G", "state_H,I")


def test_bad_measurements_are_refused(three_states, noisy):
    config, counts = three_states
    good = noisy(config, counts)
    with pytest.raises(PHSafeError, match="method: expected one of independent, joint, got guess"):
        estimate_frames(config, good, "guess")
    cases = {
        "expected positive variances, but 2 are not": pl.col("VARIANCE") * (pl.int_range(pl.len()) > 1),
        "expected positive variances, but 6 are not": pl.lit(float("nan")).alias("VARIANCE"),
        "at most 10,000,000,000 people, but 6 are larger or not numbers": pl.lit(10**15).alias("COUNT"),
        "but 3 are larger or not numbers": pl.lit(float("nan")).alias("COUNT"),
        "expected one of Discrete Gaussian, Two-Sided": pl.lit("Cauchy").alias("NOISE_DISTRIBUTION"),
    }
    for message, change in cases.items():
        with pytest.raises(PHSafeError, match=message):
            estimate_frames(config, good | {"PH7": good["PH7"].with_columns(change)})
    with pytest.raises(PHSafeError, match="PH7: the release has no measurements of it"):
        estimate_frames(config, {name: frame for name, frame in good.items() if name != "PH7"})
    with pytest.raises(PHSafeError, match=r"PH7 State × ethnicity \(H, I\): 1 of 18 noisy counts are missing"):
        estimate_frames(config, good | {"PH7": good["PH7"].head(-1)})
    with pytest.raises(PHSafeError, match="expected one noisy count per cell"):
        estimate_frames(config, good | {"PH7": pl.concat([good["PH7"], good["PH7"].head(1)])})
