"""Budgets for finished tables: limits met after joint estimation, best splits of a total, who wins and loses."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import typer
from scipy import sparse

from phsafe.cli.solve import solve as command
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.estimation.densities import NORMAL
from phsafe.estimation.fit import fit
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.explorer.finished_margins import basis_terms, finished_margins
from phsafe.explorer.joint_margins import joint_moe
from phsafe.explorer.page_requests import Request
from phsafe.explorer.solve_targets import target_for
from phsafe.explorer.solver import solve
from phsafe.explorer.solver_groups import combination
from phsafe.model.exact_numbers import dumps
from phsafe.model.levels import LEVELS, UNATTRIBUTED, Geography, Level
from phsafe.model.spec import Catalog
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy.accountant import plan
from phsafe.privacy_math.margins import gaussian_moe
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
    met = 0
    for (name, key), target in targets.items():
        assert margins[name, key] <= target
        cut = {n: dict(levels) for n, levels in finished.budgets.items()}
        cut[name][key] *= Decimal("0.95")
        saved = 1 - plan(replace(finished, budgets=cut)).total.unbounded / plan(finished).total.unbounded
        assert margins[name, key] > 0.99 * float(target) or saved < 5e-4, "a better margin than asked for costs nothing"
        met += margins[name, key] > 0.99 * float(target)
    assert met > 5
    # The race groups of PH3 already add up to a better total than its target asks for.
    assert finished.budgets["PH3"]["state_*"] < measured.budgets["PH3"]["state_*"]
    assert float(finished.total) < 0.97 * float(measured.total)
    assert finished.budgets["PH4"] == measured.budgets["PH4"], "levels without targets keep their budgets"


def reference_variances(config, terms):
    """Finished variances by the fit that estimates releases, over all states."""
    blocks, variances, start = {}, [], 0
    for event, m in zip(plan(config).events, config.measurements(), strict=True):
        groups = tuple((region, iteration.code) for region, iteration in m.level.groups(config.states))
        blocks[m.tabulation.name, m.level.key] = LevelBlock(m.tabulation, m.level, groups, start)
        of_cell = {cell: one.noise.variance for one in event.blocks for cell in one.block.cells}
        variances += [of_cell[cell] for cell in m.tabulation.cells] * len(groups)
        start = len(variances)
    measured = Measured(config, blocks, np.zeros(start), np.array(variances), NORMAL)
    sums = np.zeros((len(terms), start))
    for row, term in zip(sums, terms, strict=True):
        for (name, cell), value in term.cells.items():
            row[blocks[name, term.level].positions([cell])[-1, 0]] = value
    return fit(measured).variance(sparse.csr_array(sums))


GROUPS = [
    {"table": "PH3", "line": 1, "level": "state_A-G", "worse": 0},
    {"table": "PH1", "line": 1, "level": "state_H,I", "people": 3000, "households": 1000, "name": "Hispanic average"},
    {"tabulation": "PH7", "cell": 3, "level": "usa_*", "moe": 250, "weight": 0},
]


@pytest.mark.parametrize(("mode", "definition"), [("published", "zcdp"), ("structured", "zcdp"), ("tight", "puredp")])
def test_finished_margins_are_those_of_the_fit_that_estimates_releases(config, mode, definition):
    """Two states represent all three; the last state's last group has the same margin as the first."""
    config = replace(config.with_sensitivity(mode), privacy=definition)
    groups = Request.load({"total": 1, "groups": GROUPS}, config).groups
    terms = [*basis_terms(config).values(), *(combination(config, group) for group in groups)]
    expected = [gaussian_moe(v) for v in reference_variances(config, terms)]
    found = [*joint_moe(config).values(), *finished_margins(config, groups)]
    assert found == pytest.approx(expected, rel=1e-9)


def test_levels_below_states_are_fitted_as_a_whole():
    """In a catalog with counties, two states don't represent all."""
    counties = tuple((f"{state}{i:03d}", f"County {i}") for state, n in (("11", 1), ("44", 3)) for i in range(1, n + 1))
    geography = Geography("county", "County", "COUNTY", ("TABBLKST", "TABBLKCOU"), counties, covers=False)
    tables = tuple(table for table in CENSUS_2020.tables if table.name == "PH6")
    catalog = Catalog(tables, (*LEVELS, Level(geography, UNATTRIBUTED)))
    budgets = {"PH6": {"usa_*": 0.01, "state_*": 0.02, "county_*": 0.03}}
    document = {"privacy_budget": budgets, "tau": {"PH6": 6}, "state_filter": ["11", "44"]}
    config = Config.load(document, catalog)
    terms = basis_terms(config)
    expected = [gaussian_moe(v) for v in reference_variances(config, terms.values())]
    assert list(joint_moe(config).values()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("mode", "neighbours"), [("published", "unbounded"), ("structured", "bounded")])
