"""The empirical audit clears the real mechanism, with a bound close to the claim, and convicts every broken one.

A sound mechanism is convicted with probability at most `FALSE_ALARM` = 10⁻⁶ per finding (claims C6, C8, C10).
"""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest

from phsafe.privacy_audit import FALSE_ALARM, AuditFinding, loss_bounds
from phsafe.privacy_audit.audit_plot import svg
from phsafe.privacy_audit.audit_run import CASES, audit_case, claimed, document
from phsafe.privacy_audit.audited_mechanisms import too_little_noise

TRIALS = 4000
#: 20 % too little noise is hard to detect: with fewer than about 10,000 trials the bound may miss it.
SUBTLE_TRIALS = 20_000
#: The share of the claim that the attack must prove. Published noise really loses only 28 % of its claim at τ = 3.
NEAR = {"persons, published": 0.04}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdicts(case):
    finding = audit_case(case, SUBTLE_TRIALS if case.run is too_little_noise else TRIALS)
    assert finding.as_expected, finding
    if not case.broken:
        assert NEAR.get(case.name, 0.4) * finding.claim <= finding.lower_bound <= finding.claim
    if case.name.startswith(("noise drawn once", "grid", "movable")):
        assert finding.lower_bound > 3 * finding.claim


def test_mean_bounds_are_rarely_wrong_and_close_to_the_mean():
    """Coverage of the betting bound at an observable error rate: wrong in at most 5 % of 400 samples."""
    rng = np.random.default_rng(1)
    values, chance, draws = np.array([0.0, 0.3, 1.0]), [0.5, 0.3, 0.2], 2000
    mean = float(values @ chance)
    found = []
    for _ in range(400):
        counts = rng.multinomial(draws, chance)
        found.append(loss_bounds.mean_at_least(values, counts, loss_bounds.best_stake(0.15, draws, 0.05), 0.05))
    assert np.mean(np.array(found) > mean) <= 0.05
    assert np.mean(found) > mean - 0.05
    assert loss_bounds.mean_at_least(values, np.array([5, 0, 0]), 0.5, 1e-6) == 0.0


def test_divergence_bound_is_below_the_true_value_and_close_to_it():
    """Two known distributions on three bins, with exactly the expected number of draws in each."""
    p, q, draws = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5]), 10**7
    truth = float(p @ np.log(p / q))
    sample = (p * draws).astype(np.int64), (q * draws).astype(np.int64)
    bound = loss_bounds.divergence_at_least(np.log(p / q), sample, sample, FALSE_ALARM)
    assert 0.99 * truth < bound < truth


def test_ratio_bound():
    assert loss_bounds.ratio_at_least((0, 0), (100, 100), 1e-6) == 0.0
    assert loss_bounds.ratio_at_least((100, 100), (100, 100), 1e-6) == 0.0
    found = loss_bounds.ratio_at_least((500_000, 100_000), (10**6, 10**6), 1e-6)
    assert 0.97 * math.log(5) < found < math.log(5)


def test_report_and_plot():
    findings = [
        AuditFinding(CASES[0], 1000, 1.0, 0.8, "likelihood"),
        AuditFinding(CASES[-1], 1000, 1.0, 5.0, "shape"),
        AuditFinding(CASES[-1], 1000, 1.0, 0.5, "shape"),
    ]
    assert [f.verdict for f in findings] == ["holds", "convicted", "broken, not convicted"]
    assert [f.as_expected for f in findings] == [True, True, False]
    assert AuditFinding(CASES[0], 1000, 1.0, 1.1, "likelihood").as_expected is False
    json.dumps(document(findings))
    picture = svg(findings, FALSE_ALARM)
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert "5.000 of 1 ρ →" in picture


def test_claims_are_those_of_the_accountant():
    """The audit's claim is the accountant's total for the same config, unbounded or bounded."""
    from phsafe.privacy.accountant import plan
    from phsafe.privacy_audit.worst_cases import neighbours

    for case in CASES[:8]:
        pair = neighbours(
            2, case.definition, case.mode, case.stated, units=case.units, bounded=case.bounded, by_age=case.by_age
        )
        total = plan(pair.config).total
        assert claimed(case, pair) == pytest.approx(float(total.bounded if case.bounded else total.unbounded))


@pytest.fixture
def command(monkeypatch):
    """Run the command on prepared findings: (findings, arguments) → the runner's result."""
    from typer.testing import CliRunner

    import phsafe.privacy_audit
    from phsafe.cli.app import app
    from phsafe.cli.output import OUTPUT

    def run(findings, *words):
        monkeypatch.setattr(phsafe.privacy_audit, "audit", lambda trials, progress: findings)
        try:
            return CliRunner().invoke(app, ["audit", *map(str, words)])
        finally:
            OUTPUT.end(0)

    return run


GOOD = [AuditFinding(CASES[0], 1000, 1.0, 0.8, "likelihood"), AuditFinding(CASES[-1], 1000, 1.0, 5.0, "shape")]


def test_command_prints_a_table_or_json_and_writes_the_plot(command, tmp_path):
    shown = command(GOOD)
    assert shown.exit_code == 0 and "convicted" in shown.stdout and "80%" in shown.stdout
    picture = tmp_path / "audit.svg"
    printed = command(GOOD, "--json", "--out", picture)
    assert printed.exit_code == 0
    assert json.loads(printed.stdout)["findings"][1]["verdict"] == "convicted"
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_command_reports_errors(command, tmp_path):
    from phsafe.errors import OutputError, PHSafeError

    assert command(GOOD, "--trials", 10).exit_code == 2
    assert command(GOOD, "--out", tmp_path / "audit.png").exit_code == 2
    there = tmp_path / "there.svg"
    there.write_text("x")
    assert isinstance(command(GOOD, "--out", there).exception, OutputError)
    assert there.read_text() == "x"
    guilty = command([AuditFinding(CASES[0], 1000, 1.0, 1.2, "likelihood")])
    assert isinstance(guilty.exception, PHSafeError) and "persons, tight" in str(guilty.exception)
