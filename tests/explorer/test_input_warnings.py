"""Warnings, conversion of budgets, noise and truncation in one picture, and links."""

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.explorer.budget_conversion import conversion
from phsafe.explorer.error_curve import total_error
from phsafe.explorer.figures import Figures
from phsafe.explorer.page_answers import evaluate, opened
from phsafe.explorer.public_tables import Truncation, truncation
from phsafe.explorer.scenario import Scenario
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.explorer.share_links import is_link, to_link
from phsafe.explorer.solve_targets import budget_for
from phsafe.model.spec import Catalog
from phsafe.model.tables import CENSUS_2020, PH2
from phsafe.privacy.accountant import plan

US = Config.load("examples/us.json")
CHILDREN = {"table": "PH3", "line": 1, "region": "56", "iteration": "E"}


def asked(document: dict, **body: object) -> dict:
    return evaluate({"scenario": document, **body}, CENSUS_2020, truncation())


def with_value(name: str, level: str, value: str) -> dict:
    document = scenario_2020().to_dict()
    document["entries"][name][level]["value"] = value
    return document


# --- warnings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("puerto_rico", [False, True])
def test_the_parameters_of_2020_give_no_warning(puerto_rico):
    assert asked(scenario_2020(puerto_rico).to_dict())["warnings"] == []


def test_a_margin_typed_as_a_budget_is_noticed_and_can_be_read_as_one():
    answer = asked(with_value("PH3", "state_*", "40"))
    margin, certain = answer["warnings"]
    assert margin["path"] == "entries.PH3.state_*"
    assert margin["kind"] == "margin"
    assert "Did you mean a margin of error of 40?" in margin["sentence"]
    assert certain["kind"] == "extreme"
    fixed = asked(margin["fix"]["scenario"])
    assert fixed["warnings"] == []
    assert fixed["rows"]["PH3"]["state_*"]["budget"] == str(budget_for(US, ("PH3", "state_*"), Decimal(40)))
    assert fixed["rows"]["PH3"]["state_*"]["moe"] == pytest.approx(40, abs=0.5)


def test_a_budget_too_large_to_be_a_margin_has_no_fix():
    config = replace(US, tau={**US.tau, "PH3": 1})
    document = Scenario.from_config(config, "x").to_dict()
    document["entries"]["PH3"]["state_*"]["value"] = "999999"
    margin = asked(document)["warnings"][0]
    assert margin["kind"] == "margin"
    assert margin["fix"] is None or asked(margin["fix"]["scenario"])["problems"] == {}


@pytest.mark.parametrize("mode", ["tight", "tight-bounded", "structured"])
def test_a_mode_says_what_it_does_to_the_bounded_loss(mode):
    (warning,) = asked(scenario_2020().to_dict() | {"sensitivity": mode})["warnings"]
    now, before = plan(US.with_sensitivity(mode)).total, plan(US).total
    assert warning["path"] == "sensitivity"
    assert warning["kind"] == "mode"
    assert f"× {float(now.bounded / before.bounded):.2f}" in warning["sentence"]
    assert "geography of an address is public" in warning["sentence"]


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"delta": "1e-5"}, "delta", "1e-10 is usual"),
        ({"tau": {**scenario_2020().tau, "PH7": "3"}}, "tau.PH7", "leaves out 15"),
        ({"tau": {**scenario_2020().tau, "PH7": "90"}}, "tau.PH7", "adds noise"),
    ],
)
def test_extreme_parameters_are_noticed(change, path, words):
    found = {w["path"]: w["sentence"] for w in asked(scenario_2020().to_dict() | change)["warnings"]}
    assert words in found[path]


def test_margins_that_publish_everything_or_nothing_are_noticed():
    document = with_value("PH2", "state_*", "0.5")
    document["units"]["PH2"] = "moe"
    for level in document["entries"]["PH2"]:
        document["entries"]["PH2"][level]["value"] = "0.5"
    paths = {w["path"]: w["sentence"] for w in asked(document)["warnings"]}
    assert "practically exact counts" in paths["entries.PH2.state_*"]
    noise = asked(with_value("PH3", "state_A-G", "0.000000001"))["warnings"]
    assert "nothing but noise" in noise[0]["sentence"]


