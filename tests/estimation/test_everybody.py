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
from phsafe.estimation.beyond_threshold import _universes, everybody
from phsafe.estimation.effects import Effects, Spread, leaf_levels
from phsafe.estimation.effects_posterior import widened
from phsafe.estimation.fit import fit
from phsafe.estimation.identities import identities, matrix
from phsafe.estimation.learned_spread import climb, learn_clump
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.public_shares import HIGHEST_REGION, PublicShares, public_shares
from phsafe.estimation.published_lines import sum_rows
from phsafe.estimation.released_universe import ReleasedUniverse
from phsafe.estimation.universe_model import UniverseModel, _attributes
from phsafe.model.schema import US_STATES
from phsafe.model.spec import Catalog
from phsafe.pipeline.scan import Settings, count
from phsafe.synthetic import synth

STATE_LEVELS = ("state_*", "state_A-G", "state_H,I")
STATES = ("06", "15", "56")


def measuring_config(drop=()):
    document = dict(parameters_2020("us-measured"))
    document["state_filter"] = list(STATES)
    for name, levels in document["privacy_budget"].items():
        for level in levels:
            if name in drop or (name, level) in drop:
                levels[level] = 0
    return Config.load(document)


@pytest.fixture(scope="module")
def population(tmp_path_factory):
    """The config, and counts with and without truncation."""
    config = measuring_config()
    folder = synth(tmp_path_factory.mktemp("records") / "data", 300_000, STATES, seed=4)
    kept = count(config, folder, Settings(skip_validation=True))
    everyone = count(config, folder, Settings(skip_validation=True, truncate=False))
    return config, kept, everyone


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


def test_identities_hold_with_everybody(population, noisy):
    config, kept, everyone = population
    release = measured(config, noisy(config, kept, seed=1))
    estimates = everybody(release, fit(release)).estimates
    shown = [block for block in release.blocks.values() if block.tabulation.is_truncated]
    rows = matrix(identities(release, shown), len(estimates))
    assert rows.shape[0] > 100
    assert np.abs(rows @ estimates).max() < 1e-6
    assert np.abs(rows @ truths(release, kept, everyone)).max() == 0


def test_cells_counted_without_truncation_get_nobody_added(population, noisy):
    """In the structured mode, PH1_num at everyone's levels and three cells of PH3 include everybody already."""
    config, kept, _ = population
    structured = config.with_sensitivity("structured")
    release = measured(structured, noisy(structured, kept, seed=3))
    beyond = everybody(release, fit(release)).beyond
    added = {}
    for (name, level), block in release.blocks.items():
        added |= {(name, level, cell): beyond[block.positions((cell,))].sum() for cell in block.tabulation.cells}
    assert added["PH1_num", "state_*", 2] == added["PH3", "state_A-G", 9] == 0
    assert added["PH1_num", "state_A-G", 2] > 0 and added["PH3", "state_A-G", 4] > 0


def test_measured_truncation_removes_the_bias(population, noisy):
    config, kept, everyone = population
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


def test_diagnostics_count_the_people_beyond_the_thresholds(population, noisy):
    config, kept, everyone = population
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


def test_intervals_hold_the_untruncated_truth(population, noisy):
    config, kept, everyone = population
    found = [covered(estimate_frames(config, noisy(config, kept, seed=s)), config, everyone) for s in (3, 4)]
    for name in found[0]:
        assert 0.84 < np.mean([one[name] for one in found]) < 0.97, name


def test_public_shares_serve_a_release_that_measures_nothing(population, noisy):
    config, kept, everyone = population
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
def test_some_measurements_of_truncation_suffice(population, noisy, drop):
    config = measuring_config(drop)
    estimates = estimate_frames(config, noisy(config, population[1], seed=6))
    assert not set(drop) & set(estimates.diagnostics["truncation"]["measured"])
    assert all(share > 0.8 for share in covered(estimates, config, population[2]).values())