def test_a_total_is_split_with_the_least_weighted_error(config, mode, neighbours):
    request = {"total": 1.2, "neighbours": neighbours, "sensitivity": mode, "groups": GROUPS, "locks": {"PH2": True}}
    solution = solve(config, request, aim="finished")
    loss = getattr(solution.preview.loss_after, neighbours)
    assert Fraction("1.1999") < loss <= Fraction("1.2")
    assert solution.config.budgets["PH2"] == config.budgets["PH2"]
    rows = {row.name: row for row in solution.preview.rows}
    assert rows["PH7 3 usa_*"].after <= 250
    assert rows["PH3 1 state_A-G"].ratio <= 1.001

    def objective(budgets):
        changed = replace(solution.config, budgets=budgets)
        groups = Request.load(request, config).groups
        after = [*joint_moe(changed).values(), *finished_margins(changed, groups)]
        ordered = [rows[", ".join(key)] for key in joint_moe(changed)] + [rows[group.name] for group in groups]
        limits = all(row.limit is None or moe <= row.limit for row, moe in zip(ordered, after, strict=True))
        value = sum(row.weight * (moe / row.before) ** 2 for row, moe in zip(ordered, after, strict=True))
        return value if limits and getattr(plan(changed).total, neighbours) <= Fraction("1.2") else math.inf

    best = objective(solution.config.budgets)
    assert best < math.inf
    random, better = np.random.default_rng(7), 0
    keys = [(name, key) for name, levels in config.budgets.items() if name != "PH2" for key in levels]
    for _ in range(300):  # Move budget from one level to another: nothing gets better by more than the search's end.
        (a, i), (b, j) = (keys[k] for k in random.choice(len(keys), 2, replace=False))
        budgets = {name: dict(levels) for name, levels in solution.config.budgets.items()}
        if not (budgets[a].get(i) and budgets[b].get(j)):
            continue
        moved = min(budgets[a][i], budgets[b][j]) * Decimal(str(round(random.uniform(0.02, 0.3), 3)))
        budgets[a][i] -= moved
        budgets[b][j] += moved
        better += objective(budgets) < best * (1 - 1e-3)
    assert not better


def test_no_margin_is_worse_than_in_the_baseline(config):
    """The default baseline is the config in its own mode; another one may have other budgets."""
    everyone = solve(config, {"total": Decimal("1.257281"), "worse": 0}, aim="finished").preview
    assert not everyone.losers
    assert len(everyone.winners) > 5
    ratios = [row.ratio for row in everyone.rows]
    assert ratios == sorted(ratios, reverse=True)
    assert everyone.winners[0] == everyone.rows[-1]
    cheaper = solve(config, {"worse": {"PH3": 0, "PH7": 0.1}, "sensitivity": "tight"}, aim="finished")
    assert cheaper.config.budgets["PH4"] == config.budgets["PH4"], "levels without a limit keep their budgets"
    assert cheaper.config.total < config.total
    limited = [row for row in cheaper.preview.rows if row.table in ("PH3", "PH7")]
    assert all(row.ratio <= (1.001 if row.table == "PH3" else 1.1011) for row in limited)
    other = replace(config, budgets={n: {k: b / 4 for k, b in ls.items()} for n, ls in config.budgets.items()})
    against = solve(config, {"total": Decimal("1.257281"), "locks": {"*": ["usa_*"]}}, aim="finished", baseline=other)
    assert all(row.ratio < 1 for row in against.preview.rows if row.level == "usa_*")
    assert against.preview.loss_before.unbounded == plan(other).total.unbounded


def test_a_request_that_the_config_already_meets_is_not_refused():
    """The cone solver may stop just before its usual accuracy, which is no reason to refuse."""
    config = Config.load(dict(parameters_2020("us-measured")) | {"state_filter": ["44", "56"]})
    preview = solve(config, {"total": Decimal("1.3"), "worse": Decimal("0.1")}, aim="finished").preview
    assert Fraction("1.2999") < preview.loss_after.unbounded <= Fraction("1.3")
    assert max(row.ratio for row in preview.rows) < 1.102
    assert preview.winners


def test_a_level_that_the_baseline_lacks_has_no_change(config):
    budgets = {name: dict(levels) for name, levels in config.budgets.items()}
    budgets["PH6"]["usa_*"] = Decimal(0)
    groups = [{"tabulation": "PH6", "cell": 4, "level": "usa_*", "worse": 0}]
    request = {"total": 1, "worse": 0.5, "groups": groups}
    preview = solve(config, request, aim="finished", baseline=replace(config, budgets=budgets)).preview
    new = [row for row in preview.rows if row.before is None]
    assert {row.name for row in new} == {"PH6, usa_*", "PH6 4 usa_*"}
    assert {(row.ratio, row.limit) for row in new} == {(None, None)}


