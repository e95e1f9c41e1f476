"""The page's solver: previews with winners and losers, for noisy counts and for finished tables."""

from decimal import Decimal

import pytest

from phsafe.configs.config import Config
from phsafe.errors import ConfigError
from phsafe.explorer.figures import Figures
from phsafe.explorer.finished_work import finished_figures
from phsafe.explorer.page_solver import solved
from phsafe.explorer.pinned_groups import PinnedGroup, defaults
from phsafe.explorer.scenario import Scenario
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.explorer.solver import solve
from phsafe.model.exact_numbers import text
from phsafe.model.tables import CENSUS_2020

US = Config.load("examples/us.json")
PINS = [pin.to_dict() for pin in defaults(CENSUS_2020, puerto_rico=False)]
CHILDREN, RENTERS = "PH3 1 56 E", "PH8 3 30 H"
AIMS = ("measured", "finished")


def asked(**body: object) -> dict:
    return solved({"scenario": scenario_2020().to_dict(), "pins": PINS, **body}, CENSUS_2020)


def config_of(answer: dict) -> Config:
    config, _, problems = Scenario.from_dict(answer["scenario"], CENSUS_2020).config()
    assert problems == {}
    return config


def pin_of(answer: dict, name: str) -> dict:
    return next(pin for pin in answer["pins"] if pin["id"] == name)


def test_a_total_is_split_as_by_phsafe_solve():
    answer = asked(total="1.257281")
    assert config_of(answer) == solve(US, {"total": Decimal("1.257281")}).config
    preview = answer["preview"]
    assert preview["total"] == preview["total_before"] == "1.257281"
    assert len(preview["winners"]) + len(preview["losers"]) + preview["same"] == len(Figures(US).rows)
    worst = preview["losers"][0]
    assert (worst["tabulation"], worst["level"]) == ("PH3", "state_A-G")
    assert worst["label"] in preview["sentence"]
    assert worst["budget_before"] == "0.662976"
    ratios = [item["change"]["ratio"] for item in preview["losers"]]
    assert ratios == sorted(ratios, reverse=True)
    assert pin_of(answer, CHILDREN)["change"]["measured"]["state"] == "worse"
    assert answer["weighted_squared_moe"] < answer["weighted_squared_moe_before"]


@pytest.mark.parametrize("aim", AIMS)
def test_pinned_groups_weigh_more(aim):
    equal, pinned = (asked(total="1.257281", aim=aim, weights=weights) for weights in ("equal", "pins"))
    assert pin_of(pinned, CHILDREN)[aim]["moe"] < pin_of(equal, CHILDREN)[aim]["moe"]
    heavy = [pin | {"weight": "1000"} if pin["id"] == CHILDREN else pin for pin in PINS]
    heaviest = asked(total="1.257281", aim=aim, weights="pins", pins=heavy)
    assert pin_of(heaviest, CHILDREN)[aim]["moe"] < pin_of(pinned, CHILDREN)[aim]["moe"]


@pytest.mark.parametrize("aim", AIMS)
def test_no_level_is_worse_than_today_if_asked(aim):
    answer = asked(total="1.3", aim=aim, floor="today")
    assert answer["preview"]["losers"] == []
    assert answer["preview"]["winners"]
    config = config_of(answer)
    if aim == "finished":
        before, after = finished_figures(US, []).levels, finished_figures(config, []).levels
        assert all(after[key] <= 1.002 * before[key] for key in before)
    else:
        assert all(config.budgets[n][key] >= b for n, levels in US.budgets.items() for key, b in levels.items())
    small = asked(total="0.5", aim=aim, floor="today")
    assert "expected at least" in small["problems"]["total"]


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize(("name", "margin"), [(CHILDREN, "40"), (RENTERS, "0.05")])
def test_a_groups_margin_is_met_without_a_total(aim, name, margin):
    answer = asked(aim=aim, targets={name: margin})
    assert pin_of(answer, name)[aim]["moe"] <= float(margin) * 1.001
    assert answer["preview"]["winners"]


@pytest.mark.parametrize("aim", AIMS)
def test_locked_levels_keep_their_budgets(aim):
    document = scenario_2020().to_dict()
    document["entries"]["PH2"]["state_*"]["locked"] = True
    answer = asked(scenario=document, total="1", aim=aim, floor="none")
    assert answer["scenario"]["entries"]["PH2"]["state_*"] == document["entries"]["PH2"]["state_*"]
    assert answer["preview"]["total"] == text(config_of(answer).total) == "1"
    lower = asked(scenario=document, total="1.4", aim=aim, floor="today")
    assert lower["scenario"]["entries"]["PH2"]["state_*"]["value"] == str(US.budgets["PH2"]["state_*"])


def test_targets_typed_as_margins_become_budgets():
    document = scenario_2020().to_dict()
    document["units"]["PH6"] = "moe"
    for entry in document["entries"]["PH6"].values():
        entry["value"] = "300"
    answer = asked(scenario=document, total="1")
    assert set(answer["scenario"]["units"].values()) == {"budget"}


def test_everything_wrong_is_reported_at_once():
    pins = [PINS[0] | {"weight": "heavy"}, *PINS[1:]]
    problems = asked(total="x", targets={"nothing": "1", CHILDREN: "-1"}, pins=pins)["problems"]
    assert set(problems) == {"total", "targets.nothing", f"targets.{CHILDREN}", f"pins.{CHILDREN}.weight"}
    assert asked()["problems"]["total"].startswith("expected a number above 0, or a margin")
    off = scenario_2020().to_dict()
    off["entries"]["PH3"]["state_A-G"]["on"] = False
    assert "switch its level on" in asked(scenario=off, targets={CHILDREN: "40"})["problems"][f"targets.{CHILDREN}"]
    locked = scenario_2020().to_dict()
    locked["entries"]["PH3"]["state_A-G"]["locked"] = True
    assert "locked" in asked(scenario=locked, targets={CHILDREN: "40"})["problems"][f"targets.{CHILDREN}"]
    impossible = asked(targets={PINS[-1]["id"]: "0.01"}, aim="finished")
    assert impossible["problems"] == {} or f"targets.{PINS[-1]['id']}" in impossible["problems"]


@pytest.mark.parametrize("name", ["neighbours", "weights", "floor", "aim"])
def test_unknown_choices_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name}: expected one of"):
        asked(total="1", **{name: "x"})
    with pytest.raises(ConfigError, match="expected margins"):
        asked(total="1", targets=[1])


def test_pure_dp_solves_for_noisy_counts_only():
    document = scenario_2020().to_dict() | {"privacy": "puredp"}
    assert asked(scenario=document, total="1")["problems"] == {}
    assert "total" in asked(scenario=document, total="1", aim="finished")["problems"]


def test_finished_margins_of_groups_are_those_of_their_lines():
    pins = [PinnedGroup.from_dict(pin, CENSUS_2020) for pin in PINS]
    found = finished_figures(US, pins)
    assert set(found.groups) == {pin.id for pin in pins}
    # Wyoming's children of a race are seven cells; each helps the others little.
    assert found.groups[CHILDREN][0] == pytest.approx(found.levels["PH3", "state_A-G"] * 7**0.5, rel=0.05)
    assert len(found.groups[RENTERS]) == 2
    assert Decimal(str(pins[0].sizes[0])) == pins[0].group.people
