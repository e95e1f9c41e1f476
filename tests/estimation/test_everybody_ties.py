"""Sums that are equal once everybody is counted are tied, which makes the less precise side more precise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation import estimate_frames, everybody_ties
from phsafe.estimation.beyond_threshold import everybody
from phsafe.estimation.estimate_release import joint
from phsafe.estimation.everybody_ties import TiedEverybody, tied
from phsafe.estimation.fit import fit
from phsafe.estimation.identities import matrix, same_people
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.published_lines import sum_rows
from phsafe.pipeline.scan import Settings, count
from phsafe.synthetic import synth

STATES = ("15", "44", "56")


def structured(name, drop=()):
    document = dict(parameters_2020(name)) | {"state_filter": list(STATES), "sensitivity": "structured"}
    for tabulation, levels in document["privacy_budget"].items():
        for level in levels:
            if (tabulation, level) in drop:
                levels[level] = 0
    return Config.load(document)


@pytest.fixture(scope="module")
def population(tmp_path_factory):
    """Counts of the structured config with measured truncation, and without truncation."""
    folder = synth(tmp_path_factory.mktemp("records") / "data", 60_000, STATES, seed=8)
    config = structured("us-measured")
    return [count(config, folder, Settings(skip_validation=True, truncate=cut)) for cut in (True, False)]


def estimated(config, frames):
    """The measurements of a release, and estimates of everybody without and with ties."""
    release = measured(config, frames)
    untied = everybody(release, fit(release))
    return release, untied, tied(release, untied)


def totals(release, name, level):
    """The total of a tabulation in every group of a level, as rows over all cells."""
    return sum_rows(list(release.blocks[name, level].positions()), len(release.counts))


@pytest.mark.parametrize("name", ["us-measured", "us"])
def test_totals_of_other_tables_become_as_sharp_as_the_blind_count(population, noisy, name):
    """Also without measured truncation: the tie then goes through the model of dropped people."""
    config, (kept, everyone) = structured(name), population
    scores, errors = [], {"tied": [], "untied": []}
    for seed in range(8):
        release, untied, model = estimated(config, noisy(config, kept, seed=seed))
        truth = np.concatenate([everyone[key] for key in release.blocks]).astype(float)
        blind, renters = totals(release, "PH1_num", "state_*"), totals(release, "PH7", "state_*")
        assert (renters @ model.estimates) == pytest.approx(blind @ model.estimates, abs=1e-4)
        assert np.sqrt(model.variance(renters)) == pytest.approx(np.sqrt(model.variance(blind)), rel=1e-3)
        assert np.sqrt(model.variance(renters)).max() < np.sqrt(untied.variance(renters)).min() / 5
        for label, one in (("tied", model), ("untied", untied)):
            errors[label] += list(renters @ (one.estimates - truth))
        groups = sparse.vstack([renters, totals(release, "PH7", "state_A-G"), totals(release, "PH2", "usa_*")])
        scores += list((groups @ (model.estimates - truth)) / np.sqrt(model.variance(groups)))
    assert np.std(errors["tied"]) < np.std(errors["untied"]) / 4
    assert 0.85 < np.mean(np.abs(scores) < 1.645) < 0.99


def test_covariance_and_draws_agree_with_the_variance(population, noisy):
    config = structured("us-measured")
    release, _, model = estimated(config, noisy(config, population[0], seed=3))
    rows = [totals(release, "PH7", "state_A-G"), totals(release, "PH1_num", "usa_*"), totals(release, "PH6", "state_*")]
    sums = sparse.vstack(rows, format="csr")
    covariance = model.covariance(sums)
    assert np.diag(covariance) == pytest.approx(model.variance(sums), rel=1e-6)
    assert np.linalg.eigvalsh(covariance).min() > -1e-6
    rng = np.random.default_rng(1)
    draws = model.draws(lambda size: rng.standard_normal((size, 2000)))
    assert np.var(sums @ draws, axis=1) == pytest.approx(model.variance(sums), rel=0.2)
    pairs = [totals(release, name, "state_*") for name in ("PH7", "PH1_num")]
    assert pairs[0] @ draws == pytest.approx(pairs[1] @ draws, abs=1e-3)


@pytest.mark.parametrize("levels", [("state_A-G",), ("usa_A-G", "state_A-G")])
def test_totals_are_tied_where_no_cell_is(population, noisy, levels):
    """Without the races of PH1_num in the states, only the total of PH7 counts the same people up to the threshold."""
    config = structured("us-measured", [("PH1_num", level) for level in levels])
    release, _, model = estimated(config, noisy(config, population[0], seed=5))
    assert isinstance(model, TiedEverybody)
    # Two cells of the nation count the same as those of its races, and as the sums of its states.
    by_cell, totals_only, children = 4 * (len(levels) == 1), 1 + len(STATES), 5 * (1 + len(STATES))
    assert model.ties.shape[0] == by_cell + totals_only + children
    blind = totals(release, "PH1_num", "state_*")
    for name in ("PH2", "PH7"):
        assert totals(release, name, "state_*") @ model.estimates == pytest.approx(blind @ model.estimates, abs=1e-3)


@pytest.mark.parametrize("name", ["us-measured", "us"])
def test_own_children_of_two_tables_are_tied_loosely(population, noisy, name):
    config = structured(name).with_sensitivity("published")
    *_, model = estimated(config, noisy(config, population[0], seed=2))
    assert model.ties.shape[0] == 5 * (1 + len(STATES))
    assert sorted(model.loose) == [0.5] * (1 + len(STATES)) + [3.0] * 4 * (1 + len(STATES))


def test_own_children_are_equal_without_thresholds_only(population, noisy):
    config, (kept, everyone) = structured("us-measured"), population
    release = measured(config, noisy(config, kept, scale=0))
    pairs = [pair for _, parts in same_people(config, release.blocks.values()) for pair in parts]
    rows = matrix(pairs, len(release.counts))
    assert rows.shape[0] == 4 * (1 + len(STATES))
    assert not np.any(rows @ np.concatenate([everyone[key] for key in release.blocks]))
    assert np.any(rows @ np.concatenate([kept[key] for key in release.blocks]))


@pytest.mark.parametrize("name", ["us-measured", "us"])
def test_ties_sharpen_the_children_of_ph6(population, noisy, name):
    config, (kept, everyone) = structured(name).with_sensitivity("published"), population
    scores = []
    for seed in range(8):
        release, untied, model = estimated(config, noisy(config, kept, seed=seed))
        children, total = (totals(release, "PH6", level) for level in ("state_*", "usa_*"))
        assert (children @ model.estimates).sum() == pytest.approx(float((total @ model.estimates)[0]), abs=1e-3)
        sharper = np.sqrt(model.variance(children) / untied.variance(children))
        assert np.median(sharper) < 0.35 and sharper.max() < 0.85  # Shares say little about Hawaii.
        truth = np.concatenate([everyone[key] for key in release.blocks]).astype(float)
        cells = sparse.eye_array(len(truth), format="csr")[release.blocks["PH6", "state_*"].positions().ravel()]
        scores += list((cells @ (model.estimates - truth)) / np.sqrt(model.variance(cells)))
    assert 0.85 < np.mean(np.abs(scores) < 1.645) < 0.95


def test_shares_wrong_for_both_tables_alike_do_not_sharpen_each_other(population, noisy):
    """Two predictions from the same shares aren't much more certain than the better one."""
    config, (kept, _) = structured("us").with_sensitivity("published"), population
    frames = noisy(config, {key: 1000 * counts for key, counts in kept.items()}, seed=1)
    release, untied, model = estimated(config, frames)
    exact = replace(model, loose=np.zeros_like(model.loose))
    ph3, ph6 = release.blocks["PH3", "usa_*"], release.blocks["PH6", "usa_*"]
    children = [sum_rows([p.ravel()], len(release.counts)) for p in (ph3.positions([4, 5, 6, 7]), ph6.positions())]
    deviations = [[float(np.sqrt(one.variance(row)[0])) for one in (untied, model, exact)] for row in children]
    better = min(alone for alone, *_ in deviations)
    for alone, loose, firm in deviations:
        assert firm < 0.8 * better < loose < alone


