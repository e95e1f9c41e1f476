"""Privacy accounting: the noisy measurements of a run as events, their total loss, and its conversion to ε at δ.

Losses add up over levels and tabulations (claim C8). Totals are exact fractions; figures rounded for display are
rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from phsafe.configs.config import Config, Measurement
from phsafe.errors import PHSafeError
from phsafe.privacy.mechanism import Noise, expected_noise
from phsafe.privacy_math import sensitivity

if TYPE_CHECKING:
    from phsafe.configs.grid import NoiseOf
    from phsafe.model.spec import Kind
    from phsafe.privacy_math.sensitivity import Definition, Mode

DEFAULT_DELTA = Decimal("1e-10")
#: Precision of the final evaluation of ε, far higher than that of the float it is rounded up to.
_DIGITS = 60


@dataclass(frozen=True)
class Loss:
    """A privacy loss (ρ or ε), `unbounded` for one record added or removed and `bounded` for one record replaced."""

    definition: Definition
    unbounded: Fraction
    bounded: Fraction

    def __add__(self, other: Loss) -> Loss:
        if self.definition != other.definition:
            raise ValueError(f"expected losses of one privacy definition, got {self.definition} and {other.definition}")
        return Loss(self.definition, self.unbounded + other.unbounded, self.bounded + other.bounded)

    def epsilon(self, delta: Decimal = DEFAULT_DELTA) -> float:
        """The ε of (ε, δ)-DP for unbounded neighbours; under pure DP the loss itself."""
        return epsilon(self.unbounded, delta) if self.definition == "zcdp" else float_above(self.unbounded)

    def epsilon_bounded(self, delta: Decimal = DEFAULT_DELTA) -> float:
        """The ε of (ε, δ)-DP for bounded neighbours; under pure DP the loss itself."""
        return epsilon(self.bounded, delta) if self.definition == "zcdp" else float_above(self.bounded)


@dataclass(frozen=True)
class Event:
    """One noisy measurement: the tabulation and level, the sensitivity Δ, the noise, the stated budget and the loss."""

    tabulation: str
    kind: Kind
    level: str
    tau: int | None
    mode: Mode
    sensitivity: int | float
    noise: Noise
    stated: Fraction
    loss: Loss

    def tight_loss(self) -> Loss:
        """The loss of the same noise under the smallest Δ that holds for every cell map (claims C4, C5 and C14).

        Computed from σ² = k/ρ. The variance actually used is never smaller, so the loss is never understated.
        """
        used, tight = (sensitivity.of(self.kind, self.tau, mode) for mode in (self.mode, "tight"))
        if self.loss.definition == "puredp":
            ratio, bounded_ratio = Fraction(tight.l1, used.l1), Fraction(tight.bounded_l1, used.l1)
        else:
            k = 2 * used.variance_times_rho
            ratio, bounded_ratio = tight.l2_squared / k, tight.bounded_l2_squared / k
        return Loss(self.loss.definition, ratio * self.stated, bounded_ratio * self.stated)


@dataclass(frozen=True)
class Account:
    """The events of a run and their total loss."""

    definition: Definition
    events: tuple[Event, ...]

    @property
    def total(self) -> Loss:
        """The total loss of the run."""
        return _sum(self.definition, (event.loss for event in self.events))

    @property
    def tight_total(self) -> Loss:
        """The total loss of the same noise, accounted tightly (see `Event.tight_loss`)."""
        return _sum(self.definition, (event.tight_loss() for event in self.events))

    def totals(self, by: Literal["tabulation", "level"], *, tight: bool = False) -> dict[str, Loss]:
        """The loss by tabulation or by level, in the order of the events, as stated or accounted tightly."""
        totals: dict[str, Loss] = {}
        for event in self.events:
            name, loss = getattr(event, by), event.tight_loss() if tight else event.loss
            totals[name] = totals[name] + loss if name in totals else loss
        return totals


def noise_by_level(account: Account) -> NoiseOf:
    """The noise distribution and variance of each measurement of an account, as a release prints them."""
    return {(e.tabulation, e.level): (e.noise.distribution, e.noise.variance) for e in account.events}


def account_of(config: Config, completed: Iterable[tuple[Measurement, Noise]]) -> Account:
    """The account of completed measurements (`Session.completed`)."""
    return Account(config.privacy, tuple(event_of(config, measurement, noise) for measurement, noise in completed))


def event_of(config: Config, measurement: Measurement, noise: Noise) -> Event:
    """The event of a measurement with the given noise (claims C6, C9 and C10)."""
    tau, kind = config.tau_of(measurement.tabulation), measurement.tabulation.kind
    delta = sensitivity.of(kind, tau, config.sensitivity)
    stated = Fraction(measurement.budget)
    return Event(
        tabulation=measurement.tabulation.name,
        kind=kind,
        level=measurement.level.key,
        tau=tau,
        mode=config.sensitivity,
        sensitivity=delta.displayed(config.privacy),
        noise=noise,
        stated=stated,
        loss=Loss(config.privacy, *delta.loss(config.privacy, stated)),
    )


def plan(config: Config) -> Account:
    """The account of a release of the config before it is run, computed without data and without OpenDP.

    >>> loss = plan(Config.load("examples/us.json")).total
    >>> float(loss.unbounded), float(loss.bounded)
    (1.257281, 2.514562)
    """
    return account_of(config, ((m, expected_noise(config, m)) for m in config.measurements()))


def epsilon(rho: Fraction, delta: Decimal = DEFAULT_DELTA) -> float:
    """Convert ρ-zCDP to (ε, δ)-DP: the smallest ε that can be proven for δ, rounded up.

    ε = min over α > 1 of αρ + (log(1/δ) + (α − 1) log(1 − 1/α) − log α) / (α − 1): Canonne, Kamath and Steinke,
    "The Discrete Gaussian for Differential Privacy", proposition 12. Every α gives a valid ε, so the search for the
    best one may use floats; only the final evaluation has to be right, and it uses high precision.

    >>> round(epsilon(Fraction("2.514562"), Decimal("1e-10")), 3)
    16.98
    """
    if not 0 < delta < 1:
        raise PHSafeError(f"expected a δ between 0 and 1, got {delta}")
    if rho <= 0:
        return 0.0
    low, high = math.log(1e-6), math.log(1e12)
    golden = (math.sqrt(5) - 1) / 2
    r, log_inverse = float(rho), -float(delta.ln())

    def at(t: float) -> float:
        gap = math.exp(t)
        alpha = 1 + gap
        return alpha * r + (log_inverse + gap * (t - math.log1p(gap)) - math.log1p(gap)) / gap

    while high - low > 1e-9:
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if at(left) <= at(right) else (left, high)
    return _epsilon_at(1 + math.exp((low + high) / 2), rho, delta)


def _epsilon_at(order: float, rho: Fraction, delta: Decimal) -> float:
    """The ε for one order α, computed with high precision and rounded up to a float; never below 0."""
    with localcontext() as context:
        context.prec, context.rounding = _DIGITS, ROUND_CEILING
        alpha = Decimal(order)
        slack = -delta.ln() + (alpha - 1) * (1 - 1 / alpha).ln() - alpha.ln()
        value = alpha * Decimal(rho.numerator) / Decimal(rho.denominator) + slack / (alpha - 1)
        # Several roundings can leave the last digits slightly too low: add more than that, far below float precision.
        value += abs(value) * Decimal(10) ** (10 - _DIGITS)
    return max(0.0, float_above(Fraction(value)))


def float_above(value: Fraction) -> float:
    """Round a fraction up to a float.

    >>> Fraction(float_above(Fraction(1, 10))) >= Fraction(1, 10)
    True
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _sum(definition: Definition, losses: Iterable[Loss]) -> Loss:
    total = Loss(definition, Fraction(0), Fraction(0))
    for loss in losses:
        total += loss
    return total
