"""Thresholds times budgets, the config first."""

from decimal import Decimal

import pytest

from phsafe.appraisal.scenarios import scenarios
from phsafe.errors import PHSafeError


def test_every_threshold_is_tried_with_every_budget(make_config):
    config = make_config()
    tried = scenarios(config, [8, 6, 8], ["1", 0.5])
    assert [one.name for one in tried] == [
        "the config", "τ = 6", "τ = 8",
        "budgets × 0.5", "τ = 6, budgets × 0.5", "τ = 8, budgets × 0.5",
    ]  # fmt: skip
    last = tried[-1].config
    assert set(last.tau.values()) == {8}
    assert last.budgets["PH7"]["state_*"] == config.budgets["PH7"]["state_*"] / 2
    assert tried[0].config == config


def test_what_is_not_scaled_stays_exact(make_config):
    config = make_config()
    assert scenarios(config, (), [Decimal("3")])[0].config.total == 3 * config.total


def test_every_problem_is_said_at_once(make_config):
    with pytest.raises(PHSafeError) as refused:
        scenarios(make_config(kept=()), [0, 5], ["x", "-1", "nan", "2"])
    reasons = " ".join(refused.value.reasons)
    assert [word in reasons for word in ("got 0", "got x", "got -1", "got nan", "every budget")] == [True] * 5
