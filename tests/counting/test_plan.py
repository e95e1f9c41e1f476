import pytest

from phsafe.configs.config import Config
from phsafe.counting.plan import Plan


@pytest.fixture
def plan(us):
    return Plan(Config.load(us))


def names(tabulations):
    return [t.name for t in tabulations]


def test_tabulations_with_equal_filter_and_threshold_share_a_universe(plan):
    assert len(plan.universes) == 4
    universe = {t.name: plan.universe(t) for t in plan.tabulations if t.is_truncated}
    assert universe["PH1_num"] == universe["PH2"] == universe["PH7"]
    assert len(set(universe.values())) == 4


def test_a_different_threshold_makes_a_different_universe(us_document):
    changed = Config.load(us_document | {"tau": us_document["tau"] | {"PH7": 9}})
    assert len(Plan(changed).universes) == 5


def test_only_tabulations_with_a_budget_are_counted(us_document):
    nothing = {name: dict.fromkeys(levels, 0) for name, levels in us_document["privacy_budget"].items()}
    plan = Plan(
        Config.load(
            us_document | {"privacy_budget": nothing | {"PH1_denom": us_document["privacy_budget"]["PH1_denom"]}}
        )
    )
    assert names(plan.tabulations) == ["PH1_denom"]
    assert plan.universes == ()
    assert plan.persons_of[plan.tabulations[0].name].size == 1
    assert plan.geo_columns == ("TABBLKST",)


def test_levels_without_iterations_need_no_race(us_document):
    budgets = {
        name: {key: value if key.endswith("_*") else 0 for key, value in levels.items()}
        for name, levels in us_document["privacy_budget"].items()
    }
    plan = Plan(Config.load(us_document | {"privacy_budget": budgets}))
    columns = {*plan.persons.columns, *plan.units.columns}
    assert not columns & {"CENRACE", "CENHISP", "HHRACE", "HHSPAN"}
