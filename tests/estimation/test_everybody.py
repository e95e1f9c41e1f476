"""Estimates of everybody: dropped persons, oversized households and public shares."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from phsafe import CENSUS_2020
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.estimation import estimate_frames
from phsafe.estimation.beyond_threshold import everybody
from phsafe.estimation.fit import fit
from phsafe.estimation.identities import identities, matrix
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.public_shares import public_shares
from phsafe.estimation.published_lines import sum_rows
from phsafe.estimation.universe_model import _attributes
from phsafe.model.schema import US_STATES
from phsafe.model.spec import Catalog
from phsafe.pipeline.scan import Settings, count
from phsafe.synthetic import synth

STATES = ("06", "15", "56")
STATE_LEVELS = ("state_*", "state_A-G", "state_H,I")


def truths(release, kept, everyone):
    return np.concatenate(
        [(kept if block.tabulation.beyond else everyone)[key] for key, block in release.blocks.items()]
    ).astype(float)


def covered(estimates, config, everyone):
    """The share of lines of count tables whose interval holds the untruncated truth, by table."""
    from phsafe.accuracy_study.truth import LINE_KEYS
    from phsafe.pipeline.exact_tables import exact_lines

    found = {}
    for name, truth in exact_lines(config, everyone).items():
        if name in estimates.tables and estimates.tables[name]["ESTIMATE"].dtype == pl.Int64:
            both = estimates.tables[name].join(truth, on=LINE_KEYS)
            found[name] = both.select(pl.col("VALUE").is_between("LOWER_90", "UPPER_90").mean()).item()
    return found


def test_identities_hold_with_everybody(large_households, noisy):
    config, kept, everyone = large_households
    release = measured(config, noisy(config, kept, seed=1))
    estimates = everybody(release, fit(release)).estimates
    shown = [block for block in release.blocks.values() if block.tabulation.is_truncated]
    rows = matrix(identities(release, shown), len(estimates))
    assert rows.shape[0] > 100
    assert np.abs(rows @ estimates).max() < 1e-6
    assert np.abs(rows @ truths(release, kept, everyone)).max() == 0


def test_cells_counted_without_truncation_get_nobody_added(large_households, noisy):
    """In the structured mode, PH1_num at everyone's levels and three cells of PH3 include everybody already."""
    config, kept, _ = large_households
    structured = config.with_sensitivity("structured")
    release = measured(structured, noisy(structured, kept, seed=3))
    beyond = everybody(release, fit(release)).beyond
    added = {}
    for (name, level), block in release.blocks.items():
        added |= {(name, level, cell): beyond[block.positions((cell,))].sum() for cell in block.tabulation.cells}
    assert added["PH1_num", "state_*", 2] == added["PH3", "state_A-G", 9] == 0
    assert added["PH1_num", "state_A-G", 2] > 0 and added["PH3", "state_A-G", 4] > 0


def test_measured_truncation_removes_the_bias(large_households, noisy):
    config, kept, everyone = large_households
    release = measured(config, noisy(config, kept, seed=2))
    model = everybody(release, fit(release))
    truth, exact = truths(release, kept, everyone), truths(release, kept, kept)
    for block in release.blocks.values():
        if block.tabulation.is_truncated and block.level.key == "usa_*":
            total = sum_rows([block.positions().ravel()], len(truth))
            error = float((total @ (model.estimates - truth))[0])
            assert abs(error) < 4 * np.sqrt(model.variance(total)[0]), block.tabulation.name
            dropped = float((total @ (truth - exact))[0])
            assert abs(float((total @ model.beyond)[0]) - dropped) < 0.3 * dropped, block.tabulation.name


