"""`phsafe solve`: the paper's targets give its budgets, and a fixed total is split optimally."""

import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from phsafe.cli.solve import solve as command
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.explorer.page_requests import Request
from phsafe.explorer.solve_targets import budget_for, target_for
from phsafe.explorer.solver import Item, solve, split_total, squared_moe
from phsafe.privacy.accountant import plan
from phsafe.privacy_math.sensitivity import MODES

US = Config.load("examples/us.json")
NATION, STATE = ("usa_*", "usa_A-G", "usa_H,I"), ("state_*", "state_H,I")
SIX_LEVELS = ("PH1_num", "PH1_denom", "PH3", "PH4", "PH5_denom", "PH7", "PH8_denom")
PAPER = {
    **{name: {**dict.fromkeys(NATION, 500), **dict.fromkeys(STATE, 200), "state_A-G": 68} for name in SIX_LEVELS},
    **{name: {"usa_*": 500, "state_*": 200} for name in ("PH2", "PH6")},
}
PAPER["PH3"] = {**PAPER["PH3"], "state_A-G": 20}
TOTAL = Decimal("1.257281")


def paper(**more: object) -> Request:
    return Request.load({"moe": PAPER, **more}, US)


def test_the_papers_targets_give_the_papers_46_budgets():
    solved = solve(US, paper()).config
    assert len(solved.measurements()) == 46
    assert solved.budgets == US.budgets
    assert solved.total == Fraction(TOTAL)


def test_the_papers_targets_cost_0_480_under_tight():
    solved = solve(US, paper(sensitivity="tight")).config
    assert solved.total == Fraction("0.480483")
    assert "0.480483" in (Path(__file__).parents[2] / "docs" / "how-to" / "explore.md").read_text(encoding="utf-8")
    assert solved.sensitivity == "tight"


def test_target_for_finds_the_roundest_target_of_a_budget():
    for m in US.measurements():
        assert target_for(US, (m.tabulation.name, m.level.key), m.budget) == PAPER[m.tabulation.name][m.level.key]


def test_a_fixed_total_with_equal_weights_beats_2020():
    solution = solve(US, Request.load({"total": TOTAL}, US))
    assert solution.config.total == Fraction(TOTAL)
    assert squared_moe(solution.config) < squared_moe(US) / 10
    assert solution.to_dict()["weighted_squared_moe_before"] == squared_moe(US)


def test_the_split_follows_the_closed_form():
    solved = solve(US, Request(total=TOTAL)).config
    # k = 242 (τ = 10), 98 (τ = 6) and 2 (units); ρ is proportional to the square root of k.
    person, child, unit = (solved.budgets[name]["state_*"] for name in ("PH1_num", "PH3", "PH1_denom"))
    assert float(person / unit) == pytest.approx((242 / 2) ** 0.5, rel=1e-3)
    assert float(child / unit) == pytest.approx((98 / 2) ** 0.5, rel=1e-3)


def test_locked_levels_keep_their_budgets_and_floors_bind():
    request = Request.load(
        {
            "total": TOTAL,
            "locks": {"PH3": ["state_A-G"], "PH2": True},
            "floors": {"PH7": {"usa_*": Decimal("0.2")}},
        },
        US,
    )
    solved = solve(US, request).config
    assert solved.budgets["PH3"]["state_A-G"] == US.budgets["PH3"]["state_A-G"]
    assert solved.budgets["PH2"] == US.budgets["PH2"]
    assert solved.budgets["PH7"]["usa_*"] == Decimal("0.2")
    assert solved.total == Fraction(TOTAL)


def test_targets_limit_the_split_of_a_total():
    solved = solve(US, Request.load({"total": TOTAL, "moe": {"PH3": {"state_A-G": 20}}}, US)).config
    assert solved.budgets["PH3"]["state_A-G"] >= Decimal("0.662976")
    assert solved.total == Fraction(TOTAL)


@pytest.mark.parametrize(("mode", "stated"), [("published", "0.5"), ("tight", "0.25"), ("tight-bounded", "0.5")])
def test_a_total_can_be_a_bounded_loss(mode, stated):
    request = Request.load({"total": 1, "neighbours": "bounded", "sensitivity": mode}, US)
    config = solve(US, request).config
    assert 1 - Fraction("0.00001") < plan(config).total.bounded <= 1
    # The levels of a tabulation share some of their loss, unless it is the published one.
    assert config.total == Fraction(stated) if request.sensitivity == "published" else config.total > Fraction(stated)


def test_pure_dp_splits_and_meets_targets():
    solution = solve(US, Request.load({"total": TOTAL, "privacy": "puredp"}, US))
    assert solution.config.total == Fraction(TOTAL)
    assert squared_moe(solution.config) < squared_moe(solution.before)
    targeted = solve(US, paper(privacy="puredp")).config
    assert targeted.budgets["PH1_denom"]["usa_*"] == budget_for(targeted, ("PH1_denom", "usa_*"), Decimal(500))


def test_weights_by_cells_favour_large_levels():
    solved = solve(US, Request.load({"total": TOTAL, "weights": "cells"}, US)).config
    assert solved.budgets["PH3"]["state_A-G"] > solved.budgets["PH3"]["usa_*"]


