"""The explorer's numbers: equal to `phsafe budget`, and checked against simulation and brute force."""

import hashlib
import importlib.util
import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phsafe.configs import line_sums
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import ConfigError, PHSafeError
from phsafe.explorer.figures import Figures, figures
from phsafe.explorer.joint_margins import joint_moe
from phsafe.explorer.page_answers import evaluate, export
from phsafe.explorer.pinned_groups import defaults
from phsafe.explorer.plain_language import guesses, guesses_any_noise, percent_up, verdict
from phsafe.explorer.public_tables import groups, truncation, universes
from phsafe.explorer.scenario import BudgetEntry, Scenario
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.model.tables import CENSUS_2020, PH1, PH3, PH8
from phsafe.privacy.budgets import budget
from phsafe.privacy.mechanism import Noise
from phsafe.privacy_math.noise_sums import exact_moe, mixed_geometric_moe

US = Config.load("examples/us.json")
MEASURED = Config.load(parameters_2020("us-measured"))
MODES = ("published", "tight", "tight-bounded")


def test_the_2020_scenarios_equal_the_example_configs():
    assert scenario_2020().config()[0] == US
    assert scenario_2020(puerto_rico=True).config()[0] == Config.load("examples/pr.json")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("privacy", ["zcdp", "puredp"])
def test_evaluate_equals_phsafe_budget_to_the_last_digit(mode, privacy):
    config = replace(MEASURED, sensitivity=mode, privacy=privacy)
    answer = evaluate({"scenario": Scenario.from_config(config, "x").to_dict()}, CENSUS_2020, truncation())
    known = budget(config)
    assert Fraction(answer["totals"]["unbounded"]) == known.loss.unbounded
    assert Fraction(answer["totals"]["bounded"]) == known.loss.bounded
    assert answer["totals"]["epsilon"] == known.loss.epsilon()
    assert answer["totals"]["epsilon_bounded"] == known.loss.epsilon_bounded()
    for row in known.rows:
        shown = answer["rows"][row.event.tabulation][row.event.level]
        assert shown["moe"] == row.moe
        assert shown["moe_exact"] == row.moe_exact
        assert shown["sigma2"] == row.event.noise.variance
        assert Fraction(shown["unbounded"]) == row.event.loss.unbounded
    assert sum(part["share"] for part in answer["totals"]["by_tabulation"].values()) == pytest.approx(1)
    assert sum(part["share"] for part in answer["totals"]["by_level"].values()) == pytest.approx(1)


def test_derived_cells_and_total_lines_add_variances():
    found = Figures(US)
    single = found.rows["PH7", "state_*"].moe
    derived = {(d["name"], d["cell"]): d["levels"]["state_*"]["moe"] for d in found.derived()}
    assert derived["PH8_num", 2] == pytest.approx(single * math.sqrt(2))
    assert derived["PH8_num", 3] == derived["PH5_num", 2] == single
    total = found.table(PH8)["lines"][0]
    assert total["count"]["state_*"]["cells"] == 3
    assert total["per"]["state_*"]["cells"] == 2
    six = next(t for t in US.catalog.tables if t.name == "PH6")
    assert [m.count.cells for m in line_sums.line_sums(US, six)][:3] == [16, 4, 1]


def test_averages_agree_with_simulation():
    found = Figures(US)
    people, units = 60_000.0, 24_000.0
    rng = np.random.default_rng(7)
    part = line_sums.line_sums(US, PH1)[0]
    moe = found.average_moe(part, "state_A-G", people, units)
    n = people + rng.normal(0, math.sqrt(found.variance(part.count, "state_A-G")), 400_000)
    d = units + rng.normal(0, math.sqrt(found.variance(part.per, "state_A-G")), 400_000)
    error = np.abs(n / d - people / units)
    assert moe == pytest.approx(np.quantile(error, 0.9), rel=0.01)
    assert [verdict(share) for share in (0.05, 0.051, 0.3, 0.31)] == ["good", "rough", "rough", "noise"]


def test_an_attackers_success_rate_agrees_with_simulation():
    rho = 1.257281
    rng = np.random.default_rng(3)
    shift = math.sqrt(2 * rho)
    right = np.mean(rng.normal(0, 1, 1_000_000) < shift / 2)
    assert guesses("zcdp", Fraction("1.257281")) == pytest.approx(right, abs=2e-3)
    for amount in (Fraction(1, 1000), Fraction(1), Fraction(10)):
        assert 0.5 < guesses("zcdp", amount) <= guesses_any_noise(amount) <= 1
    assert guesses("puredp", Fraction(1)) == pytest.approx(math.e / (1 + math.e))
    assert percent_up(0.5) == "50.0 %"