@pytest.mark.parametrize(
    ("drop", "sentence"),
    [
        (
            "",
            "The people beyond the thresholds are estimated from the release's own measurements of dropped persons and "
            "oversized households, and from shares in public data for what these don't measure or measure poorly.",
        ),
        (
            "PH1_dropped PH3_dropped PH4_dropped PH6_dropped",
            "The release measures no dropped persons: their number per household comes from public data. "
            "How these people divide over the cells of PH1, PH4 and PH5 comes from public data.",
        ),
        (
            "PH3_dropped",
            "The release measures no dropped persons of PH3: their number per household comes from public data.",
        ),
        ("PH7_oversized", "How these people divide over the cells of PH7 and PH8 comes from public data."),
        (
            "PH6_dropped PH6_oversized",
            "Nothing beyond the thresholds of PH6 is measured: those people are estimated from public data alone.",
        ),
    ],
)
def test_notes_say_what_a_release_does_not_measure(population, noisy, drop, sentence):
    config = measuring_config(drop.split())
    release = measured(config, noisy(config, population[1], seed=6))
    about = everybody(release, fit(release)).about
    assert about.endswith(sentence)
    assert about.count(". ") == sentence.count(". ") + bool(drop)


def test_notes_say_what_is_measured_for_the_nation_only(population, noisy):
    config = measuring_config([(t.name, level) for t in CENSUS_2020.truncation for level in STATE_LEVELS])
    release = measured(config, noisy(config, population[1], seed=6))
    about = everybody(release, fit(release)).about
    assert about.endswith("are measured for the nation only: public data divide them over its regions.")


def test_notes_say_which_tables_are_measured_for_the_nation_only(population, noisy):
    config = measuring_config([(name, level) for name in ("PH3_dropped", "PH3_oversized") for level in STATE_LEVELS])
    release = measured(config, noisy(config, population[1], seed=6))
    about = everybody(release, fit(release)).about
    assert about.endswith("of PH3 are measured for the nation only: public data divide them over its regions.")


def test_dropped_persons_count_for_every_table_of_their_universe(population, noisy):
    """Also if the table that they are named after isn't measured."""
    drop = ("PH1_num", "PH2")
    config, without = measuring_config(drop), measuring_config((*drop, "PH1_dropped"))

    def deviation(config):
        release = measured(config, noisy(config, population[1], seed=6))
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


def test_people_beyond_are_stated_without_a_level_of_everyone(population, noisy):
    config = measuring_config()
    total = [level.key for level in config.catalog.levels if level.iteration_level.is_total]
    config = measuring_config([(t.name, key) for t in config.catalog.tabulations if not t.beyond for key in total])
    people = estimate_frames(config, noisy(config, population[1], seed=6)).diagnostics["truncation"]["people"]
    assert set(people) == {"PH1_num", "PH3", "PH4", "PH7"}
    assert all(one["lower"] > 0 for one in people.values())


def test_oversized_households_of_groups_that_are_not_tabulated_still_count(population, noisy):
    """Where a table has no races, the sum over the races of its oversized households says as much as their total."""
    levels = ("usa_A-G", "state_A-G", "usa_H,I", "state_H,I")
    totals = [(f"PH4_{kind}", level) for kind in ("dropped", "oversized") for level in ("usa_*", "state_*")]
    without = [("PH4_oversized", level) for level in levels]

    def deviation(drop):
        release = measured(config := measuring_config(drop), noisy(config, population[1], seed=6))
        row = sum_rows([release.blocks["PH4", "usa_*"].positions().ravel()], len(release.counts))
        return float(everybody(release, fit(release)).variance(row)[0]) ** 0.5

    none = [("PH4", level) for level in levels] + totals
    assert deviation(none) < 0.5 * deviation(none + without)


def test_covariance_agrees_with_the_variance(population, noisy):
    config = measuring_config(("PH3_dropped", "PH3_oversized", "PH7_oversized", "PH2_oversized"))
    release = measured(config, noisy(config, population[1], seed=7))
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