@pytest.mark.parametrize("name", ["us-measured", "us"])
def test_finished_tables_show_the_same_own_children(population, noisy, name):
    """Also where public shares predict the dropped ones, so that ties are loose."""
    config = structured(name).with_sensitivity("published")
    frames = noisy(config, population[0], seed=4)
    everybody_counted, truncated = (
        estimate_frames(config, frames, target=target).tables for target in ("everybody", "truncated")
    )
    lines = {"PH3": [3, 4, 5, 6, 7], "PH6": [1, 2, 7, 12, 17]}

    def shown(tables):
        keys = ["REGION_TYPE", "REGION_ID", "CELL"]
        rows = [tables[t].filter(pl.col("CELL").is_in(lines[t]), ITERATION_CODE="*").sort(keys) for t in lines]
        return [row["ESTIMATE"].to_list() for row in rows]

    ph3, ph6 = shown(everybody_counted)
    assert ph3 == ph6
    ph3, ph6 = shown(truncated)
    assert ph3 != ph6


def test_points_of_the_precise_table_stay_where_shares_are_uncertain(population, noisy):
    """Uncertainty about the number of dropped children is no reason to move PH3, which has the least noise."""
    config = structured("us").with_sensitivity("published")
    known = {key: 50 * kept for key, kept in population[0].items()}  # Shares are then far less certain than counts.
    moves = []
    for seed in range(4):
        release, _, cells = estimated(config, noisy(config, known, seed=seed))
        model = joint(release, cells)
        pairs = [pair for _, parts in same_people(config, release.blocks.values()) for pair in parts]
        for side in zip(*pairs, strict=True):
            rows = sum_rows(side, len(release.counts))
            noise = np.sqrt(model.cells.fit.variance(rows))
            moves.append((rows @ (model.points.counts - model.cells.estimates)) / noise)
    of_ph3, of_ph6 = np.square(moves).reshape(4, 2, -1).mean(axis=(0, 2)) ** 0.5
    assert of_ph3 < 0.4
    assert of_ph6 < 2