def test_joint_estimation_never_increases_the_error():
    config = Config.load({**US.to_production(), "state_filter": ["44", "50"]})
    before = {(r.event.tabulation, r.event.level): r.moe for r in budget(config).rows}
    after = joint_moe(config)
    assert after.keys() == before.keys()
    assert all(after[key] <= before[key] * (1 + 1e-9) for key in before)
    assert after["PH3", "state_*"] < before["PH3", "state_*"] / 3


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("-1", "from 0.000000001"), ("0", "switch it off"), ("abc", "expected a number"),
        ("", "switch the level off"), ("1e40", "expected a number"), ("1_0", "expected"),
        ("5000000", "to 1000000"), ("Infinity", "expected"), ("1e-400", "expected"),
    ],
)  # fmt: skip
def test_an_invalid_field_gets_its_own_message(typed, message):
    scenario = scenario_2020()
    entries = {**scenario.entries, ("PH2", "usa_*"): BudgetEntry(typed)}
    found, problems = figures(replace(scenario, entries=entries))
    assert found is None
    assert list(problems) == ["entries.PH2.usa_*"]
    assert message in problems["entries.PH2.usa_*"]


def test_invalid_thresholds_deltas_and_empty_plans_are_reported():
    scenario = scenario_2020()
    assert "tau.PH3" in figures(replace(scenario, tau={**scenario.tau, "PH3": "1.5"}))[1]
    assert "delta" in figures(replace(scenario, delta="0"))[1]
    nothing = {key: BudgetEntry(on=False) for key in scenario.entries}
    assert "entries" in figures(replace(scenario, entries=nothing))[1]


@given(st.text(max_size=45))
def test_no_text_in_a_field_causes_an_exception(typed):
    scenario = scenario_2020()
    entries = {**scenario.entries, ("PH2", "usa_*"): BudgetEntry(typed)}
    found, problems = figures(replace(scenario, entries=entries, tau={**scenario.tau, "PH3": typed}, delta=typed))
    assert (found is None) == bool(problems)


def test_targets_become_budgets_in_the_config():
    scenario = scenario_2020()
    targets = {
        key: replace(e, value="68") if key == ("PH7", "state_A-G") else replace(e, value="200")
        for key, e in scenario.entries.items()
    }
    config = replace(scenario, entries=targets, units=dict.fromkeys(scenario.units, "moe")).config()[0]
    assert config.budgets["PH7"]["state_A-G"] == Decimal("0.141622")