def test_diagnostics_count_the_people_beyond_the_thresholds(large_households, noisy):
    config, kept, everyone = large_households
    release = measured(config, noisy(config, kept, seed=2))
    dropped = truths(release, kept, everyone) - truths(release, kept, kept)
    found = estimate_frames(config, noisy(config, kept, seed=2)).diagnostics["truncation"]["people"]
    assert set(found) == {b.tabulation.name for b in release.blocks.values() if b.tabulation.is_truncated}
    for name, people in found.items():
        truth = dropped[release.blocks[name, "usa_*"].positions()].sum()
        assert truth > 0
        width = people["upper"] - people["lower"]
        assert people["lower"] - width < truth < people["upper"] + width, name
        assert people["lower"] <= people["estimate"] <= people["upper"]


def test_intervals_hold_the_untruncated_truth(large_households, noisy):
    config, kept, everyone = large_households
    found = [covered(estimate_frames(config, noisy(config, kept, seed=s)), config, everyone) for s in (3, 4)]
    for name in found[0]:
        assert 0.84 < np.mean([one[name] for one in found]) < 0.97, name


def test_public_shares_serve_a_release_that_measures_nothing(large_households, noisy, measuring_config):
    config, kept, everyone = large_households
    drop = [t.name for t in config.catalog.truncation]
    plain = measuring_config(drop)
    estimates = estimate_frames(plain, noisy(plain, kept, seed=5))
    assert estimates.diagnostics["target"] == "everybody"
    assert estimates.diagnostics["truncation"]["measured"] == []
    assert "public data" in estimates.diagnostics["truncation"]["about"]
    assert all(share > 0.84 for share in covered(estimates, plain, everyone).values())
    truncated = estimate_frames(plain, noisy(plain, kept, seed=5), target="truncated")
    assert "truncation" not in truncated.diagnostics
    pick = {"REGION_TYPE": "USA", "ITERATION_CODE": "*", "CELL": 1}
    whole, part = (e.tables["PH7"].filter(**pick).row(0, named=True) for e in (estimates, truncated))
    assert whole["ESTIMATE"] > part["ESTIMATE"]
    assert whole["UPPER_90"] - whole["LOWER_90"] > part["UPPER_90"] - part["LOWER_90"]


@pytest.mark.parametrize(
    "drop",
    [
        ("PH1_dropped", "PH3_dropped", "PH4_dropped", "PH6_dropped"),
        ("PH1_oversized", "PH2_oversized", "PH7_oversized"),
        ("PH3_dropped", ("PH1_dropped", "state_*"), ("PH7_oversized", "state_A-G")),
        [("PH1_num", level) for level in ("usa_A-G", "state_A-G", "usa_H,I", "state_H,I")],
        [(name, level) for name in ("PH1_num", "PH7", "PH4") for level in ("usa_A-G", "state_A-G")],
        ["PH1_num", *((name, level) for name in ("PH2", "PH7") for level in ("state_*", "state_A-G", "state_H,I"))],
        ["PH4_dropped", "PH4_oversized"],
    ],
)
def test_some_measurements_of_truncation_suffice(large_households, noisy, drop, measuring_config):
    config = measuring_config(drop)
    estimates = estimate_frames(config, noisy(config, large_households[1], seed=6))
    assert not set(drop) & set(estimates.diagnostics["truncation"]["measured"])
    assert all(share > 0.8 for share in covered(estimates, config, large_households[2]).values())


@pytest.mark.parametrize(
    ("drop", "sentence"),
    [
        (
            (),
            "The people beyond the thresholds are estimated from the release's own measurements of dropped persons and "
            "oversized households, and from shares in public data for what these don't measure or measure poorly.",
        ),
        (
            ("PH1_dropped", "PH3_dropped", "PH4_dropped", "PH6_dropped"),
            "The release measures no dropped persons: their number per household comes from public data. "
            "The distribution of these people over the cells of PH1, PH4 and PH5 comes from public data.",
        ),
        (
            ("PH3_dropped",),
            "The release measures no dropped persons of PH3: their number per household comes from public data.",
        ),
        (("PH7_oversized",), "The distribution of these people over the cells of PH7 and PH8 comes from public data."),
        (
            ("PH6_dropped", "PH6_oversized"),
            "The people beyond the thresholds of PH6 are not measured; they are estimated from public data alone.",
        ),
        (
            [(t.name, level) for t in CENSUS_2020.truncation for level in STATE_LEVELS],
            "The people beyond the thresholds of PH1, PH2, PH3, PH4, PH5, PH6, PH7 and PH8 are measured for the nation "
            "only; their distribution over its regions comes from public data.",
        ),
        (
            [(name, level) for name in ("PH3_dropped", "PH3_oversized") for level in STATE_LEVELS],
            "The people beyond the thresholds of PH3 are measured for the nation only; their distribution over its "
            "regions comes from public data.",
        ),
    ],
)
def test_notes_say_what_a_release_does_not_measure(large_households, noisy, drop, sentence, measuring_config):
    config = measuring_config(drop)
    release = measured(config, noisy(config, large_households[1], seed=6))
    about = everybody(release, fit(release)).about
    assert about.endswith(sentence)
    assert about.count(". ") == sentence.count(". ") + bool(drop)