def test_levels_with_too_many_ties_for_memory_are_left_untied(population, noisy, monkeypatch):
    config = structured("us-measured").with_sensitivity("published")
    release = measured(config, noisy(config, population[0], seed=2))
    monkeypatch.setattr(everybody_ties, "MOST", 8 * len(release.counts))
    assert tied(release, everybody(release, fit(release))).ties.shape[0] == 5


def test_ties_sharpen_the_number_of_people_beyond(population, noisy):
    """Blind counts of the same people also say how many truncation dropped, without any measurement of them."""
    config, (kept, everyone) = structured("us"), population
    release, untied, model = estimated(config, noisy(config, kept, seed=6))
    block = release.blocks["PH7", "usa_*"]
    mean, variance = model.dropped(block)
    assert variance < untied.dropped(block)[1] / 4
    assert abs(mean - (everyone["PH7", "usa_*"].sum() - kept["PH7", "usa_*"].sum())) < 4 * np.sqrt(variance)
    assert model.about.endswith(
        "Counts without a threshold include the same people and make these estimates more precise."
    )


def test_people_beyond_include_those_in_cells_without_a_threshold(population, noisy):
    config, (kept, _) = structured("us-measured"), population
    release, _, model = estimated(config, noisy(config, kept, seed=6))
    published = structured("us-measured").with_sensitivity("published")
    other = measured(published, noisy(published, kept, seed=6))
    expected = everybody(other, fit(other)).dropped(other.blocks["PH3", "usa_*"])
    found = model.dropped(release.blocks["PH3", "usa_*"])
    assert abs(found[0] - expected[0]) < 4 * np.sqrt(found[1] + expected[1])
    assert found[0] > 1.1 * float((totals(release, "PH3", "usa_*") @ model.beyond)[0])


def test_finished_tables_use_the_ties(population, noisy):
    """The intervals of totals at * are those of the blind count, so they are narrow."""
    config, (kept, everyone) = structured("us-measured"), population
    table = estimate_frames(config, noisy(config, kept, seed=6)).tables["PH7"]
    rows = table.filter(REGION_TYPE="STATE", ITERATION_CODE="*", CELL=1).sort("REGION_ID")
    truth = everyone["PH7", "state_*"].reshape(len(STATES), -1).sum(axis=1)
    assert (rows["UPPER_90"] - rows["LOWER_90"]).max() < 40
    assert np.abs(rows["ESTIMATE"].to_numpy() - truth).max() < 60
