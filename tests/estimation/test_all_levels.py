"""All levels at once: points near the fit in every region and inside their intervals; diagnostics of single counts."""

import numpy as np
import polars as pl
import pytest

from phsafe.estimation import consistent_points, estimate_frames
from phsafe.estimation.averages import shortest
from phsafe.estimation.estimate_release import joint
from phsafe.estimation.fit import fit
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.published_lines import published_lines


@pytest.fixture(scope="module")
def large_and_small(make_config, counts):
    """A large and a small state: small cells raised to zero in one must not be paid for by the other."""
    config = make_config(states=("06", "56"))
    return config, counts(config)


def test_points_stay_near_the_fit_in_every_region(large_and_small, noisy):
    config, counts = large_and_small
    squares = {"fit": [], "points": []}
    outside = []
    for seed in range(12):
        release = measured(config, noisy(config, counts, seed=seed))
        truth = np.concatenate([counts[key] for key in release.blocks])
        model = joint(release, fit(release))
        rows = model.lines.where["PH3", "state_*"][:, [0]].ravel()
        lines = model.lines.sums
        squares["fit"].append(np.square((lines @ (model.cells.estimates - truth))[rows]).mean())
        squares["points"].append(np.square((lines @ (model.points.counts - truth))[rows]).mean())
        every = np.concatenate([where.ravel() for where in model.lines.where.values()])
        low, high = model.intervals(every)
        points = (lines @ model.points.counts)[every]
        outside.append(np.mean((points < np.floor(low)) | (points > np.ceil(high))))
    assert np.sqrt(np.mean(squares["points"]) / np.mean(squares["fit"])) < 1.25
    assert np.mean(outside) < 0.02


def test_lines_of_the_nation_weigh_more(large_and_small, noisy, make_config):
    config, counts = large_and_small
    lines = published_lines(measured(config, noisy(config, counts)))
    assert lines.weights[lines.where["PH3", "usa_*"]] == pytest.approx(np.sqrt(2))
    assert lines.weights[lines.where["PH3", "state_*"]] == pytest.approx(1)
    alone = make_config(states=("06", "56"), drop=("usa_*", "usa_A-G", "usa_H,I"))
    without = published_lines(measured(alone, noisy(alone, counts)))
    shown = sum(where.size for where in without.where.values())
    assert without.sums.shape[0] > shown
    assert set(np.round(without.weights, 3)) == {1.0, 0.707}


def test_a_large_state_pays_less_for_small_ones_that_are_raised_to_zero(make_config, noisy, monkeypatch):
    others = ("PH1_num", "PH1_denom", "PH2", "PH4", "PH5_denom", "PH6", "PH7", "PH8_denom")
    states = ("06", "15", "23", "30", "33", "38", "46", "50", "54", "56")
    config = make_config(states=states, drop=(*others, "usa_*", "usa_A-G", "state_*", "state_A-G"))
    counts = {("PH3", "state_H,I"): np.zeros(140, int), ("PH3", "usa_H,I"): np.full(14, 100_000)}
    counts["PH3", "state_H,I"][:14] = 100_000  # All other states are empty.
    releases = [measured(config, noisy(config, counts, seed=seed)) for seed in range(10)]

    def moves():
        models = [joint(release, fit(release)) for release in releases]
        rows = models[0].lines.where["PH3", "state_H,I"][:, :2].ravel()
        return [((m.lines.sums @ (m.points.counts - m.cells.estimates)) / m.scale)[rows].mean() for m in models]

    weighted = np.mean(moves())
    monkeypatch.setattr(consistent_points, "LEAST_WEIGHT", 1.0)
    assert 0.9 * np.mean(moves()) < weighted < 0  # Weighted moves are at least a tenth smaller.


def test_average_of_all_is_between_owners_and_renters(large_and_small, noisy):
    config, counts = large_and_small
    frame = estimate_frames(config, noisy(config, counts, seed=3)).tables["PH8"]
    wide = frame.pivot("CELL", index=["REGION_ID", "ITERATION_CODE"], values="ESTIMATE")
    low, high = pl.min_horizontal("2", "3"), pl.max_horizontal("2", "3")
    assert wide.select(((low <= pl.col("1")) & (pl.col("1") <= high)).all()).item()


def test_shortest_intervals_reach_the_bound():
    values = np.sort(np.random.default_rng(0).exponential(size=(1, 20_000)), axis=1) + 1
    middle = (np.arange(20_000) + 0.5)[None, :] / 20_000
    low, high = shortest(values, middle, 1.0, 100.0)
    assert low[0] == 1.0
    assert high[0] == pytest.approx(1 + np.log(10), rel=0.03)
    normal = np.sort(np.random.default_rng(1).normal(size=(1, 20_000)), axis=1)
    low, high = shortest(normal, middle, -10.0, 10.0)
    assert (low[0], high[0]) == pytest.approx((-1.645, 1.645), abs=0.15)


def test_a_moved_count_is_listed_first(large_and_small, noisy):
    config, counts = large_and_small
    frames = noisy(config, counts, seed=4)
    moved = (pl.col("REGION_TYPE") == "STATE") & (pl.col("REGION_ID") == "56") & (pl.col("ITERATION_CODE") == "*")
    moved &= pl.col("DATA_CELL") == 2
    count = (
        pl.when(moved).then(pl.col("COUNT") + 8 * pl.col("VARIANCE").sqrt().round().cast(pl.Int64)).otherwise("COUNT")
    )
    frames |= {"PH7": frames["PH7"].with_columns(COUNT=count)}
    found = estimate_frames(config, frames).diagnostics
    first = found["largest_residuals"]["counts"][0]
    assert (first["tabulation"], first["level"], first["region"], first["cell"]) == ("PH7", "state_*", "56", 2)
    assert first["standardised_residual"] > found["largest_residuals"]["expected_largest"]
    shares = [one["share_of_noise_test"] for one in found["measurements"].values()]
    assert sum(shares) == pytest.approx(1, abs=1e-4)


def test_standard_errors_are_those_of_the_fit(large_and_small, noisy):
    config, counts = large_and_small
    frames = noisy(config, counts, seed=5)
    estimates = estimate_frames(config, frames, target="truncated")
    row = estimates.table("PH2", region="CA").filter(CELL=1).row(0, named=True)
    half = (row["UPPER_90"] - row["LOWER_90"]) / 2
    assert half == pytest.approx(1.645 * row["STD_ERROR"], abs=1.5)
