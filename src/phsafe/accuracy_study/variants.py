"""The variants of a config to study: as it is, and with other thresholds and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation

from phsafe.configs.config import Config
from phsafe.configs.config_rules import MAX_TAU
from phsafe.errors import ConfigError

#: Scaling budgets by more than this, up or down, must be a typing error.
MAX_SCALE = Decimal(10**6)


@dataclass(frozen=True)
class Variant:
    """A changed config under test: `tau`, unless None, replaces every threshold; `scale` multiplies every budget."""

    tau: int | None
    scale: Decimal
    config: Config = field(repr=False)

    @property
    def thresholds(self) -> str:
        """The thresholds as text: ``config`` or a number."""
        return "config" if self.tau is None else str(self.tau)

    @property
    def name(self) -> str:
        """The name of the variant in reports.

        >>> Variant(8, Decimal("0.5"), None).name, Variant(None, Decimal(1), None).name
        ('τ = 8, budgets × 0.5', 'the config')
        """
        parts = [] if self.tau is None else [f"τ = {self.tau}"]
        parts += [] if self.scale == 1 else [f"budgets × {self.scale}"]
        return ", ".join(parts) or "the config"


def variants(config: Config, taus: Sequence[int] = (), scales: Sequence[Decimal | float | str] = ()) -> list[Variant]:
    """Combine every threshold with every budget scale, the config's own thresholds first.

    Args:
        config: The config to vary.
        taus: Thresholds to try in addition to the config's own; each applies to all tabulations of persons.
        scales: Factors for all budgets; without any, budgets stay as they are.
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
        problems.append("every budget of the config is 0, so there is nothing to measure; set at least one")
    if problems:
        raise ConfigError(problems)
    return [
        Variant(tau, scale, _changed(config, tau, scale))
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