class TagCollector(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


EVIL = "<script>alert(1)</script>"


def exported(form: str, **body: object) -> bytes:
    return export(form, {"scenario": scenario_2020().to_dict(), **body}, CENSUS_2020, truncation())


def test_the_summary_escapes_names_and_is_self_contained():
    evil = scenario_2020().to_dict() | {"name": EVIL}
    minutes = dict.fromkeys(("decision", "reason", "who", "date"), EVIL)
    page = exported("summary", scenario=evil, baseline=evil, minutes=minutes).decode()
    tags = TagCollector()
    tags.feed(page)
    names = {tag for tag, _ in tags.tags}
    assert not names & {"script", "img", "link", "iframe", "a"}
    assert page.count("&lt;script&gt;alert") >= 6
    assert "1.257281" in page
    assert "2.514562" in page
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")


def test_the_summary_has_the_decision_the_groups_the_comparison_and_the_configs_hash():
    pins = [pin.to_dict() for pin in defaults(CENSUS_2020, puerto_rico=False)]
    minutes = {"decision": "Publish as in 2020.", "who": "The committee", "date": "2026-11-18"}
    page = exported("summary", pins=pins, minutes=minutes).decode()
    for text in ("Publish as in 2020.", "The committee", "2026-11-18", "the same as 2020", "<svg", "after joint"):
        assert text in page
    assert "<dt>Reason</dt>" not in page
    for pin in pins:
        assert escape(pin["label"]) in page
    assert hashlib.sha256(exported("config")).hexdigest() in page
    assert "<svg" not in exported("summary").decode()


@pytest.mark.parametrize(
    ("minutes", "message"),
    [(3, "expected text"), ({"who": 3}, "expected text"), ({"reason": "x" * 501}, "reason: expected at most 500")],
)
def test_minutes_that_are_no_short_texts_are_refused(minutes, message):
    with pytest.raises(ConfigError, match=message):
        exported("summary", minutes=minutes)


def test_what_cant_be_exported_is_refused():
    bad = scenario_2020().to_dict() | {"delta": "x"}
    with pytest.raises(ConfigError, match="correct the marked fields"):
        exported("config", scenario=bad)
    with pytest.raises(ConfigError, match="config, workbook or summary"):
        exported("poster")
    assert exported("workbook")[:2] == b"PK"


def test_public_tables_cover_every_choice_on_the_page(tmp_path):
    table = truncation()
    for name, tau in US.tau.items():
        assert 0 < table.dropped(name, tau) < 1
        assert table.dropped(name, tau - 1) > table.dropped(name, tau)
    assert table.dropped("PH1_num", 99) == table.dropped("PH1_num", 20)
    assert table.dropped("OTHER", 3) is None
    assert len([key for key in groups() if key[0] == "56"]) == 10
    assert universes()["PH1"] == {"people": 1.0, "units": 1.0}
    own = tmp_path / "shares.json"
    own.write_text('{"source": "ours", "shares": {"PH1_num": {"10": 0.5}}}')
    assert truncation(own).dropped("PH1_num", 10) == 0.5
    for bad in (
        "",
        "[]",
        '{"shares": 3}',
        '{"shares": {"PH1_num": {"x": 1}}}',
        '{"shares": {"PH1_num": {"1": 101}}}',
    ):
        own.write_text(bad)
        with pytest.raises(PHSafeError, match="expected"):
            truncation(own)
    with pytest.raises(PHSafeError, match="can't read"):
        truncation(tmp_path / "absent.json")


def test_group_sizes_follow_from_the_state_profiles():
    path = Path(__file__).with_name("make_public_tables.py")
    spec = importlib.util.spec_from_file_location("make_public_tables", path)
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    rows = {(region, code): (households, people) for region, code, households, people in make.groups()}
    assert rows == groups()


def test_the_shipped_shares_name_their_source():
    document = json.loads(Path("src/phsafe/explorer/truncation.json").read_text(encoding="utf-8"))
    assert "synthetic" in document["source"]


def test_a_scenario_keeps_the_share_of_blind_cells():
    config = replace(US, sensitivity="structured", blind_share={"PH3": Decimal("0.25")})
    scenario = Scenario.from_config(config, "x")
    again = Scenario.from_dict(scenario.to_dict(), CENSUS_2020)
    assert again == scenario and again.config()[0] == config
    for wrong in ({"PH3": "2"}, {"PH3": "x"}, {"PH9": "0.5"}):
        assert replace(scenario, blind_share=wrong).config()[0] is None
    assert Scenario.from_dict(scenario.to_dict() | {"blind_share": 3}, CENSUS_2020).blind_share == {}


def test_sums_over_both_blocks_add_their_variances():
    """PH3's total has three blind cells and four others; its other lines have cells of one block."""
    found = Figures(replace(US, sensitivity="structured"))
    lines = {line["number"]: line["count"]["state_*"] for line in found.table(PH3)["lines"]}
    blind, rest = (one.noise for one in found.rows["PH3", "state_*"].event.blocks)
    assert lines[2]["moe"] == pytest.approx(1.645 * blind.scale)
    assert lines[3]["moe"] == pytest.approx(1.645 * 2 * rest.scale)
    assert lines[1]["moe"] == pytest.approx(1.645 * math.sqrt(3 * blind.variance + 4 * rest.variance))
    assert lines[1]["moe_exact"] == pytest.approx(lines[1]["moe"], abs=1)
    pure = Figures(replace(US, sensitivity="structured", privacy="puredp"))
    total = next(line["count"]["state_*"] for line in pure.table(PH3)["lines"] if line["number"] == 1)
    scales = [one.noise.scale for one in pure.rows["PH3", "state_*"].event.blocks]
    assert total["moe"] == mixed_geometric_moe(((scales[0], 3), (scales[1], 4)))
    assert total["moe"] < exact_moe("puredp", Noise("", scales[1], 2 * scales[1] ** 2), 7)