# --- pure DP ------------------------------------------------------------------------------------------------------


def test_switching_to_pure_dp_converts_budgets_and_back():
    answer = conversion({"scenario": scenario_2020().to_dict(), "privacy": "puredp"}, CENSUS_2020)
    for name, levels in answer["scenario"]["entries"].items():
        for level, entry in levels.items():
            rho = US.budgets[name][level]
            if rho:
                # At least the protection of before, to the last millionth.
                assert 0 <= rho - Decimal(entry["value"]) ** 2 / 2 < Decimal("2e-6")
    assert "ε = √(2ρ)" in answer["sentence"]
    assert {warning["kind"] for warning in asked(answer["scenario"])["warnings"]} == {"extreme"}, (
        "pure DP adds up to more"
    )
    back = conversion({"scenario": answer["scenario"], "privacy": "zcdp"}, CENSUS_2020)["scenario"]
    found = Decimal(back["entries"]["PH3"]["state_A-G"]["value"])
    assert abs(found - Decimal("0.662976")) <= Decimal("0.000002")
    same = conversion({"scenario": back, "privacy": "zcdp"}, CENSUS_2020)
    assert same["scenario"] == back
    assert same["sentence"] == ""


def test_margins_that_were_typed_stay():
    document = with_value("PH3", "state_A-G", "20")
    document["units"]["PH3"] = "moe"
    for level in document["entries"]["PH3"]:
        document["entries"]["PH3"][level]["value"] = "20"
    answer = conversion({"scenario": document, "privacy": "puredp"}, CENSUS_2020)["scenario"]
    assert answer["entries"]["PH3"]["state_A-G"]["value"] == "20"
    assert asked(answer)["rows"]["PH3"]["state_A-G"]["moe"] <= 21


def test_rho_read_as_epsilon_is_noticed():
    (warning,) = asked(scenario_2020().to_dict() | {"privacy": "puredp"})["warnings"]
    assert warning["kind"] == "definition"
    expected = conversion({"scenario": scenario_2020().to_dict(), "privacy": "puredp"}, CENSUS_2020)["scenario"]
    assert warning["fix"]["scenario"] == expected


def test_what_cant_be_converted_is_reported():
    assert conversion({"scenario": with_value("PH2", "usa_*", "x"), "privacy": "puredp"}, CENSUS_2020)["problems"]
    with pytest.raises(PHSafeError, match="expected one of"):
        conversion({"scenario": scenario_2020().to_dict(), "privacy": "none"}, CENSUS_2020)


# --- noise and truncation -----------------------------------------------------------------------------------------


def test_the_total_error_agrees_with_simulation():
    rng = np.random.default_rng(5)
    for noise, dropped in ((50.0, 3.0), (50.0, 50.0), (20.0, 200.0)):
        errors = np.abs(rng.normal(0, noise / 1.645, 1_000_000) - dropped)
        assert total_error(noise, dropped) == pytest.approx(np.quantile(errors, 0.9), rel=0.005)
    assert total_error(7.0, 0.0) == 7.0
    assert total_error(0.0, 7.0) == 7.0


def test_the_curve_has_the_margins_of_other_thresholds_and_its_minimum():
    curve = asked(scenario_2020().to_dict(), pins=[CHILDREN], focus={"tabulation": "PH3", "level": "state_A-G"})[
        "error_curve"
    ]
    assert curve["label"].endswith("Wyoming")
    assert [point["tau"] for point in curve["points"]] == list(range(1, 21))
    for tau in (1, 4, 6, 12):
        other = Figures(replace(US, tau={**US.tau, "PH3": tau}))
        point = next(point for point in curve["points"] if point["tau"] == tau)
        assert point["noise"] == pytest.approx(other.rows["PH3", "state_A-G"].moe * math.sqrt(7), rel=1e-6)
    dropped = [point["dropped"] for point in curve["points"]]
    assert dropped == sorted(dropped, reverse=True)
    assert all(point["total"] >= max(point["noise"], point["dropped"]) for point in curve["points"])
    best = min(curve["points"], key=lambda point: point["total"])
    assert curve["best"] == best["tau"] != curve["tau"] == 6
    assert f"smallest at τ = {best['tau']}" in curve["sentence"]
    assert curve["measured"] is None