def test_dropped_persons_count_for_every_table_of_their_universe(large_households, noisy, measuring_config):
    """Also if the table that they are named after isn't measured."""
    drop = ("PH1_num", "PH2")
    config, without = measuring_config(drop), measuring_config((*drop, "PH1_dropped"))

    def deviation(config):
        release = measured(config, noisy(config, large_households[1], seed=6))
        model = everybody(release, fit(release))
        return model.dropped(release.blocks["PH7", "usa_*"])[1] ** 0.5, model.about

    (sharp, about), (wide, _) = deviation(config), deviation(without)
    assert sharp < wide / 3
    assert "no dropped persons" not in about


def test_households_by_the_race_of_the_householder_say_nothing_about_races_of_persons(tmp_path, noisy):
    """A catalog with PH7 by the person's race, and oversized households of the same universe by the householder's."""
    by_person = replace(CENSUS_2020.tabulation("PH7"), iterate_by="person")
    tables = {table.name: table for table in CENSUS_2020.tables if table.name != "PH8"}
    tables["PH7"] = replace(tables["PH7"], tabulations=(by_person,), truncation=())
    document = dict(parameters_2020("us-measured")) | {"state_filter": list(STATES)}
    budget = document["privacy_budget"]
    budget["PH1_oversized"] = dict.fromkeys(budget["PH7"], 0.05)
    del budget["PH7_oversized"], budget["PH8_denom"]
    config = Config.load(document, Catalog(tuple(tables.values()), CENSUS_2020.levels))
    folder = synth(tmp_path / "data", 30_000, STATES, seed=8)
    settings = [Settings(skip_validation=True, truncate=cut) for cut in (True, False)]
    kept, everyone = ({key: 40 * n for key, n in count(config, folder, one).items()} for one in settings)
    release = measured(config, noisy(config, kept, seed=1))
    model = everybody(release, fit(release))
    rows = sum_rows(list(release.blocks["PH7", "state_A-G"].positions()), len(release.counts))
    truth = np.concatenate([(everyone[key] - kept[key]).ravel() for key in release.blocks])
    errors = rows @ (model.beyond - truth) / np.sqrt(model.effects.variance((rows @ model.loadings).tocsr()))
    assert np.abs(errors[rows @ truth > 500]).max() < 3


def test_deviations_of_cells_by_households_and_persons_are_mostly_of_one_or_the_other():
    def attributes(name):
        return [(extent, len(set(found))) for extent, found in _attributes(CENSUS_2020.tabulation(name))]

    assert attributes("PH6") == [(1.0, 4), (1.0, 4), (0.25, 16)]
    assert attributes("PH7") == [(1.0, 3)] and attributes("PH4") == [(1.0, 2)]
    by_age, by_type, _ = (found for _, found in _attributes(CENSUS_2020.tabulation("PH6")))
    assert by_age[:4] == by_age[4:8] and by_type[0] == by_type[3] != by_type[4]


