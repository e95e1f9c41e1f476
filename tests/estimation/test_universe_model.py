"""The model of the people beyond the thresholds: what it learns, and what it makes of public shares."""

from dataclasses import replace

import numpy as np
import pytest

from phsafe import CENSUS_2020
from phsafe.estimation.beyond_threshold import _universes, everybody
from phsafe.estimation.effects import Effects, Spread, leaf_levels
from phsafe.estimation.effects_posterior import widened
from phsafe.estimation.fit import fit
from phsafe.estimation.learned_spread import climb, learn_clump
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.public_shares import HIGHEST_REGION, PublicShares, public_shares
from phsafe.estimation.published_lines import sum_rows
from phsafe.estimation.released_universe import ReleasedUniverse
from phsafe.estimation.universe_model import UniverseModel

STATES = ("06", "15", "56")


def test_a_release_learns_that_large_households_recur(large_households, noisy):
    """A sample expanded by weights repeats every household: the variance of sums grows in proportion."""
    config, kept, _everyone = large_households
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


def races_in_states(tabulation, large_households, noisy):
    """The fit of a release, the block of a tabulation by state and race, and its model given a spread."""
    config, kept, _ = large_households
    release = measured(config, noisy(config, kept))
    fitted, shares = fit(release), public_shares()
    tabulations = next(some for some in _universes(release) if some[0].name == tabulation)
    leaves = next(leaf_levels(release, fitted, tabulations, shares))
    block = next(b for b in leaves.blocks if b.level.key == "state_A-G")
    return fitted, block, UniverseModel(release, fitted, shares, leaves, Effects())


def test_people_of_large_households_divide_over_ages_alike_in_all_groups(large_households, noisy):
    fitted, block, model = races_in_states("PH4", large_households, noisy)
    expected = model.cells(block)[0].reshape(-1, 2)
    shares = expected[:, 0] / expected.sum(axis=1)
    assert shares == pytest.approx(shares[0])
    people = fitted.estimates[block.positions()]
    assert np.ptp(people[:, 0] / people.sum(axis=1)) > 0.1  # The groups themselves differ.


def test_what_no_measurement_shows_stays_uncertain(large_households, noisy):
    _, block, model = races_in_states("PH3", large_households, noisy)
    cell = np.flatnonzero(np.tile([n == 4 for n in block.tabulation.cells], len(block.groups)))

    def deviation(**factors):
        load = widened(model.cells(block)[1][cell], model.effects.count)
        return np.sqrt(load.multiply(load) @ model.effects.variances(Spread(**factors)))

    # Married couples' children by race: only measured for everyone, so a release can't learn that races are alike.
    assert deviation(iterations=0.25, groups=0.25) == pytest.approx(deviation())
    assert deviation(iterations=4.0).sum() > 1.01 * deviation().sum()


@pytest.fixture
def unmeasured(large_households, noisy, measuring_config):
    """The measurements of a release that doesn't measure what thresholds drop."""
    config = measuring_config([t.name for t in CENSUS_2020.truncation])
    return measured(config, noisy(config, large_households[1], seed=5))


def changed_shares(change):
    """Public shares with another entry for every tabulation of persons."""
    known = public_shares()
    entries = {name: entry | change(entry) if known.knows(name) else entry for name, entry in known.tabulations.items()}
    return PublicShares("test", entries)


def too_low():
    """Public shares divided by nine."""
    return changed_shares(lambda entry: {"shares": {tau: share / 9 for tau, share in entry["shares"].items()}})


def test_sizes_follow_measurements_if_public_shares_are_wrong(large_households, noisy, unmeasured):
    config, kept, everyone = large_households
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
    silent = universe_of(unmeasured, fit(unmeasured), people, low)
    assert silent.resized() is silent


def beyond(model, block, dropped):
    """Estimated and true dropped people of every cell of a block, and standard deviations."""
    rows = sum_rows([[position] for position in block.positions().ravel()], len(model.beyond))
    scale = np.sqrt(model.effects.variance((rows @ model.loadings).tocsr()))
    return rows @ model.beyond, dropped.ravel(), scale


def test_intervals_hold_with_wrong_shares(large_households, noisy):
    """Shares nine times too low: variances must follow what the release measures."""
    config, kept, everyone = large_households
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
    # Many more households than expected must not be mistaken for repeated ones.
    assert np.concatenate(wide).mean() < 1.5 * np.concatenate(usual).mean()


def test_measuring_some_groups_makes_no_others_wider(large_households, noisy, measuring_config, unmeasured):
    _, kept, everyone = large_households
    some = measuring_config([(t.name, level) for t in CENSUS_2020.truncation for level in ("usa_H,I", "state_H,I")])
    scales = []
    for release in (measured(some, noisy(some, kept, seed=6)), unmeasured):
        model = everybody(release, fit(release))
        key = "PH1_num", "usa_H,I"
        scales.append(beyond(model, release.blocks[key], everyone[key] - kept[key])[2])
    assert np.all(scales[0] < 1.2 * scales[1])


def test_the_nation_is_no_unknown_region(large_households, noisy, measuring_config):
    _, kept, _ = large_households
    config = measuring_config([key for key in kept if key[1].startswith("state")])
    release = measured(config, noisy(config, kept, seed=6))
    universe = next(some for some in _universes(release) if some[0].name == "PH1_num")
    model = universe_of(release, fit(release), universe, public_shares()).models[0]
    assert model.leaves.width == 0
    load = widened(model.load, model.effects.count)
    deviation = np.sqrt((load.multiply(load) @ model.effects.variances(Spread())).sum())
    assert deviation < 2.5 * model.leaves.expected.sum()


def test_an_unknown_region_may_be_like_any_other(large_households, unmeasured):
    """Without a share for Hawaii, with nine times as many large households as the nation, intervals reach the truth."""
    _, kept, everyone = large_households
    release = unmeasured
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


def test_people_of_no_ethnicity_that_is_tabulated_have_a_share_too(large_households, noisy):
    """Those who are neither Hispanic nor White alone: what they drop is the remainder of their state."""
    config, kept, _ = large_households
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
def test_less_certain_shares_give_wider_intervals(unmeasured, regions, least):
    """Shares learned from a few states are less certain than the shipped ones, the more so for other states."""
    shares = changed_shares(lambda entry: {"regions": entry["regions"] if regions == "known" else {}})
    fitted, rows = (
        fit(unmeasured),
        sum_rows(unmeasured.blocks["PH1_num", "state_*"].positions(), len(unmeasured.counts)),
    )

    def variance(deviation):
        model = everybody(unmeasured, fitted, replace(shares, deviation=deviation))
        return model.effects.variance((rows @ model.loadings).tocsr())

    assert (variance(2 * shares.deviation) > least * variance(shares.deviation)).all()