@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
@pytest.mark.parametrize("mode", MODES)
def test_a_total_is_met_where_losses_per_budget_differ(mode, neighbours):
    """The loss of dropped persons is ρ and 2ρ in every mode, that of other tabulations depends on the mode."""
    measured = Config.load(parameters_2020("us-measured"))
    locks = {"PH1_num": True, "PH3_dropped": ["usa_*"]}
    request = {
        "total": 2,
        "neighbours": neighbours,
        "sensitivity": mode,
        "locks": locks,
        "floors": {"PH4_dropped": 0.01},
    }
    solution = solve(measured, Request.load(request, measured))
    loss = getattr(plan(solution.config).total, neighbours)
    assert loss == 2 if mode == "published" else 2 - Fraction("0.00001") < loss <= 2
    budgets = solution.config.budgets
    assert budgets["PH1_num"] == measured.budgets["PH1_num"]
    assert budgets["PH3_dropped"]["usa_*"] == measured.budgets["PH3_dropped"]["usa_*"]
    assert min(budgets["PH4_dropped"].values()) >= Decimal("0.01")
    with pytest.raises(PHSafeError, match="expected at least"):
        solve(measured, Request.load(request | {"total": Decimal("0.05")}, measured))


items = st.lists(st.tuples(st.floats(1e-3, 1e3), st.integers(1, 50), st.integers(1, 2)), min_size=1, max_size=8).map(
    lambda parts: [Item((str(i), ""), cost, floor, price if i else 1) for i, (cost, floor, price) in enumerate(parts)]
)


@given(items=items, extra=st.integers(0, 500), power=st.sampled_from([1, 2]))
def test_moving_a_millionth_never_improves_a_split(items, extra, power):
    total = sum(item.price * item.floor for item in items) + extra
    given_ = split_total(total, items, power)
    assert sum(item.price * given_[item.key] for item in items) == total
    assert all(given_[item.key] >= item.floor for item in items)

    def cost(item, n):
        return item.cost * float(n) ** -power

    for a in items:
        for b in items:
            if a != b and a.price == b.price and given_[a.key] > a.floor:
                loss = cost(a, given_[a.key] - 1) - cost(a, given_[a.key])
                gain = cost(b, given_[b.key]) - cost(b, given_[b.key] + 1)
                assert gain <= loss * (1 + 1e-9)


@given(
    target=st.decimals("0.01", "100000", places=2),
    tau=st.integers(1, 50),
    privacy=st.sampled_from(["zcdp", "puredp"]),
)
def test_a_target_is_met_after_rounding(target, tau, privacy):
    config = Config.load({**US.to_production(), "tau": {**US.tau, "PH3": tau}, "privacy_defn": privacy})
    rho = budget_for(config, ("PH3", "usa_*"), target)
    assert rho == rho.quantize(Decimal("0.000001"))
    budget = float(rho)
    moe = (
        1.645 * (2 * (tau + 1) ** 2 / budget) ** 0.5
        if privacy == "zcdp"
        else 2.302585092994046 * (2 * tau + 2) / budget
    )
    assert moe < int(target) + 1 + 1e-6


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "got none of them"),
        ({"total": -1}, "total: expected a number"),
        ({"total": "much"}, "total: expected a number"),
        ({"total": True}, "total: expected a number"),
        ({"moe": {"PH9": 3}}, "'PH9'"),
        ({"moe": {"PH3": {"county_*": 3}}}, "'county_*'"),
        ({"moe": {"PH3": -3}}, "moe, PH3: expected a number"),
        ({"moe": {"PH3": Decimal("NaN")}}, "moe, PH3: expected a number"),
        ({"total": 1, "locks": {"PH3": ["usa_*"]}, "floors": {"PH3": 1}}, "locks: expected levels without"),
        ({"total": 1, "locks": ["PH3"]}, "locks: expected a table"),
        ({"total": 1, "weights": {"PH3": 0}}, "weights, PH3"),
        ({"total": 1, "weights": "heavy"}, "weights"),
        ({"total": 1, "neighbours": "next door"}, "neighbours: expected one of"),
        ({"total": 1, "sensitivity": "loose"}, "sensitivity: expected one of"),
        ({"totl": 1}, "totl: unknown key; expected one of"),
    ],
)  # fmt: skip
def test_invalid_targets_are_refused_with_a_reason(document, message):
    with pytest.raises(PHSafeError) as error:
        Request.load(document, US)
    assert message in str(error.value)


def test_a_total_too_small_for_its_constraints_is_refused():
    with pytest.raises(PHSafeError, match=r"expected at least 0\.6\d+, .* got 0\.5"):
        solve(US, Request.load({"total": Decimal("0.5"), "locks": {"PH3": True}}, US))
    everything = {t.name: True for t in US.catalog.tabulations}
    with pytest.raises(PHSafeError, match="nothing to split"):
        solve(US, Request.load({"total": 3, "locks": everything}, US))


def test_the_command_writes_a_config_that_loads(tmp_path: Path, phsafe_command):
    targets, out = tmp_path / "targets.toml", tmp_path / "out.json"
    targets.write_text('total = 1.257281\n[locks]\nPH3 = ["state_A-G"]\n')
    outcome = phsafe_command("solve", "examples/us.json", targets, out, "--json")
    assert Config.load(out).total == Fraction(TOTAL)
    assert json.loads(outcome.out)["total"] == 1.257281
    with pytest.raises(PHSafeError, match="doesn't exist yet"):
        command(Path("examples/us.json"), targets, out)


@pytest.mark.parametrize("text", ["total = ", "[[", "[1]", "\x00"])
def test_broken_target_files_are_refused(tmp_path, text):
    for name in ("targets.toml", "targets.json"):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(PHSafeError):
            Request.load(path, US)
    with pytest.raises(PHSafeError, match="can't read"):
        Request.load(tmp_path / "absent.toml", US)


def test_the_command_takes_a_config_first():
    app = typer.Typer()
    app.command()(command)
    assert typer.main.get_command(app).params[0].name == "config"
