"""Budgets that meet MOE targets after joint estimation, rather than before it.

Joint estimation removes some noise, so finished tables meet a target with a smaller budget. The margins of the fit
follow from the variances alone (`joint_margins`). Each step multiplies a budget by the squared ratio of its finished
margin to its target; a level whose target is met by other measurements alone ends at the smallest budget. Budgets are
then raised until every target is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Decimal

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.joint_margins import joint_moe
from phsafe.explorer.page_requests import Key
from phsafe.privacy_math.margins import PLACES

#: Steps of the search. Ratios shrink by an order of magnitude in two or three steps.
STEPS = 12
#: A margin this close to its target ends the search.
CLOSE = 0.002


def finished_budgets(config: Config, targets: Mapping[Key, Decimal]) -> Config:
    """Return the config with budgets that meet MOE targets after joint estimation.

    Args:
        config: The config; its budgets meet the targets before joint estimation, and start the search.
        targets: MOE targets above 0, by tabulation and level. Other levels keep their budgets.

    Raises:
        PHSafeError: The config uses pure DP, for which finished margins are only known up to an approximation.
    """
    if config.privacy != "zcdp":
        raise PHSafeError("targets for finished tables work with zcdp only; leave out --for, or choose zcdp")
    for _ in range(STEPS):
        ratios = _ratios(config, targets)
        at_floor = {key for key in targets if config.budgets[key[0]][key[1]] == PLACES}
        if all(1 - CLOSE <= ratio <= 1 for key, ratio in ratios.items() if key not in at_floor):
            return config
        config = _scaled(config, ratios)
    while max(_ratios(config, targets).values()) > 1:
        config = _scaled(config, dict.fromkeys(targets, 1 + CLOSE))
    return config


def _ratios(config: Config, targets: Mapping[Key, Decimal]) -> dict[Key, float]:
    """The finished margin of each level, divided by its target."""
    margins = joint_moe(config)
    return {key: margins[key] / float(target) for key, target in targets.items()}


def _scaled(config: Config, ratios: Mapping[Key, float]) -> Config:
    """Multiply budgets by squared ratios, rounded up to six places."""
    budgets = {name: dict(levels) for name, levels in config.budgets.items()}
    for (name, level), ratio in ratios.items():
        scaled = budgets[name][level] * Decimal(ratio) ** 2
        budgets[name][level] = max(PLACES, scaled.quantize(PLACES, ROUND_CEILING))
    return replace(config, budgets=budgets)
