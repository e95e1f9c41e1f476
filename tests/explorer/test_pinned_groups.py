"""Pinned groups, the baseline and the sentence: their numbers are those of `phsafe budget` and of the joint fit."""

import json
import random
import time
from dataclasses import replace
from fractions import Fraction

import pytest

from phsafe.configs import line_sums
from phsafe.configs.config import Config
from phsafe.errors import ConfigError
from phsafe.explorer import joint_margins
from phsafe.explorer.figures import Figures
from phsafe.explorer.group_margins import margin
from phsafe.explorer.group_search import search
from phsafe.explorer.page_answers import compared, evaluate, finished, searched, start
from phsafe.explorer.pinned_groups import MOST_PINS, PinnedGroup, defaults, read_pins
from phsafe.explorer.public_tables import cells, groups, truncation, universes
from phsafe.explorer.scenario import Scenario
from phsafe.explorer.scenario_changes import change
from phsafe.explorer.scenario_files import ScenarioFile
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.model.exact_numbers import dumps
from phsafe.model.schema import US_STATES
from phsafe.model.spec import Catalog
from phsafe.model.tables import CENSUS_2020, PH2
from phsafe.privacy.budgets import budget

US = Config.load("examples/us.json")
CHILDREN = {"table": "PH3", "line": 1, "region": "56", "iteration": "E"}
AVERAGE = {"table": "PH8", "line": 3, "region": "30", "iteration": "H"}


def asked(scenario: dict, pins: list, **more: object) -> dict:
    return evaluate({"scenario": scenario, "pins": pins, **more}, CENSUS_2020, truncation())


def changed(**values: str) -> dict:
    document = scenario_2020().to_dict()
    for key, value in values.items():
        name, level = key.split("__")
        document["entries"][name][level.replace("all", "*").replace("race", "A-G")]["value"] = value
    return document


def finish(body: dict) -> dict:
    for _ in range(100):
        answer = finished(body, CENSUS_2020)
        if answer.get("state") != "under way":
            return answer
        time.sleep(0.05)
    raise AssertionError("the joint fit doesn't end")


@pytest.mark.parametrize("puerto_rico", [False, True])
def test_the_default_groups_have_sizes_and_are_published(puerto_rico):
    scenario = scenario_2020(puerto_rico)
    pins = defaults(CENSUS_2020, puerto_rico=puerto_rico)
    assert 5 <= len(pins) <= 8
    answer = asked(scenario.to_dict(), [pin.to_dict() for pin in pins])
    for pin in answer["pins"]:
        assert pin["published"]
        assert pin["problem"] is None
        assert pin["size_text"]
        assert pin["measured"]["sentence"].startswith(f"about {pin['size_text']}")
    assert {pin["kind"] for pin in answer["pins"]} == {"count", "average"}


def test_a_catalog_without_these_tables_has_no_default_groups():
    own = Catalog((PH2,), CENSUS_2020.levels)
    assert [pin.table.name for pin in defaults(own, puerto_rico=False)] == ["PH2", "PH2"]
    scenario = Scenario.from_dict(scenario_2020().to_dict(), own)
    assert start(own, ScenarioFile((scenario,)), truncation())["baseline"] == ""
    answer = evaluate({"scenario": scenario.to_dict()}, own, truncation())
    assert answer["baseline"] is None
    assert "before" not in answer["rows"]["PH2"]["usa_*"]


def test_a_groups_margin_is_that_of_its_line():
    found = Figures(US)
    pin = PinnedGroup.from_dict(CHILDREN, CENSUS_2020)
    line = line_sums.line_sums(US, CENSUS_2020.tables[2])[0]
    known = margin(pin, found)
    assert known["moe"] == found.moe(line.count, "state_A-G")
    people = round(groups()["56", "E"][1] * sum(cells()["PH3"].values()))
    assert pin.sizes[0] == people
    low, high = people - known["moe"], people + known["moe"]
    assert known["sentence"] == f"about {people}, published as {low:.0f} to {high:.0f} in 9 of 10 releases"
    average = PinnedGroup.from_dict({**AVERAGE, "people": "1,500", "units": "650"}, CENSUS_2020)
    assert margin(average, found)["moe"] == pytest.approx(_delta_method(found, average, 1500, 650))


def _delta_method(found: Figures, pin: PinnedGroup, people: float, units: float) -> float:
    n, d = (found.variance(part, pin.level.key) for part in pin.parts)
    return 1.645 * (n + (people / units) ** 2 * d) ** 0.5 / units


def test_typical_sizes_of_cells_add_up_to_the_universe():
    for name in ("PH2", "PH3", "PH4", "PH6", "PH7"):
        assert sum(cells()[name].values()) == pytest.approx(universes()[name]["people"], rel=0.01)


