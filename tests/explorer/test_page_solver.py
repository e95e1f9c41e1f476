"""The page's solver: what it asks of the solver, and what its preview says."""

import pytest

from phsafe.explorer.page_solver import preview
from phsafe.explorer.pinned_groups import defaults
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.model.tables import CENSUS_2020

PINS = [pin.to_dict() for pin in defaults(CENSUS_2020, puerto_rico=False)]
CHILDREN, FAMILIES = PINS[0]["id"], PINS[6]["id"]


def asked(document=None, **request):
    return preview({"scenario": document or scenario_2020().to_dict(), "pins": PINS, **request}, CENSUS_2020)


def budget(answer, tabulation, level):
    return answer["scenario"]["entries"][tabulation][level]["value"]


def margins(answer, kind):
    return {pin["id"]: (pin["before"][kind]["moe"], pin[kind]["moe"]) for pin in answer["pins"]}


@pytest.mark.parametrize("aim", ["measured", "finished"])
def test_a_total_is_shared_out_and_nobody_is_worse_off(aim):
    answer = asked(total="1.5", floor="today", aim=aim)
    assert answer["preview"]["total"] == "1.5"
    assert answer["preview"]["total_before"] == "1.257281"
    assert answer["preview"]["losers"] == []
    assert answer["preview"]["winners"]
    assert all(after <= 1.002 * before for before, after in margins(answer, aim).values())


def test_pinned_groups_count_more_than_all_levels_alike():
    small = {"total": "1.257281", "aim": "measured"}
    equal, pins = asked(weights="equal", **small), asked(weights="pins", **small)
    assert margins(equal, "measured")[CHILDREN][1] > 200
    assert margins(pins, "measured")[CHILDREN][1] < 70
    heavy = [pin | {"weight": "50"} if pin["id"] == CHILDREN else pin for pin in PINS]
    heavier = preview({"scenario": scenario_2020().to_dict(), "pins": heavy, **small}, CENSUS_2020)
    assert margins(heavier, "measured")[CHILDREN][1] < margins(pins, "measured")[CHILDREN][1]


@pytest.mark.parametrize("aim", ["measured", "finished"])
def test_a_margin_of_one_group_is_met_and_costs_no_one_else(aim):
    answer = asked(total="", targets={CHILDREN: "40"}, aim=aim)
    before, after = margins(answer, aim)[CHILDREN]
    assert after <= 40 * 1.001 < before
    assert answer["preview"]["losers"] == []
    assert float(answer["preview"]["total"]) > 1.7
    looser = asked(total="", targets={CHILDREN: "80"}, aim=aim)
    assert float(looser["preview"]["total"]) < 1


def test_limits_hold_while_a_total_is_shared_out():
    answer = asked(total="1.257281", weights="equal", targets={CHILDREN: "60", FAMILIES: "90"}, aim="measured")
    found = margins(answer, "measured")
    assert found[CHILDREN][1] <= 60
    assert found[FAMILIES][1] <= 90
    assert answer["preview"]["total"] == "1.257281"


def test_locked_budgets_stay_and_a_limit_on_one_is_refused():
    document = scenario_2020().to_dict()
    document["entries"]["PH3"]["state_A-G"]["locked"] = True
    answer = asked(document, total="1.5")
    assert budget(answer, "PH3", "state_A-G") == "0.662976"
    refused = asked(document, total="", targets={CHILDREN: "40"}, aim="measured")
    assert "PH3 is locked" in refused["problems"][f"targets.{CHILDREN}"]
    assert asked(document, total="", targets={CHILDREN: "40"}, aim="finished")["problems"]


def test_nonsense_is_reported_at_its_field():
    answer = asked(total="plenty", targets={CHILDREN: "lots", FAMILIES: "-1"})
    assert set(answer["problems"]) == {"total", f"targets.{CHILDREN}", f"targets.{FAMILIES}"}
    assert "expected a total" in asked(total="")["problems"]["total"]
    assert "expected one of" in asked(total="1", weights="mine")["problems"]["weights"]
    assert "expected at least" in asked(total="1", floor="today", aim="finished")["problems"]["total"]
    document = scenario_2020().to_dict()
    document["tau"]["PH3"] = "0"
    assert set(asked(document, total="1")["problems"]) == {"tau.PH3"}


def test_under_pure_dp_the_noise_is_solved_for():
    document = scenario_2020().to_dict() | {"privacy": "puredp"}
    answer = asked(document, total="", targets={CHILDREN: "600"}, aim="measured")
    assert margins(answer, "measured")[CHILDREN][1] <= 601
    assert "zcdp" in asked(document, total="2", aim="finished")["problems"]["total"]
