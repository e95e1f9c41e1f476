"""Variants: every threshold with every budget scale, the config first."""

from decimal import Decimal

import pytest

from phsafe.accuracy_study.variants import variants
from phsafe.errors import PHSafeError


def test_every_threshold_is_combined_with_every_budget(make_config):
    config = make_config()
    tried = variants(config, [8, 6, 8], ["1", 0.5])
    assert [one.name for one in tried] == [
        "the config", "τ = 6", "τ = 8",
        "budgets × 0.5", "τ = 6, budgets × 0.5", "τ = 8, budgets × 0.5",
    ]  # fmt: skip
    last = tried[-1].config
    assert set(last.tau.values()) == {8}
    assert last.budgets["PH7"]["state_*"] == config.budgets["PH7"]["state_*"] / 2
    assert tried[0].config == config


def test_scaling_is_exact(make_config):
    config = make_config()
    assert variants(config, (), [Decimal("3")])[0].config.total == 3 * config.total


def test_all_problems_are_reported_together(make_config):
    with pytest.raises(PHSafeError) as refused:
        variants(make_config(kept=()), [0, 5], ["x", "-1", "nan", "2"])
    reasons = " ".join(refused.value.reasons)
    assert [word in reasons for word in ("got 0", "got x", "got -1", "got nan", "every budget")] == [True] * 5