def test_what_has_no_finished_solution_is_refused(config):
    with pytest.raises(PHSafeError, match="expected zcdp"):
        solve(config, {"moe": {"PH3": 40}, "privacy": "puredp"}, aim="finished")
    with pytest.raises(PHSafeError, match=r"total: expected at least 1\.[0-9]+, which locks, floors and limits need"):
        solve(config, {"total": 0.1, "worse": 0}, aim="finished")
    with pytest.raises(PHSafeError, match="can't be met with the locked budgets"):
        locks = {name: True for name in config.budgets if name != "PH3" and any(config.budgets[name].values())}
        groups = [{"table": "PH1", "line": 1, "level": "usa_*", "people": 300, "households": 100, "moe": 1e-6}]
        solve(config, {"total": 2, "locks": locks, "groups": groups}, aim="finished")
    with pytest.raises(PHSafeError, match="nothing to solve for"):
        solve(config, {"total": 2, "locks": {"*": [level.key for level in LEVELS]}}, aim="finished")
    with pytest.raises(PHSafeError, match="only with targets for finished tables; add --for finished"):
        solve(config, {"total": 1, "worse": 0})
    off = {"moe": {"PH6": {"usa_*": 0}}, "total": 1, "groups": [{"tabulation": "PH6", "cell": 4, "level": "usa_*"}]}
    with pytest.raises(PHSafeError, match="expected a level that is published"):
        solve(config, off, aim="finished")


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (5, "expected a table with any of name"),
        ({"name": 5}, "text as name"),
        ({"table": "PH3", "line": 99, "level": "usa_*"}, "got 'PH3' and '99'"),
        ({"table": "PH9", "line": 1, "level": "usa_*"}, "got 'PH9' and '1'"),
        ({"tabulation": "PH3", "cell": True, "level": "usa_*"}, "got 'PH3' and 'True'"),
        ({"table": "PH3", "line": 1, "level": "usa_Z"}, "expected a level of PH3, got 'usa_Z'"),
        ({"table": "PH1", "line": 1, "level": "usa_*"}, "expected people and households"),
        ({"table": "PH3", "line": 1, "level": "usa_*", "weight": -1}, "weight: expected a number from 0"),
        ({"table": "PH3", "line": 1, "level": "usa_*", "wait": 1}, "got 'wait'"),
    ],
)
def test_invalid_groups_are_refused(config, group, message):
    with pytest.raises(PHSafeError, match=re.escape(message)):
        Request.load({"total": 1, "groups": [group]}, config)


def test_groups_must_be_a_list(config):
    with pytest.raises(PHSafeError, match="expected a list of at most"):
        Request.load({"total": 1, "groups": "PH3"}, config)


def test_floors_hold_without_a_total(config):
    request = {"worse": {"PH3": 0}, "floors": {"PH7": 0.3}, "sensitivity": "tight"}
    solved = solve(config, request, aim="finished").config
    assert all(b == Decimal("0.3") for b in solved.budgets["PH7"].values() if b)


def test_the_command_aims_at_finished_tables(config, tmp_path, phsafe_command):
    source, targets, out = tmp_path / "config.json", tmp_path / "targets.json", tmp_path / "out.json"
    source.write_text(dumps(config.to_production()))
    targets.write_text(json.dumps({"moe": {"PH7": 100}}))
    shown = phsafe_command("solve", source, targets, out, "--for", "finished", "--baseline", source)
    assert "Margins of finished tables" in shown.out
    assert "PH7, state_A-G" in shown.out
    solved = Config.load(out)
    assert solved.budgets["PH7"] == solve(config, {"moe": {"PH7": 100}}, aim="finished").config.budgets["PH7"]
    with pytest.raises(typer.BadParameter, match="expected measured or finished"):
        command(source, targets, tmp_path / "other.json", aim="final")


@pytest.mark.parametrize(
    ("mode", "unbounded", "bounded"),
    [("published", 1.117, 2.235), ("tight", 0.416, 1.665), ("structured", 0.448, 1.741)],
)
def test_the_margins_of_2020_after_joint_estimation(mode, unbounded, bounded):
    us = Config.load("examples/us.json")
    targets: dict[str, dict[str, Decimal]] = {}
    for tabulation, level, rho in us.measurements():
        key = (tabulation.name, level.key)
        targets.setdefault(tabulation.name, {})[level.key] = target_for(us, key, rho)
    loss = solve(us, {"moe": targets, "sensitivity": mode}, aim="finished").preview.loss_after
    # The search ends within 0.1 % of the smallest loss.
    assert (float(loss.unbounded), float(loss.bounded)) == pytest.approx((unbounded, bounded), rel=1e-3)
    docs = Path(__file__).parents[2] / "docs"
    for name in ("explore.md", "privacy.md"):
        found = [path.read_text(encoding="utf-8") for path in docs.rglob(name)]
        assert f"`{mode}` {unbounded} and {bounded}" in found[0], name


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
