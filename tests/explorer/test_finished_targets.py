"""Targets for finished tables: met after joint estimation, with smaller budgets."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
import typer

from phsafe.cli.solve import solve as command
from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.joint_margins import joint_moe
from phsafe.explorer.solve_targets import target_for
from phsafe.explorer.solver import solve
from phsafe.model.exact_numbers import dumps
from phsafe.privacy.accountant import plan
from phsafe.privacy_math.sensitivity import MODES

TARGETS = {"PH1_num": 100, "PH2": 150, "PH7": 100, "PH3": {"state_A-G": 20, "state_*": 200}}


@pytest.fixture(scope="module")
def config():
    document = Config.load("examples/us.json").to_production()
    return Config.load(document | {"state_filter": ["11", "44", "56"]})


@pytest.mark.parametrize("mode", ["published", "tight"])
def test_targets_are_met_after_joint_estimation_with_smaller_budgets(config, mode):
    request = {"moe": TARGETS, "sensitivity": mode}
    measured, finished = (solve(config, request, aim=aim).config for aim in ("measured", "finished"))
    margins = joint_moe(finished)
    targets = {
        (name, key): target
        for name, levels in TARGETS.items()
        for key, target in (levels if isinstance(levels, dict) else dict.fromkeys(config.budgets[name], levels)).items()
    }
    tight = 0
    for (name, key), target in targets.items():
        assert margins[name, key] <= target
        at_floor = finished.budgets[name][key] == Decimal("0.000001")
        assert at_floor or margins[name, key] > 0.99 * float(target)
        tight += not at_floor
    assert tight > 5
    # The race groups of PH3 already add up to a better total than its target asks for.
    assert finished.budgets["PH3"]["state_*"] == Decimal("0.000001")
    assert float(finished.total) < 0.97 * float(measured.total)
    assert finished.budgets["PH4"] == measured.budgets["PH4"], "levels without targets keep their budgets"


def test_what_has_no_finished_targets_is_refused(config):
    for request in ({"total": 1}, {"moe": {"PH3": 40}, "total": 1}, {"moe": {"PH3": 40}, "floors": {"PH3": 0.1}}):
        with pytest.raises(PHSafeError, match="neither a total nor floors"):
            solve(config, request, aim="finished")
    with pytest.raises(PHSafeError, match="zcdp only"):
        solve(config, {"moe": {"PH3": 40}, "privacy": "puredp"}, aim="finished")


def test_the_command_aims_at_finished_tables(config, tmp_path):
    source, targets, out = tmp_path / "config.json", tmp_path / "targets.json", tmp_path / "out.json"
    source.write_text(dumps(config.to_production()))
    targets.write_text(json.dumps({"moe": {"PH7": 100}}))
    command(source, targets, out, aim="finished")
    solved = Config.load(out)
    assert solved.budgets["PH7"] == solve(config, {"moe": {"PH7": 100}}, aim="finished").config.budgets["PH7"]
    with pytest.raises(typer.BadParameter, match="expected measured or finished"):
        command(source, targets, tmp_path / "other.json", aim="final")


@pytest.mark.parametrize(("mode", "expected"), [("published", "1.121457"), ("tight", "0.431597")])
def test_the_margins_of_2020_after_joint_estimation(mode, expected):
    us = Config.load("examples/us.json")
    targets: dict[str, dict[str, Decimal]] = {}
    for tabulation, level, rho in us.measurements():
        key = (tabulation.name, level.key)
        targets.setdefault(tabulation.name, {})[level.key] = target_for(us, key, rho)
    finished = solve(us, {"moe": targets, "sensitivity": mode}, aim="finished").config
    # The fit is computed in floats, so the last places may differ between machines.
    assert float(finished.total) == pytest.approx(float(expected), rel=1e-4)
    docs = Path(__file__).parents[2] / "docs"
    assert expected in (docs / "how-to" / "explore.md").read_text(encoding="utf-8")
    loss = plan(finished).total
    stated = f"{float(loss.unbounded):.3f} and{{}} {float(loss.bounded):.3f}"
    privacy = (docs / "privacy.md").read_text(encoding="utf-8")
    assert any(stated.format(words) in privacy for words in ("", " a bounded ρ of"))


def test_budget_compares_margins_before_and_after_joint_estimation(config, tmp_path, phsafe_command):
    source = tmp_path / "config.json"
    source.write_text(dumps(config.to_production()))
    document = json.loads(phsafe_command("budget", source, "--compare", "--finished", "--json").out)
    for mode in MODES:
        moe = joint_moe(config.with_sensitivity(mode))["PH7", "state_*"]
        assert document["finished"][mode]["PH7"]["state_*"] == moe
    shown = phsafe_command("budget", source, "--compare", "--finished").out
    assert "after joint estimation" in shown and f"{document['finished']['tight']['PH3']['state_A-G']:.2f}" in shown
    refused = phsafe_command("budget", source, "--finished")
    assert (refused.code, "expected --compare too" in refused.err) == (1, True)
    source.write_text(dumps(config.to_production() | {"privacy_defn": "puredp"}))
    refused = phsafe_command("budget", source, "--compare", "--finished")
    assert (refused.code, "zcdp only" in refused.err) == (1, True)