def test_the_curve_of_a_level_without_pinned_groups_is_about_its_largest_group():
    answer = asked(scenario_2020().to_dict(), focus={"tabulation": "PH1_num", "level": "state_*"})
    assert answer["error_curve"]["label"] == "people counted for: Average household size, California"
    assert asked(scenario_2020().to_dict(), focus={"tabulation": "PH1_denom", "level": "usa_*"})["error_curve"] is None
    pin = {**CHILDREN, "people": "100000"}
    named = asked(scenario_2020().to_dict(), focus={"tabulation": "PH3", "level": "state_A-G", "pin": pin})
    assert named["error_curve"]["size"] == 100_000


def test_a_config_that_measures_what_truncation_drops_shows_it():
    config = Config.load(parameters_2020("us-measured"))
    document = Scenario.from_config(config, "measured").to_dict()
    key = next((m.tabulation.beyond.name, m.level.key) for m in config.measurements() if m.tabulation.beyond)
    curve = asked(document, focus={"tabulation": key[0], "level": key[1]})["error_curve"]
    assert "measures what the threshold drops" in curve["measured"]["sentence"]
    assert curve["measured"]["moe"] > 0


def test_without_known_shares_or_sizes_there_is_no_curve():
    document = scenario_2020().to_dict()
    focus = {"tabulation": "PH3", "level": "state_A-G"}
    answer = evaluate({"scenario": document, "focus": focus}, CENSUS_2020, Truncation("none", {}))
    assert answer["error_curve"] is None
    own = Catalog((PH2,), CENSUS_2020.levels)
    answer = evaluate({"scenario": document, "focus": {}}, own, truncation())
    assert answer["error_curve"]["tabulation"] == "PH2"


# --- links --------------------------------------------------------------------------------------------------------


def test_a_link_carries_scenarios_baseline_and_pinned_groups():
    document = {
        "format": "phsafe-scenarios", "version": 1, "active": 0, "scenarios": [with_value("PH2", "usa_*", "0.5")],
        "baseline": scenario_2020().to_dict(), "pins": [{**CHILDREN, "people": "400"}],
    }  # fmt: skip
    link = to_link(document, "http://127.0.0.1:8765/")
    assert len(link) < 4000, "short enough for an e-mail"
    for text in (link, link.partition("/#")[2], f"  {link}\n"):
        answer = opened({"text": text, "name": "link"}, CENSUS_2020)
        assert answer["scenarios"] == document["scenarios"]
        assert answer["baseline"] == document["baseline"]
        assert answer["pins"][0]["id"] == "PH3 1 56 E"
        assert answer["pins"][0]["people"] == "400"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http://x/#s=AAAA", "broken"), ("#s=", "something else"), ("http://x/#s=%%%", "something else"),
        (to_link({"scenarios": []}), "1 to 20"), (to_link({"scenarios": [1]}), "expected a scenario"),
        (to_link({"format": "phsafe-scenarios", "version": 9, "scenarios": [{}]}), "newer version"),
        (to_link({"scenarios": [{}], "pins": [3]}), "pinned group"),
        (to_link({"scenarios": [{}], "baseline": 3}), "scenario"),
        (to_link({"scenarios": [{}]})[:-4], "broken"), (to_link({"x": "y" * 2_000_000}), "at most"),
    ],
)  # fmt: skip
def test_broken_links_get_one_sentence(text, message):
    with pytest.raises(PHSafeError, match=message) as error:
        opened({"text": text}, CENSUS_2020)
    assert len(error.value.reasons) == 1


def test_a_document_that_mentions_a_link_is_no_link():
    assert not is_link('{"name": "see #s=abc"}')
    assert not is_link("folder/us.json")
