"""Convert MOE targets to budgets and back, rounding to six decimal places half-even as in 2020."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.privacy_math import level_blocks
from phsafe.privacy_math.margins import PLACES, Z, rho_for_moe

if TYPE_CHECKING:
    from phsafe.explorer.page_requests import Key
    from phsafe.privacy_math.sensitivity import Definition

_WIDE = Context(prec=60)
LN_10 = _WIDE.ln(Decimal(10))
#: Targets outside this range would mean practically no noise, or nothing but noise.
MIN_TARGET, MAX_TARGET = Decimal("0.01"), Decimal(10) ** 9


def noise_factor(config: Config, key: Key) -> Fraction:
    """Return how the noise of a level scales with its budget: k in σ² = k/ρ, or Δ₁ in b = Δ₁/ε.

    If a level has several blocks, this is the factor of the noisiest.
    """
    tabulation = config.catalog.tabulation(key[0])
    level = next(level for level in config.catalog.levels if level.key == key[1])
    return level_blocks.noise_factor(config.blocks(tabulation, level), config.privacy)


def budget_for(config: Config, key: Key, target: Decimal) -> Decimal:
    """Return the budget with which a level meets an MOE target: the one that the target rounds to, with ⌊MOE⌋ ≤ target.

    >>> us = Config.load("examples/us.json")
    >>> budget_for(us, ("PH1_num", "state_A-G"), Decimal(68)), budget_for(us, ("PH1_denom", "usa_*"), Decimal(500))
    (Decimal('0.141622'), Decimal('0.000022'))
    """
    if not MIN_TARGET <= target <= MAX_TARGET:
        raise PHSafeError(f"expected a margin of error from {MIN_TARGET} to {MAX_TARGET:f}, got {target}")
    return _budget_for(config.privacy, noise_factor(config, key), target)


@lru_cache(maxsize=4096)
def _budget_for(definition: Definition, k: Fraction, target: Decimal) -> Decimal:
    if definition == "zcdp":
        return rho_for_moe(Fraction(target), k)
    width = _WIDE.multiply(LN_10, _decimal(k))
    budget = _WIDE.divide(width, target).quantize(PLACES, ROUND_HALF_EVEN, _WIDE)
    met = budget > 0 and _WIDE.divide(width, budget) < math.floor(target) + 1
    return budget if met else budget + PLACES


def target_for(config: Config, key: Key, budget: Decimal) -> Decimal:
    """Return the roundest MOE target that gives this budget; for a budget of more than six places, its MOE.

    Many targets lead to the same small budget (488 to 502 all give 0.000022); 500 is the one a user would have typed.

    >>> us = Config.load("examples/us.json")
    >>> target_for(us, ("PH1_denom", "usa_*"), Decimal("0.000022"))
    Decimal('500')
    >>> target_for(us, ("PH3", "state_A-G"), Decimal("0.662976"))
    Decimal('20')
    """
    return _target_for(config.privacy, noise_factor(config, key), budget)


@lru_cache(maxsize=4096)
def _target_for(definition: Definition, k: Fraction, budget: Decimal) -> Decimal:
    def target(b: Decimal) -> Decimal:
        if definition == "puredp":
            return _WIDE.divide(_WIDE.multiply(LN_10, _decimal(k)), b)
        square = Z**2 * k / Fraction(b)
        return _WIDE.sqrt(_WIDE.divide(Decimal(square.numerator), Decimal(square.denominator)))

    middle, half = target(budget), PLACES / 2
    low, high = target(budget + half), target(max(budget - half, PLACES / 1000))
    top = middle.adjusted() + 1
    for exponent in range(top, top - 12, -1):
        step = Decimal(1).scaleb(exponent)
        for guess in (
            _WIDE.multiply((middle / step).to_integral_value(r), step)
            for r in (ROUND_HALF_EVEN, "ROUND_FLOOR", "ROUND_CEILING")
        ):
            inside = low <= guess <= high and MIN_TARGET <= guess <= MAX_TARGET
            if inside and _budget_for(definition, k, guess) == budget:
                return Decimal(f"{guess.normalize(_WIDE):f}")
    return min(max(Decimal(f"{middle:.6g}"), MIN_TARGET), MAX_TARGET)


def _decimal(value: Fraction) -> Decimal:
    return _WIDE.divide(Decimal(value.numerator), Decimal(value.denominator))