def test_finished_margins_are_those_of_the_joint_fit_and_never_larger():
    body = {"scenario": changed(PH3__state_race="0.5"), "pins": [CHILDREN, AVERAGE]}
    answer = finish(body)
    config = replace(US, budgets={**US.budgets, "PH3": {**US.budgets["PH3"], "state_A-G": Fraction(1, 2)}})
    known = joint_margins.joint_moe(config)
    for (name, level), moe in known.items():
        assert answer["margins"][name][level]["moe"] == pytest.approx(moe, rel=1e-12)
    before = joint_margins.joint_moe(US)
    assert answer["margins"]["PH3"]["state_A-G"]["before"]["moe"] == pytest.approx(before["PH3", "state_A-G"])
    for pin in answer["pins"]:
        assert pin["finished"]["moe"] <= pin["measured"]["moe"]
    children, average = answer["pins"]
    assert children["change"]["finished"]["state"] == "worse"
    assert average["change"]["finished"]["state"] == "same"
    assert children["finished"]["sentence"] in answer["sentence"]["text"]
    # Numbers computed once are in the next answer at once.
    again = asked(body["scenario"], body["pins"])
    assert again["finished"] == "done"
    assert again["pins"][0]["finished"]["moe"] == children["finished"]["moe"]


def test_budgets_too_different_for_floats_have_no_finished_margins():
    rng = random.Random(1)
    document = scenario_2020().to_dict()
    for levels in document["entries"].values():
        for entry in levels.values():
            entry |= {"on": True, "value": rng.choice(["0.000000001", "1000000"])}
    answer = finish({"scenario": document, "pins": [CHILDREN]})
    assert answer["state"] == "done"
    assert answer["margins"] == {}
    assert answer["pins"][0]["finished"] is None
    assert answer["pins"][0]["measured"] is not None


def test_pure_dp_has_no_finished_margins():
    document = scenario_2020().to_dict() | {"privacy": "puredp"}
    assert finish({"scenario": document, "pins": [CHILDREN]})["state"] == "unavailable"
    answer = asked(document, [CHILDREN])
    assert answer["finished"] == "unavailable"
    assert "zCDP only" in answer["finished_note"]
    assert answer["totals"]["change"]["unbounded"]["state"] == "other"
    assert "can't be compared" in answer["sentence"]["cost"]


def test_every_number_is_compared_with_2020():
    answer = asked(changed(PH3__state_race="0.921986"), [CHILDREN])
    assert answer["baseline"]["name"] == "2020 parameters"
    ratio = (1.257281 - 0.662976 + 0.921986) / 1.257281
    assert answer["totals"]["change"]["unbounded"]["ratio"] == pytest.approx(ratio)
    assert answer["totals"]["change"]["unbounded"] == {"state": "worse", "ratio": pytest.approx(ratio), "text": "+21 %"}
    assert answer["totals"]["by_tabulation"]["PH2"]["change"]["state"] == "same"
    row = answer["rows"]["PH3"]["state_A-G"]
    known = {(r.event.tabulation, r.event.level): r for r in budget(US).rows}["PH3", "state_A-G"]
    assert row["before"]["moe"] == known.moe
    assert row["before"]["budget"] == "0.662976"
    assert row["change"]["moe"]["state"] == "better"
    assert row["change"]["budget"]["state"] == "worse"
    assert answer["rows"]["PH2"]["usa_*"]["change"]["moe"]["text"] == "same"
    assert answer["person"][0]["change"]["state"] == "worse"
    assert answer["pins"][0]["change"]["measured"]["state"] == "better"
    assert answer["sentence"]["cost"].endswith("21 % more than 2020.")
    assert answer["sentence"]["person"] in answer["sentence"]["text"]
    json.loads(dumps(answer))


def test_the_baseline_can_be_any_scenario_and_levels_come_and_go():
    without = scenario_2020().to_dict() | {"name": "Without PH7"}
    without["entries"]["PH7"] = {level: {**entry, "on": False} for level, entry in without["entries"]["PH7"].items()}
    answer = asked(scenario_2020().to_dict(), [AVERAGE], baseline=without)
    assert answer["rows"]["PH7"]["usa_*"]["before"] is None
    assert answer["rows"]["PH7"]["usa_*"]["change"]["moe"]["state"] == "new"
    assert answer["pins"][0]["change"]["measured"]["state"] == "new"
    assert "than “Without PH7”." in answer["sentence"]["cost"]
    back = asked(without, [AVERAGE], baseline=scenario_2020().to_dict())
    assert {row["tabulation"] for row in back["gone"]} == {"PH7"}
    pin = back["pins"][0]
    assert not pin["published"]
    assert pin["problem"] == "not published: switch on PH7 for State × ethnicity (H, I)"
    assert pin["change"]["measured"]["text"] == "no longer published"


