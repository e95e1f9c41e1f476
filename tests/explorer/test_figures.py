"""The explorer's numbers: those of `phsafe budget`, sums and averages checked against draws and brute force."""

import importlib.util
import json
import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phsafe.budgets import budget
from phsafe.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer import lines, sums
from phsafe.explorer.answers import evaluate, parameters_2020
from phsafe.explorer.figures import Figures, figures
from phsafe.explorer.joint import joint_moe
from phsafe.explorer.meaning import average, count, guesses, guesses_any_noise, percent_up
from phsafe.explorer.public import groups, truncation, universes
from phsafe.explorer.scenario import Entry, Scenario
from phsafe.explorer.summary import summary
from phsafe.privacy.mechanism import Noise
from phsafe.tables import CENSUS_2020, PH1, PH8

US = Config.load("examples/us.json")
MODES = ("published", "tight", "tight-bounded")


def test_the_2020_parameters_that_ship_are_the_examples():
    assert parameters_2020().config()[0] == US
    assert parameters_2020(puerto_rico=True).config()[0] == Config.load("examples/pr.json")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("privacy", ["zcdp", "puredp"])
def test_answers_equal_phsafe_budget_to_the_last_digit(mode, privacy):
    config = replace(US, sensitivity=mode, privacy=privacy)
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


def test_derived_cells_and_shell_totals_add_variances():
    found = Figures(US)
    single = found.rows["PH7", "state_*"].moe
    derived = {(d["name"], d["cell"]): d["levels"]["state_*"]["moe"] for d in found.derived()}
    assert derived["PH8_num", 2] == pytest.approx(single * math.sqrt(2))
    assert derived["PH8_num", 3] == derived["PH5_num", 2] == single
    total = found.table(PH8)["lines"][0]
    assert total["count"]["state_*"]["cells"] == 3
    assert total["per"]["state_*"]["cells"] == 2
    six = next(t for t in US.catalog.tables if t.name == "PH6")
    assert [m.count.cells for m in lines.made(US, six)][:3] == [16, 4, 1]


def brute_force(kind: str, scale: float, terms: int) -> int:
    x = np.arange(-2000, 2001)
    single = np.exp(-((x / scale) ** 2) / 2 if kind == "zcdp" else -np.abs(x) / scale)
    single /= single.sum()
    total = single
    for _ in range(terms - 1):
        total = np.convolve(total, single)
    centre = len(total) // 2
    m, within = 0, total[centre]
    while within < 0.9:
        m += 1
        within += total[centre - m] + total[centre + m]
    return m


@pytest.mark.parametrize("kind", ["zcdp", "puredp"])
@pytest.mark.parametrize("terms", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.4, 1.3, 2.9, 3.1, 17.0, 60.0])
def test_exact_margins_of_sums_equal_brute_force(kind, scale, terms):
    assert sums.exact_moe(kind, Noise("", scale, scale**2), terms) == brute_force(kind, scale, terms)


def test_large_geometric_sums_meet_their_limit():
    noise = Noise("", 250.0, 0.0)
    assert sums.exact_moe("puredp", noise, 4) == pytest.approx(sums.moe("puredp", noise, 4), abs=1)
    vast = Noise("", 5000.0, 0.0)
    assert sums.exact_moe("puredp", vast, 4) == math.ceil(sums.moe("puredp", vast, 4))


def test_averages_agree_with_draws():
    found = Figures(US)
    people, units = 60_000.0, 24_000.0
    says = found.group(PH1, "state_A-G", people, units)
    rng = np.random.default_rng(7)
    part = lines.made(US, PH1)[0]
    n = people + rng.normal(0, math.sqrt(found.variance(part.count, "state_A-G")), 400_000)
    d = units + rng.normal(0, math.sqrt(found.variance(part.per, "state_A-G")), 400_000)
    error = np.abs(n / d - people / units)
    assert says["moe"] == pytest.approx(np.quantile(error, 0.9), rel=0.01)
    assert says["verdict"] == "good"
    assert average(150, 52, 60.0**2, 41.0**2)["verdict"] == "noise"
    assert "no usable average" in average(150, 52, 60.0**2, 41.0**2)["detail"]
    assert count(1000, 100)["verdict"] == "rough"


