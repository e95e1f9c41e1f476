"""What is tried: the config as it is, and the same with other thresholds and other budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from phsafe.config import Config
from phsafe.config_rules import MAX_TAU
from phsafe.errors import ConfigError

#: Budgets a million times larger or smaller are a slip of the keyboard.
MAX_SCALE = Decimal(10**6)


@dataclass(frozen=True)
class Scenario:
    """A config to try. `tau` None: the config's own thresholds; `scale` multiplies every budget."""

    tau: int | None
    scale: Decimal
    config: Config = field(repr=False)

    @property
    def thresholds(self) -> str:
        """The thresholds in words: ``config`` or a number."""
        return "config" if self.tau is None else str(self.tau)

    @property
    def name(self) -> str:
        """What people call it.

        >>> Scenario(8, Decimal("0.5"), None).name, Scenario(None, Decimal(1), None).name
        ('τ = 8, budgets × 0.5', 'the config')
        """
        parts = [] if self.tau is None else [f"τ = {self.tau}"]
        parts += [] if self.scale == 1 else [f"budgets × {self.scale}"]
        return ", ".join(parts) or "the config"


def scenarios(config: Config, taus: Sequence[int] = (), scales: Sequence[Decimal | float | str] = ()) -> list[Scenario]:
    """Every threshold with every budget; the config's own thresholds come first, whether or not others are given.

    A threshold is that of every tabulation that counts persons.
    """
    problems = [
        f"tau: expected whole numbers from 1 to {MAX_TAU}, got {tau}" for tau in taus if not 1 <= tau <= MAX_TAU
    ]
    numbers = [_scale(scale) for scale in scales]
    problems += [
        f"scale: expected numbers from {1 / MAX_SCALE:f} to {MAX_SCALE:f}, got {scale}"
        for scale, number in zip(scales, numbers, strict=True)
        if number is None
    ]
    if not config.measurements():
        problems.append("every budget of the config is 0, so there is nothing to measure; give one at least")
    if problems:
        raise ConfigError(problems)
    return [
        Scenario(tau, scale, _changed(config, tau, scale))
        for scale in dict.fromkeys([n for n in numbers if n is not None] or [Decimal(1)])
        for tau in (None, *sorted(set(taus)))
    ]


def _scale(value: Decimal | float | str) -> Decimal | None:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() and 1 / MAX_SCALE <= number <= MAX_SCALE else None


def _changed(config: Config, tau: int | None, scale: Decimal) -> Config:
    budgets = {name: {key: budget * scale for key, budget in levels.items()} for name, levels in config.budgets.items()}
    thresholds = config.tau if tau is None else dict.fromkeys(config.tau, tau)
    return replace(config, budgets=budgets, tau=thresholds)
