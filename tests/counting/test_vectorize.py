"""Each code is assigned to cells and groups independently of other codes."""

import json

import numpy as np
import pytest

from phsafe.configs.config import Config
from phsafe.counting.plan import Plan
from phsafe.counting.vectorize import Tabulated
from phsafe.model.levels import STATE, UNATTRIBUTED, Geography, Level, digits
from phsafe.model.tables import CENSUS_2020


def plan_with(us, *columns):
    """The 2020 plan, with another level if geo columns are given."""
    if not columns:
        return Plan(Config.load(us))
    code = "44" + "0" * sum(map(digits, columns))
    place = Geography("place", "Place", "PLACE", (*STATE.columns, *columns), ((code, ""),), covers=False)
    document = json.loads(us.read_text())
    for levels in document["privacy_budget"].values():
        levels["place_*"] = 0.1
    return Plan(Config.load(document, CENSUS_2020.extended(levels=(Level(place, UNATTRIBUTED),))))


def vectors(plan, name, codes):
    """The concatenated counts of a tabulation at all its levels, if each of the codes is counted once."""
    counted = plan.kernel().empty()
    counted.tallies[name].add(*np.unique(codes, return_counts=True))
    counts = Tabulated(plan, counted).counts(truncate=False)
    return np.concatenate([counts[key] for key in counts if key[0] == name])


@pytest.mark.parametrize("columns", [(), ("TABBLKCOU",), ("TABBLKCOU", "TABTRACTCE")], ids=["state", "county", "tract"])
@pytest.mark.parametrize("name", ["PH3", "PH8_denom"])
def test_a_code_s_cell_and_group_do_not_depend_on_other_codes(us, columns, name):
    plan = plan_with(us, *columns)
    tabulation = plan.config.catalog.tabulation(name)
    codes = np.random.default_rng(1).integers(0, plan.size(tabulation), 40)
    together = vectors(plan, name, codes)
    alone = [vectors(plan, name, codes[i : i + 1]) for i in range(len(codes))]
    np.testing.assert_array_equal(together, np.sum(alone, axis=0))
    levels = plan.config.levels_of(tabulation)
    assert all(one.sum() <= len(levels) for one in alone)
    assert together.sum() > 0


def test_codes_outside_the_state_filter_are_not_counted(us):
    plan = plan_with(us)
    per_region = plan.units_of[plan.tabulations[0].name].size * plan.persons_of[plan.tabulations[0].name].size
    state_digit_zero = np.arange(per_region)
    found = vectors(plan, plan.tabulations[0].name, state_digit_zero)
    usa = len(plan.tabulations[0].cells) * 10
    assert found[usa:].sum() == 0
