"""Privacy accounting: the measurements of a run as events, their total loss, and its conversion to ε at a (default) δ.

Losses add up over tabulations (claim C8); within a tabulation, the loss is the larger of two sums over its levels
(claim C19). Totals are exact fractions; figures rounded for display are rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from phsafe.configs.config import Config, Measurement
from phsafe.errors import PHSafeError
from phsafe.model.exact_numbers import float_above
from phsafe.privacy.mechanism import Noise, expected_noise

if TYPE_CHECKING:
    from phsafe.configs.grid import NoiseOf
    from phsafe.model.spec import Kind
    from phsafe.privacy_math.level_blocks import Block
    from phsafe.privacy_math.sensitivity import Definition, Mode, Sensitivity

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

    def as_zcdp(self) -> Loss:
        """The zCDP loss that this loss implies: under pure DP ε²/2 for each kind of neighbours (claim C13).

        >>> Loss("puredp", Fraction(1), Fraction(2)).as_zcdp()
        Loss(definition='zcdp', unbounded=Fraction(1, 2), bounded=Fraction(2, 1))
        """
        if self.definition == "zcdp":
            return self
        return Loss("zcdp", self.unbounded**2 / 2, self.bounded**2 / 2)

    def epsilon(self, delta: Decimal = DEFAULT_DELTA) -> float:
        """The ε of (ε, δ)-DP for unbounded neighbours; under pure DP the loss itself."""
        return epsilon(self.unbounded, delta) if self.definition == "zcdp" else float_above(self.unbounded)

    def epsilon_bounded(self, delta: Decimal = DEFAULT_DELTA) -> float:
        """The ε of (ε, δ)-DP for bounded neighbours; under pure DP the loss itself."""
        return epsilon(self.bounded, delta) if self.definition == "zcdp" else float_above(self.bounded)


class Parts(NamedTuple):
    """The loss of a level by itself, and its parts in the two cases of joint accounting (claim C19)."""

    alone: Loss
    staying: Loss
    entering: Loss


@dataclass(frozen=True)
class BlockEvent:
    """The noisy measurement of one block of a level: its cells, sensitivities, noise and part of the stated budget.

    `tight` is the smallest sensitivity that holds for the same counts, `block.delta` the one that the mode uses.
    """

    block: Block
    tight: Sensitivity
    noise: Noise
    stated: Fraction

    def losses(self, definition: Definition, *, tight: bool) -> Parts:
        """The losses under the sensitivity of the mode, or under the smallest one (claims C16, C17 and C19)."""
        true = self.tight if tight else self.block.delta
        return Parts(
            *(Loss(definition, *loss) for loss in self.block.delta.losses_under(true, definition, self.stated))
        )


@dataclass(frozen=True)
class Event:
    """The noisy measurement of a level: the tabulation, the stated budget, and its blocks with their noise."""

    definition: Definition
    tabulation: str
    kind: Kind
    level: str
    tau: int | None
    mode: Mode
    stated: Fraction
    blocks: tuple[BlockEvent, ...]

    @property
    def noisiest(self) -> BlockEvent:
        """The block with the largest variance; most levels have only one block."""
        return max(self.blocks, key=lambda block: block.noise.variance)

    @property
    def noise(self) -> Noise:
        """The noise of the noisiest block."""
        return self.noisiest.noise

    @property
    def sensitivity(self) -> int | float:
        """The Δ to display: that of the noisiest block."""
        return self.noisiest.block.delta.displayed(self.definition)

    @property
    def loss(self) -> Loss:
        """The loss of this level by itself (claims C9 and C18). The loss of a tabulation is at most their sum."""
        return self.losses().alone

    def tight_loss(self) -> Loss:
        """The loss of the same noise under the smallest Δ that holds (claims C4, C5, C14 and C16).

        Computed from σ² = k/ρ. The variance actually used is never smaller, so the loss is never understated.
        """
        return self.losses(tight=True).alone

    def losses(self, *, tight: bool = False) -> Parts:
        """The losses of all blocks together (claim C18)."""
        return self._tight_losses if tight else self._stated_losses

    @cached_property
    def _stated_losses(self) -> Parts:
        return self._losses(tight=False)

    @cached_property
    def _tight_losses(self) -> Parts:
        return self._losses(tight=True)

    def _losses(self, *, tight: bool) -> Parts:
        parts = [block.losses(self.definition, tight=tight) for block in self.blocks]
        return Parts(*(_sum(self.definition, losses) for losses in zip(*parts, strict=True)))


@dataclass(frozen=True)
class Account:
    """The events of a run and their total loss."""

    definition: Definition
    events: tuple[Event, ...]

    @property
    def total(self) -> Loss:
        """The total loss of the run: the sum over tabulations (claim C8), each accounted jointly (claim C19)."""
        return _sum(self.definition, self.totals("tabulation").values())

    @property
    def tight_total(self) -> Loss:
        """The total loss of the same noise, accounted tightly (see `Event.tight_loss`) and jointly (claim C19)."""
        return _sum(self.definition, self.totals("tabulation", tight=True).values())

    def totals(self, by: Literal["tabulation", "level"], *, tight: bool = False) -> dict[str, Loss]:
        """The loss by tabulation or by level, in the order of the events, as stated or accounted tightly.

        The losses of tabulations add up to the total. Those of levels can add up to more, because a household that
        moves at one level of a tabulation doesn't enter or leave at another.
        """
        groups: dict[str, list[Event]] = {}
        for event in self.events:
            groups.setdefault(getattr(event, by), []).append(event)
        if by == "tabulation":
            return {name: joint_loss(events, tight=tight) for name, events in groups.items()}
        return {
            name: _sum(self.definition, (event.losses(tight=tight).alone for event in events))
            for name, events in groups.items()
        }


def joint_loss(events: Sequence[Event], *, tight: bool = False) -> Loss:
    """The loss of the levels of one tabulation together: the larger of two sums (claim C19).

    One person's record either leaves the household in the tabulation's universe, or makes it enter or leave.
    """
    definition = events[0].definition
    parts = [event.losses(tight=tight) for event in events]
    staying, entering = (_sum(definition, losses) for losses in list(zip(*parts, strict=True))[1:])
    return Loss(definition, max(staying.unbounded, entering.unbounded), max(staying.bounded, entering.bounded))


def noise_by_level(account: Account) -> NoiseOf:
    """The noise distribution and variance of each cell of each measurement, as a release prints them."""
    return {
        (e.tabulation, e.level): {
            cell: (one.noise.distribution, one.noise.variance) for one in e.blocks for cell in one.block.cells
        }
        for e in account.events
    }


def account_of(config: Config, completed: Iterable[tuple[Measurement, tuple[Noise, ...]]]) -> Account:
    """The account of completed measurements (`Session.completed`)."""
    return Account(config.privacy, tuple(event_of(config, measurement, noises) for measurement, noises in completed))


def event_of(config: Config, measurement: Measurement, noises: tuple[Noise, ...]) -> Event:
    """The event of a measurement with the given noise for each block (claims C6, C9 and C10)."""
    tabulation, level, stated = measurement
    tight = config if config.sensitivity == "structured" else config.with_sensitivity("tight")
    blocks = zip(config.blocks(tabulation, level), tight.blocks(tabulation, level), noises, strict=True)
    return Event(
        definition=config.privacy,
        tabulation=tabulation.name,
        kind=tabulation.kind,
        level=level.key,
        tau=config.tau_of(tabulation),
        mode=config.sensitivity,
        stated=Fraction(stated),
        blocks=tuple(
            BlockEvent(block, smallest.delta, noise, block.share * Fraction(stated))
            for block, smallest, noise in blocks
        ),
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


def _sum(definition: Definition, losses: Iterable[Loss]) -> Loss:
    total = Loss(definition, Fraction(0), Fraction(0))
    for loss in losses:
        total += loss
    return total