def test_unknown_targets_are_refused(population, noisy):
    config, kept, _ = population
    frames = noisy(config, kept)
    with pytest.raises(PHSafeError, match="target: expected one of everybody, truncated, got all"):
        estimate_frames(config, frames, target="all")
    with pytest.raises(PHSafeError, match="expected truncated with the independent method"):
        estimate_frames(config, frames, "independent", "everybody")
    assert estimate_frames(config, frames, "independent").diagnostics["target"] == "truncated"


def test_a_release_learns_that_large_households_recur(population, noisy):
    """A sample expanded by weights repeats every household: sums over few of them vary as many times more."""
    config, kept, _everyone = population
    copies = 64

    def clump(of):
        release = measured(config, noisy(config, of, seed=10))
        fitted = fit(release)
        shares = public_shares()
        universes = [universe_of(release, fitted, some, shares).resized() for some in _universes(release)]
        return learn_clump([universe.likelihood for universe in universes]).clump

    assert clump(kept) == 1.0
    sampled = {key: copies * np.random.default_rng(10).binomial(values, 1 / copies) for key, values in kept.items()}
    assert clump(sampled) >= copies / 4


def test_a_factor_climbs_only_with_evidence():
    steep = climb("clump", Spread(), lambda spread: -((np.log2(spread.clump) - 5) ** 2))
    assert steep.clump == 32.0
    flat = climb("clump", Spread(), lambda spread: -0.4 * (np.log2(spread.clump) - 5) ** 2)
    assert flat.clump == 16.0  # The last step, to 32, raises the likelihood by 0.4 only.
    gentle = climb("clump", Spread(), lambda spread: 0.4 * min(np.log2(spread.clump), 5))
    assert gentle.clump == 16.0  # No step raises it by 0.5, but four together do.
    assert climb("common", Spread(), lambda spread: 10 * np.log(spread.common)).common == 4.0
    assert climb("common", Spread(), lambda spread: -10 * np.log(spread.common)).common == 0.25
    assert climb("groups", Spread(), lambda spread: 0.1 * spread.groups) == Spread()


def universe_of(release, fitted, tabulations, shares):
    return ReleasedUniverse(release, fitted, shares, list(leaf_levels(release, fitted, tabulations, shares)))


def races_in_states(tabulation, population, noisy):
    """The fit of a release, the block of a tabulation by state and race, and its model given a spread."""
    config, kept, _ = population
    release = measured(config, noisy(config, kept))
    fitted, shares = fit(release), public_shares()
    tabulations = next(some for some in _universes(release) if some[0].name == tabulation)
    leaves = next(leaf_levels(release, fitted, tabulations, shares))
    block = next(b for b in leaves.blocks if b.level.key == "state_A-G")
    return fitted, block, UniverseModel(release, fitted, shares, leaves, Effects())


def test_people_of_large_households_divide_over_ages_alike_in_all_groups(population, noisy):
    fitted, block, model = races_in_states("PH4", population, noisy)
    expected = model.cells(block)[0].reshape(-1, 2)
    shares = expected[:, 0] / expected.sum(axis=1)
    assert shares == pytest.approx(shares[0])
    people = fitted.estimates[block.positions()]
    assert np.ptp(people[:, 0] / people.sum(axis=1)) > 0.1  # The groups themselves differ.


def test_what_no_measurement_shows_stays_uncertain(population, noisy):
    _, block, model = races_in_states("PH3", population, noisy)
    cell = np.flatnonzero(np.tile([n == 4 for n in block.tabulation.cells], len(block.groups)))

    def deviation(**factors):
        load = widened(model.cells(block)[1][cell], model.effects.count)
        return np.sqrt(load.multiply(load) @ model.effects.variances(Spread(**factors)))

    # Married couples' children by race: only measured for everyone, so a release can't learn that races are alike.
    assert deviation(iterations=0.25, groups=0.25) == pytest.approx(deviation())
    assert deviation(iterations=4.0).sum() > 1.01 * deviation().sum()


def without_measurements(kept, noisy):
    """A config that measures nothing of what thresholds drop, and its measurements."""
    config = measuring_config([t.name for t in measuring_config().catalog.truncation])
    return config, noisy(config, kept, seed=5)