def test_scenarios_are_compared_with_the_first():
    bad = changed(PH3__state_all="abc")
    first, other = scenario_2020().to_dict(), changed(PH3__state_race="0.5")
    columns = compared({"scenarios": [first, other, bad], "pins": [CHILDREN]}, CENSUS_2020)["columns"]
    assert columns[0]["pins"][0]["change"]["measured"]["state"] == "same"
    assert columns[1]["pins"][0]["change"]["measured"]["state"] == "worse"
    assert columns[1]["sentence"]["cost"].endswith("13 % less than 2020.")
    assert "entries.PH3.state_*" in columns[2]["problems"]
    for wrong in ([], [first] * 21, 3):
        with pytest.raises(ConfigError, match="1 to 20 scenarios"):
            compared({"scenarios": wrong}, CENSUS_2020)


def test_an_invalid_baseline_is_reported_and_leaves_the_rest():
    bad = changed(PH3__state_all="abc")
    answer = asked(scenario_2020().to_dict(), [CHILDREN], baseline=bad)
    assert "expected a number" in answer["baseline"]["problems"]["entries.PH3.state_*"]
    assert answer["pins"][0]["change"]["measured"] is None
    assert answer["sentence"]["cost"] == "This choice has a privacy loss of ρ = 1.257281."


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        (3, "expected a pinned group"), ({}, "of the catalog"), ({**CHILDREN, "line": 99}, "of the catalog"),
        ({**CHILDREN, "table": []}, "expected text"), ({**CHILDREN, "region": "99"}, "of the catalog"),
        ({**CHILDREN, "iteration": "Z"}, "of the catalog"), ({**CHILDREN, "people": True}, "expected text"),
        ({"table": "PH2", "line": 1, "region": "56", "iteration": "E"}, "of the catalog"),
    ],
)  # fmt: skip
def test_groups_that_dont_exist_are_refused(pin, message):
    with pytest.raises(ConfigError, match=message):
        asked(scenario_2020().to_dict(), [pin])


def test_too_many_groups_are_refused_and_doubles_count_once():
    with pytest.raises(ConfigError, match=f"at most {MOST_PINS}"):
        read_pins([CHILDREN] * (MOST_PINS + 1), CENSUS_2020)
    assert len(read_pins([CHILDREN, CHILDREN], CENSUS_2020)) == 1
    assert read_pins(None, CENSUS_2020) == []


@pytest.mark.parametrize("typed", ["0", "-3", "many", "1e99", "NaN", "1e400"])
def test_a_size_that_isnt_one_gets_a_sentence(typed):
    pin = asked(scenario_2020().to_dict(), [{**CHILDREN, "people": typed}, AVERAGE])["pins"]
    assert f"got “{typed}”" in pin[0]["problem"]
    assert pin[0]["measured"] is None
    assert pin[1]["problem"] is None


def test_a_group_without_a_public_figure_or_outside_of_the_scenario_says_so():
    unknown = {"table": "PH3", "line": 1, "region": "72", "iteration": "E"}
    pin = asked(scenario_2020(puerto_rico=True).to_dict(), [unknown])["pins"][0]
    assert pin["problem"] == "there is no public figure for this group; enter the number of people"
    pin = asked(scenario_2020().to_dict(), [unknown])["pins"][0]
    assert pin["problem"] == "Puerto Rico isn't part of this scenario"


def test_an_average_of_too_few_households_is_said_to_be_unusable():
    pin = asked(scenario_2020().to_dict(), [{**AVERAGE, "people": "30", "units": "12"}])["pins"][0]
    assert "too large for a usable average" in pin["measured"]["sentence"]
    assert pin["measured"]["verdict"] == "noise"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("hawaiian children wyoming", "PH3 1 56 E"), ("kids of Native Hawaiians in WY", "PH3 1 56 E"),
        ("renters vermont", "PH7 4 50 *"), ("average household size", "PH1 1 1 *"), ("PH6 mother texas", "PH6 17 48 *"),
        ("average size hispanic texas", "PH1 1 48 H"), ("grandchildren", "PH3 9 1 *"),
        ("same sex couples", "PH2 4 1 *"),
    ],
)  # fmt: skip
def test_groups_are_found_by_plain_words(words, first):
    assert search(words, CENSUS_2020, US_STATES)["found"][0]["id"] == first


def test_a_search_without_a_match_gives_a_hint_and_stays_in_the_scenarios_states():
    assert "fewer" in search("unicorns", CENSUS_2020, US_STATES)["hint"]
    assert "Type" in search(" of the ", CENSUS_2020, US_STATES)["hint"]
    assert not search("puerto rico", CENSUS_2020, US_STATES)["found"]
    assert search("puerto rico", CENSUS_2020, ("72",))["found"]
    many = search("wyoming", CENSUS_2020, US_STATES)
    assert len(many["found"]) == 20
    assert many["more"] > 100
    for body in ({"words": 3}, {"words": "x", "states": "all"}):
        with pytest.raises(ConfigError):
            searched(body, CENSUS_2020)


def test_changes_have_states_and_texts():
    assert change(1.0003, 1)["text"] == "same"
    assert change(0.5, 1) == {"state": "better", "ratio": 0.5, "text": "−50 %"}
    assert change(None, 1)["state"] == "gone"
    assert change(0, 0)["state"] == "same"
    assert change(1, 0)["state"] == "new"
