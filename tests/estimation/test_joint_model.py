"""The joint method: least squares against dense algebra, and consistency of the tables."""

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from phsafe.estimation import estimate_frames
from phsafe.estimation.estimate_release import joint as joint_model
from phsafe.estimation.fit import fit, noise_test, removed_shares
from phsafe.estimation.identities import identities, independent, matrix
from phsafe.estimation.measurement_vector import measured

GROUP = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]


@pytest.fixture(scope="module")
def joint(three_states, noisy):
    config, counts = three_states
    return estimate_frames(config, noisy(config, counts, seed=5), "joint")


def test_identities_hold_for_exact_counts(three_states, noisy):
    config, counts = three_states
    release = measured(config, noisy(config, counts))
    truth = np.concatenate([counts[key] for key in release.blocks])
    rows = matrix(identities(release), len(truth))
    assert rows.shape[0] > 100
    assert np.abs(rows @ truth).max() == 0


@pytest.mark.parametrize(
    "drop", [(), ("usa_*",), ("state_A-G",), ("usa_*", "state_A-G"), ("PH1_num",), ("usa_A-G", "PH7")]
)
def test_only_linearly_independent_identities_are_kept(three_states, noisy, make_config, drop):
    config = make_config(drop=drop)
    release = measured(config, noisy(config, three_states[1]))
    everything = matrix(identities(release), len(release.counts)).toarray()
    kept = independent(identities(release), np.ones(len(release.counts), bool)).toarray()
    assert np.linalg.matrix_rank(everything) == len(kept) == np.linalg.matrix_rank(kept)


def test_fit_equals_dense_generalised_least_squares(three_states, noisy, make_config):
    config = make_config(drop=("PH2", "PH3", "PH4", "PH5_denom", "PH6", "PH8_denom", "usa_H,I", "state_H,I"))
    release = measured(config, noisy(config, three_states[1]))
    fitted = fit(release)
    rows = matrix(identities(release), len(release.counts)).toarray()
    # An orthonormal basis of all vectors that satisfy the identities.
    _, values, vectors = np.linalg.svd(rows)
    free = vectors[np.sum(values > 1e-9) :].T
    weight = np.diag(1 / release.variances)
    covariance = free @ np.linalg.inv(free.T @ weight @ free) @ free.T
    assert fitted.estimates == pytest.approx(covariance @ weight @ release.counts, rel=1e-9)
    sums = np.random.default_rng(0).integers(-1, 2, (40, len(release.counts))).astype(float)
    assert fitted.variance(sparse.csr_array(sums)) == pytest.approx(np.diag(sums @ covariance @ sums.T), rel=1e-8)
    residuals = release.counts - fitted.estimates
    assert fitted.squares == pytest.approx((residuals**2 / release.variances).sum())


def test_states_add_up_to_the_nation_and_races_to_the_total(joint):
    for name, frame in joint.tables.items():
        if frame["ESTIMATE"].dtype != pl.Int64:
            continue
        nation = frame.filter(REGION_TYPE="USA").select("ITERATION_CODE", "CELL", "ESTIMATE")
        states = frame.filter(REGION_TYPE="STATE").group_by("ITERATION_CODE", "CELL").agg(pl.col("ESTIMATE").sum())
        both = nation.join(states, on=["ITERATION_CODE", "CELL"], suffix="_S")
        assert len(both) == len(nation), name
        assert both["ESTIMATE"].equals(both["ESTIMATE_S"]), name
        wide = frame.pivot("ITERATION_CODE", index=["REGION_ID", "CELL"], values="ESTIMATE")
        if "A" in wide.columns:
            assert (sum(wide[code] for code in "ABCDEFG") == wide["*"]).all(), name
            assert (wide["H"] + wide["I"] <= wide["*"]).all(), name
            assert (wide["I"] <= wide["A"]).all(), name


def test_tables_are_consistent_with_each_other(joint):
    total = {name: joint.tables[name].filter(CELL=1) for name in joint.tables}
    people = total["PH7"].join(total["PH2"], on=GROUP, suffix="_2")
    assert len(people) == 4
    assert people["ESTIMATE"].equals(people["ESTIMATE_2"])
    size = total["PH1"].join(total["PH8"], on=GROUP, suffix="_8")
    for column in ("ESTIMATE", "LOWER_90", "UPPER_90"):
        assert size[column].equals(size[f"{column}_8"].rename(column))
    families = total["PH7"].join(total["PH4"], on=GROUP, suffix="_4")
    assert families.select(pl.col("ESTIMATE_4") <= pl.col("ESTIMATE")).to_series().all()


def test_lines_add_up_as_printed(three_states, joint):
    for table in three_states[0].catalog.tables:
        wide = joint.tables[table.name].pivot("CELL", index=GROUP, values="ESTIMATE")
        for line in table.shell:
            if line.of and len(set((table.average.per if table.average else {1: 1}).values())) == 1:
                parts = wide.select(pl.sum_horizontal([str(n) for n in line.of])).to_series()
                assert np.allclose(parts, wide[str(line.number)], atol=1e-9)


def test_exact_counts_are_left_unchanged(three_states, noisy):
    """Measurements that are already consistent and feasible don't move."""
    config, counts = three_states
    frames = noisy(config, counts, scale=0.0)
    release = measured(config, frames)
    consistent = joint_model(release, fit(release)).points
    truth = np.concatenate([counts[key] for key in release.blocks])
    assert consistent.moved == 0 and consistent.nested
    assert np.array_equal(consistent.counts[consistent.shown], truth[consistent.shown])


def p_value(release):
    fitted = fit(release)
    return noise_test(fitted, release, removed_shares(fitted.projection))[2]


def test_noise_test_detects_wrong_noise(three_states, noisy, make_config):
    config, counts = three_states
    for scale, low, high in ((1.0, 0.001, 0.999), (1.5, 0, 1e-6), (0.6, 1 - 1e-6, 1)):
        release = measured(config, noisy(config, counts, seed=11, scale=scale))
        assert low <= p_value(release) <= high
    pure = make_config(privacy_defn="puredp")
    values = []
    for seed in range(15):
        release = measured(pure, noisy(pure, counts, seed=seed))
        values.append(p_value(release))
    assert 0.2 < np.mean(values) < 0.8
    assert min(values) > 1e-4


def test_the_same_release_gives_the_same_tables(three_states, noisy, joint):
    config, counts = three_states
    again = estimate_frames(config, noisy(config, counts, seed=5), "joint")
    assert all(again.tables[name].equals(joint.tables[name]) for name in joint.tables)


@pytest.mark.parametrize(("times", "budget"), [(30_000, 1), (1, 100_000), (30_000, 100_000), (0, 1)])
def test_counts_are_consistent_for_any_size_of_population_and_noise(three_states, noisy, make_config, times, budget):
    """Hundreds of millions of people, noise below one person, or no people at all."""
    config, counts = three_states
    budgets = {
        name: {level: value * budget for level, value in levels.items()} for name, levels in config.budgets.items()
    }
    config = make_config(privacy_budget=budgets)
    release = measured(config, noisy(config, {key: vector * times for key, vector in counts.items()}))
    fitted = fit(release)
    consistent = joint_model(release, fitted).points
    blocks = [block for block in release.blocks.values() if consistent.shown[block.start]]
    assert np.abs(matrix(identities(release, blocks), len(release.counts)) @ consistent.counts).max() == 0
    assert consistent.counts.min() >= 0
    far = np.abs(consistent.counts - fitted.estimates)[consistent.shown] / np.sqrt(release.variances[consistent.shown])
    assert np.median(far) < 1