def changed_shares(change):
    """Public shares with another entry for every tabulation of persons."""
    known = public_shares()
    entries = {name: entry | change(entry) if known.knows(name) else entry for name, entry in known.tabulations.items()}
    return PublicShares("test", entries)


def too_low():
    """Public shares divided by nine."""
    return changed_shares(lambda entry: {"shares": {tau: share / 9 for tau, share in entry["shares"].items()}})


def test_sizes_follow_measurements_if_public_shares_are_wrong(population, noisy):
    config, kept, everyone = population
    low = too_low()
    release = measured(config, noisy(config, kept, seed=3))
    fitted = fit(release)
    people = next(some for some in _universes(release) if some[0].name == "PH1_num")
    universe = universe_of(release, fitted, people, low)
    dropped = (everyone["PH1_num", "state_*"] - kept["PH1_num", "state_*"]).sum()
    assert universe.models[0].leaves.expected.sum() < dropped / 5
    sized = universe.resized(cells=True).models[0].leaves
    assert sized.size.sum() == pytest.approx(dropped, rel=0.3)
    assert sized.cell_sizes["PH1_num"].sum() == pytest.approx(dropped, rel=0.3)
    unmeasured = measured(*without_measurements(kept, noisy))
    silent = universe_of(unmeasured, fit(unmeasured), people, low)
    assert silent.resized() is silent


def beyond(model, block, dropped):
    """Estimated and true dropped people of every cell of a block, and standard deviations."""
    rows = sum_rows([[position] for position in block.positions().ravel()], len(model.beyond))
    scale = np.sqrt(model.effects.variance((rows @ model.loadings).tocsr()))
    return rows @ model.beyond, dropped.ravel(), scale


def test_intervals_hold_with_wrong_shares(population, noisy):
    """Shares nine times too low: variances must follow what the release measures."""
    config, kept, everyone = population
    low = too_low()
    inside, wide, usual = [], [], []
    for seed in range(4):
        release = measured(config, noisy(config, kept, seed=seed))
        fitted = fit(release)
        model, right = everybody(release, fitted, low), everybody(release, fitted)
        for name, level in (("PH1_num", "state_A-G"), ("PH3", "state_A-G"), ("PH4", "state_A-G"), ("PH7", "state_A-G")):
            center, truth, scale = beyond(model, release.blocks[name, level], everyone[name, level] - kept[name, level])
            inside.append((abs(center - truth) < 1.645 * scale)[truth > 0])
            wide.append(scale)
            usual.append(beyond(right, release.blocks[name, level], everyone[name, level] - kept[name, level])[2])
    assert np.concatenate(inside).mean() > 0.8
    # Many more households than expected must not be mistaken for the same ones, recurring.
    assert np.concatenate(wide).mean() < 1.5 * np.concatenate(usual).mean()


def test_measuring_some_groups_makes_no_others_wider(population, noisy):
    _, kept, everyone = population
    some = measuring_config(
        [(t.name, level) for t in measuring_config().catalog.truncation for level in ("usa_H,I", "state_H,I")]
    )
    scales = []
    for config, frames in ((some, noisy(some, kept, seed=6)), without_measurements(kept, noisy)):
        release = measured(config, frames)
        model = everybody(release, fit(release))
        key = "PH1_num", "usa_H,I"
        scales.append(beyond(model, release.blocks[key], everyone[key] - kept[key])[2])
    assert np.all(scales[0] < 1.2 * scales[1])


def test_the_nation_is_no_unknown_region(population, noisy):
    _, kept, _ = population
    config = measuring_config([key for key in kept if key[1].startswith("state")])
    release = measured(config, noisy(config, kept, seed=6))
    universe = next(some for some in _universes(release) if some[0].name == "PH1_num")
    model = universe_of(release, fit(release), universe, public_shares()).models[0]
    assert model.leaves.width == 0
    load = widened(model.load, model.effects.count)
    deviation = np.sqrt((load.multiply(load) @ model.effects.variances(Spread())).sum())
    assert deviation < 2.5 * model.leaves.expected.sum()