def test_an_attackers_best_guess_is_what_draws_give():
    rho = 1.257281
    rng = np.random.default_rng(3)
    shift = math.sqrt(2 * rho)
    right = np.mean(rng.normal(0, 1, 1_000_000) < shift / 2)
    assert guesses("zcdp", Fraction("1.257281")) == pytest.approx(right, abs=2e-3)
    for amount in (Fraction(1, 1000), Fraction(1), Fraction(10)):
        assert 0.5 < guesses("zcdp", amount) <= guesses_any_noise(amount) <= 1
    assert guesses("puredp", Fraction(1)) == pytest.approx(math.e / (1 + math.e))
    assert percent_up(0.5) == "50.0 %"


def test_joint_estimation_never_adds_error():
    config = Config.load({**US.to_production(), "state_filter": ["44", "50"]})
    before = {(r.event.tabulation, r.event.level): r.moe for r in budget(config).rows}
    after = joint_moe(config)
    assert after.keys() == before.keys()
    assert all(after[key] <= before[key] * (1 + 1e-9) for key in before)
    assert after["PH3", "state_*"] < before["PH3", "state_*"] / 3


@pytest.mark.parametrize(
    ("key", "typed", "words"),
    [
        ("value", "-1", "from 0.000000001"), ("value", "0", "switch it off"), ("value", "abc", "expected a number"),
        ("value", "", "switch the level off"), ("value", "1e40", "expected a number"), ("value", "1_0", "expected"),
        ("value", "5000000", "to 1000000"), ("value", "Infinity", "expected"), ("value", "1e-400", "expected"),
    ],
)  # fmt: skip
def test_bad_fields_are_named(key, typed, words):
    scenario = parameters_2020()
    entries = {**scenario.entries, ("PH2", "usa_*"): Entry(typed)}
    found, problems = figures(replace(scenario, entries=entries))
    assert found is None
    assert list(problems) == ["entries.PH2.usa_*"]
    assert words in problems["entries.PH2.usa_*"]


def test_bad_thresholds_deltas_and_empty_plans_are_named():
    scenario = parameters_2020()
    assert "tau.PH3" in figures(replace(scenario, tau={**scenario.tau, "PH3": "1.5"}))[1]
    assert "delta" in figures(replace(scenario, delta="0"))[1]
    nothing = {key: Entry(on=False) for key in scenario.entries}
    assert "entries" in figures(replace(scenario, entries=nothing))[1]


@given(st.text(max_size=45))
def test_no_text_in_a_field_is_a_fault(typed):
    scenario = parameters_2020()
    entries = {**scenario.entries, ("PH2", "usa_*"): Entry(typed)}
    found, problems = figures(replace(scenario, entries=entries, tau={**scenario.tau, "PH3": typed}, delta=typed))
    assert (found is None) == bool(problems)


def test_a_target_in_a_scenario_is_a_budget_in_its_config():
    scenario = parameters_2020()
    targets = {
        key: replace(e, value="68") if key == ("PH7", "state_A-G") else replace(e, value="200")
        for key, e in scenario.entries.items()
    }
    config = replace(scenario, entries=targets, units=dict.fromkeys(scenario.units, "moe")).config()[0]
    assert config.budgets["PH7"]["state_A-G"] == Decimal("0.141622")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_the_summary_escapes_names_and_needs_nothing_else():
    page = summary("<script>alert(1)</script>", Figures(US), truncation())
    tags = Tags()
    tags.feed(page)
    names = {tag for tag, _ in tags.tags}
    assert not names & {"script", "img", "link", "iframe", "a"}
    assert "1.257281" in page
    assert "2.514562" in page
    assert "http" not in page.replace("http-equiv", "")


def test_public_tables_cover_what_the_page_offers(tmp_path):
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
    place = Path(__file__).with_name("make_public_tables.py")
    spec = importlib.util.spec_from_file_location("make_public_tables", place)
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    rows = {(region, code): (households, people) for region, code, households, people in make.groups()}
    assert rows == groups()


def test_shipped_shares_say_where_they_come_from():
    document = json.loads(Path("src/phsafe/explorer/truncation.json").read_text(encoding="utf-8"))
    assert "made-up" in document["source"]