def test_a_release_of_the_nation_alone_uses_the_shares_of_its_states():
    """Without levels of states, the nation of Hawaii alone is Hawaii."""
    shares = public_shares()
    assert shares.regions("PH7", ["15"]) == shares.region("PH7", "15") > 2
    assert shares.regions("PH7", ["15", "44"]) == pytest.approx(
        (shares.region("PH7", "15") + shares.region("PH7", "44")) / 2
    )
    assert shares.regions("PH7", list(US_STATES)) == 1


def test_people_beyond_are_stated_without_a_level_of_everyone(large_households, noisy, measuring_config):
    config = measuring_config()
    total = [level.key for level in config.catalog.levels if level.iteration_level.is_total]
    config = measuring_config([(t.name, key) for t in config.catalog.tabulations if not t.beyond for key in total])
    people = estimate_frames(config, noisy(config, large_households[1], seed=6)).diagnostics["truncation"]["people"]
    assert set(people) == {"PH1_num", "PH3", "PH4", "PH7"}
    assert all(one["lower"] > 0 for one in people.values())


def test_oversized_households_of_groups_that_are_not_tabulated_still_count(large_households, noisy, measuring_config):
    """Where a table has no races, the sum over the races of its oversized households says as much as their total."""
    levels = ("usa_A-G", "state_A-G", "usa_H,I", "state_H,I")
    totals = [(f"PH4_{kind}", level) for kind in ("dropped", "oversized") for level in ("usa_*", "state_*")]
    without = [("PH4_oversized", level) for level in levels]

    def deviation(drop):
        release = measured(config := measuring_config(drop), noisy(config, large_households[1], seed=6))
        row = sum_rows([release.blocks["PH4", "usa_*"].positions().ravel()], len(release.counts))
        return float(everybody(release, fit(release)).variance(row)[0]) ** 0.5

    none = [("PH4", level) for level in levels] + totals
    assert deviation(none) < 0.5 * deviation(none + without)


def test_covariance_agrees_with_the_variance(large_households, noisy, measuring_config):
    config = measuring_config(("PH3_dropped", "PH3_oversized", "PH7_oversized", "PH2_oversized"))
    release = measured(config, noisy(config, large_households[1], seed=7))
    model = everybody(release, fit(release))
    rows = np.random.default_rng(0).choice(len(release.counts), 30, replace=False)
    sums = sparse.csr_array((np.ones(30), (range(30), rows)), shape=(30, len(release.counts)))
    dense = model.covariance(sums)
    assert np.diag(dense) == pytest.approx(model.variance(sums), rel=1e-6, abs=1e-9)
    assert np.linalg.eigvalsh(dense).min() > -1e-6


def test_mean_excess_follows_from_the_shares():
    mean, variance = public_shares().excess("PH1_num", 10)
    assert 2 < mean < 3 and 2 < variance < 6
    assert (
        public_shares().share("PH1_num", 30)
        < public_shares().share("PH1_num", 20)
        < public_shares().share("PH1_num", 10)
    )
    assert public_shares().excess("PH6", 25)[0] >= 1


@pytest.mark.parametrize("tau", [400, 99_999])
def test_thresholds_above_every_household_add_nobody(large_households, noisy, tau):
    config, kept, _ = large_households
    config = replace(config, tau=dict.fromkeys(config.tau, tau))
    release = measured(config, noisy(config, kept))
    model = everybody(release, fit(release))
    everyone = release.blocks["PH7", "state_*"].positions().ravel()
    assert model.beyond[everyone] == pytest.approx(0, abs=150)  # The noise leaves this much uncertain.
    assert np.isfinite(model.variance(sparse.eye_array(len(model.beyond), format="csr"))).all()


def test_unknown_targets_are_refused(large_households, noisy):
    config, kept, _ = large_households
    frames = noisy(config, kept)
    with pytest.raises(PHSafeError, match="target: expected one of everybody, truncated, got all"):
        estimate_frames(config, frames, target="all")
    with pytest.raises(PHSafeError, match="expected truncated with the independent method"):
        estimate_frames(config, frames, "independent", "everybody")
    assert estimate_frames(config, frames, "independent").diagnostics["target"] == "truncated"