def test_an_unknown_region_may_be_like_any_other(population, noisy):
    """Without a share for Hawaii, which has nine times as many large households as the nation, intervals reach it."""
    _, kept, everyone = population
    release = measured(*without_measurements(kept, noisy))
    fitted, positions = fit(release), release.blocks["PH1_num", "state_*"].positions()[1]
    row = sum_rows([positions], len(release.counts))
    dropped = (everyone["PH1_num", "state_*"] - kept["PH1_num", "state_*"]).reshape(len(STATES), -1)[1].sum()

    def upper(regions):
        model = everybody(release, fitted, changed_shares(lambda entry: {"regions": regions(entry["regions"])}))
        scale = np.sqrt(model.effects.variance((row @ model.loadings).tocsr())[0])
        return (row @ model.beyond)[0] + 1.645 * scale

    assert upper(lambda known: {code: factor for code, factor in known.items() if code != "15"}) > dropped
    assert upper(lambda known: dict.fromkeys(known, 1.0)) < dropped  # As if Hawaii were known to be like the nation.


def test_where_nearly_everyone_is_hispanic_hispanics_drop_no_more_people_than_everyone(make_config, counts, noisy):
    """In the nation, their share is three times that of everyone. In Puerto Rico, they are everyone."""
    config = make_config(("72",))
    release = measured(config, noisy(config, counts(config)))
    model = everybody(release, fit(release))
    for name in ("PH1_num", "PH3", "PH4", "PH7"):
        everyone, hispanic = (release.blocks[name, level].positions() for level in ("state_*", "state_H,I"))
        sums = sum_rows([everyone[0], hispanic[0]], len(release.counts))
        dropped = sums @ model.beyond
        assert 0.8 * dropped[0] < dropped[1] < 1.05 * dropped[0], name
        scale = np.sqrt(model.effects.variance((sums @ model.loadings).tocsr()))
        assert scale[1] < 1.5 * scale[0], name


def test_people_of_no_ethnicity_that_is_tabulated_have_a_share_too(population, noisy):
    """Those who are neither Hispanic nor White alone: what they drop is the remainder of their state."""
    config, kept, _ = population
    release, shares = measured(config, noisy(config, kept)), public_shares()
    universe = next(some for some in _universes(release) if some[0].name == "PH1_num")
    everyone, ethnic = leaf_levels(release, fit(release), universe, shares)
    for state in STATES:
        rest = [
            sum(n for (region, _), n in zip(leaves.groups, leaves.expected, strict=True) if region == state)
            for leaves in (everyone, ethnic)
        ]
        assert 0 < rest[1] < rest[0]


def test_a_smaller_region_has_the_share_of_its_state():
    shares = public_shares()
    assert shares.region("PH1_num", "15003") == shares.region("PH1_num", "15") > 5
    assert shares.knows_region("PH1_num", "15003") and not shares.knows_region("PH1_num", "72")
    assert shares.region("PH1_num", "72") == 1.0
    highest = max(max(entry.get("regions", {"": 0}).values()) for entry in shares.tabulations.values())
    assert highest == HIGHEST_REGION > 5


@pytest.mark.parametrize(("regions", "least"), [("known", 1.02), ("unknown", 1.2)])
def test_less_certain_shares_give_wider_intervals(population, noisy, regions, least):
    """Shares learned from a few states are less certain than the shipped ones, the more so for other states."""
    _, kept, _ = population
    release = measured(*without_measurements(kept, noisy))
    shares = changed_shares(lambda entry: {"regions": entry["regions"] if regions == "known" else {}})
    fitted, rows = fit(release), sum_rows(release.blocks["PH1_num", "state_*"].positions(), len(release.counts))

    def variance(deviation):
        model = everybody(release, fitted, replace(shares, deviation=deviation))
        return model.effects.variance((rows @ model.loadings).tocsr())

    assert (variance(2 * shares.deviation) > least * variance(shares.deviation)).all()
