"""The empirical audit: it clears the real mechanism, comes near its claim, and convicts every broken one.

A sound mechanism is convicted with probability at most `FALSE_ALARM` = 10⁻⁶ for each finding (claims C6, C8, C10).
"""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest

from phsafe.auditing import FALSE_ALARM, Finding, bounds
from phsafe.auditing.mechanisms import too_little_noise
from phsafe.auditing.plot import svg
from phsafe.auditing.report import CASES, audit_case, claimed, document

TRIALS = 4000
#: A fifth less noise is a subtle fault: below about 10,000 trials the bound may miss it.
SUBTLE_TRIALS = 20_000
#: How much of the claim the attacker must prove of a mechanism that uses all of it. Published noise uses 28 % at τ = 3.
NEAR = {"persons, published": 0.04}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdicts(case):
    finding = audit_case(case, SUBTLE_TRIALS if case.run is too_little_noise else TRIALS)
    assert finding.as_expected, finding
    if not case.broken:
        assert NEAR.get(case.name, 0.4) * finding.claim <= finding.lower_bound <= finding.claim
    if case.name.startswith("noise drawn once") or case.name.startswith("grid"):
        assert finding.lower_bound > 3 * finding.claim


def test_bounds_are_rarely_wrong_and_never_vacuous():
    """Coverage of the betting bound at a miss rate that can be seen: at most 5 % of 400 samples, and near the mean."""
    rng = np.random.default_rng(1)
    values, chance, draws = np.array([0.0, 0.3, 1.0]), [0.5, 0.3, 0.2], 2000
    mean = float(values @ chance)
    found = []
    for _ in range(400):
        counts = rng.multinomial(draws, chance)
        found.append(bounds.mean_at_least(values, counts, bounds.best_stake(0.15, draws, 0.05), 0.05))
    assert np.mean(np.array(found) > mean) <= 0.05
    assert np.mean(found) > mean - 0.05
    assert bounds.mean_at_least(values, np.array([5, 0, 0]), 0.5, 1e-6) == 0.0


def test_divergence_bound_is_below_the_truth_and_reaches_it():
    """Two known distributions on three bins, with as many draws as expected."""
    p, q, draws = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]), 10**7
    truth = float(p @ np.log(p / q))
    sample = (p * draws).astype(np.int64), (q * draws).astype(np.int64)
    bound = bounds.divergence_at_least(np.log(p / q), sample, sample, FALSE_ALARM)
    assert 0.99 * truth < bound < truth


def test_ratio_bound():
    assert bounds.ratio_at_least((0, 0), (100, 100), 1e-6) == 0.0
    assert bounds.ratio_at_least((100, 100), (100, 100), 1e-6) == 0.0
    found = bounds.ratio_at_least((500_000, 100_000), (10**6, 10**6), 1e-6)
    assert 0.97 * math.log(5) < found < math.log(5)


def test_report_and_picture():
    findings = [
        Finding(CASES[0], 1000, 1.0, 0.8, "likelihood"),
        Finding(CASES[-1], 1000, 1.0, 5.0, "shape"),
        Finding(CASES[-1], 1000, 1.0, 0.5, "shape"),
    ]
    assert [f.verdict for f in findings] == ["holds", "convicted", "broken, not convicted"]
    assert [f.as_expected for f in findings] == [True, True, False]
    assert Finding(CASES[0], 1000, 1.0, 1.1, "likelihood").as_expected is False
    json.dumps(document(findings))
    picture = svg(findings, FALSE_ALARM)
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "5.000 of 1 ρ →" in picture


def test_claims_are_those_of_the_accountant():
    """The audit's claim is the accountant's total for the same config, unbounded or bounded."""
    from phsafe.auditing.worlds import neighbours
    from phsafe.privacy.accountant import plan

    for case in CASES[:5]:
        pair = neighbours(2, case.definition, case.mode, case.stated, units=case.units, bounded=case.bounded)
        total = plan(pair.config).total
        assert claimed(case, pair) == pytest.approx(float(total.bounded if case.bounded else total.unbounded))


@pytest.fixture
def command(monkeypatch):
    """The command over findings made up beforehand: (arguments, findings) → the runner's result."""
    import typer
    from typer.testing import CliRunner

    import phsafe.auditing
    from phsafe.cli.audit import audit as function

    app = typer.Typer()
    app.command()(function)

    def run(findings, *words):
        monkeypatch.setattr(phsafe.auditing, "audit", lambda trials, progress: findings)
        return CliRunner().invoke(app, [str(word) for word in words])

    return run


GOOD = [Finding(CASES[0], 1000, 1.0, 0.8, "likelihood"), Finding(CASES[-1], 1000, 1.0, 5.0, "shape")]


def test_command_prints_a_table_or_json_and_draws(command, tmp_path):
    shown = command(GOOD)
    assert shown.exit_code == 0 and "convicted" in shown.stdout and "80%" in shown.stdout
    picture = tmp_path / "audit.svg"
    printed = command(GOOD, "--json", "--out", picture)
    assert printed.exit_code == 0
    assert json.loads(printed.stdout)["findings"][1]["verdict"] == "convicted"
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_command_says_no(command, tmp_path):
    from phsafe.errors import OutputError, PHSafeError

    assert command(GOOD, "--trials", 10).exit_code == 2
    assert command(GOOD, "--out", tmp_path / "audit.png").exit_code == 2
    there = tmp_path / "there.svg"
    there.write_text("x")
    assert isinstance(command(GOOD, "--out", there).exception, OutputError)
    assert there.read_text() == "x"
    guilty = command([Finding(CASES[0], 1000, 1.0, 1.2, "likelihood")])
    assert isinstance(guilty.exception, PHSafeError) and "persons, tight" in str(guilty.exception)
