"""Margins of error after joint estimation by tabulation and level, and for a comparison of modes."""

from __future__ import annotations

from dataclasses import replace

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.finished_margins import basis_terms, finished_model
from phsafe.explorer.page_requests import Key
from phsafe.privacy.budgets import Budget
from phsafe.privacy.mode_comparison import Comparison
from phsafe.privacy_math.margins import gaussian_moe


def with_finished_margins(comparison: Comparison | Budget) -> Comparison:
    """Add the margins after joint estimation to a comparison of modes.

    Raises:
        PHSafeError: It is the budget of a single mode, or under pure DP, for which they are not known exactly.
    """
    if not isinstance(comparison, Comparison):
        raise PHSafeError("--finished: expected --compare too, which compares the sensitivity modes")
    if comparison.published.definition != "zcdp":
        raise PHSafeError("--finished: margins after joint estimation are known for zcdp only; leave out --finished")
    return replace(comparison, finished={b.config.sensitivity: joint_moe(b.config) for b in comparison.budgets})


def joint_moe(config: Config) -> dict[Key, float]:
    """Return the 90 % MOE of a basis cell after joint estimation, by tabulation and level; of the noisiest block."""
    model, terms = finished_model(config), basis_terms(config)
    found = model.variances(model.budgets(config), list(terms.values()))
    return {key: gaussian_moe(float(variance)) for key, variance in zip(terms, found, strict=True)}
