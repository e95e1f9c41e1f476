"""Sensitivities: how much one person can change a tabulation under each mode, as exact numbers.

All formulas are rational: the noise variance of a level is σ² = k/ρ with an integer k, so calibration needs no square
root. The claims cited here are those of docs/privacy.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from phsafe.model.spec import Kind

Mode = Literal["published", "tight", "tight-bounded"]
Definition = Literal["zcdp", "puredp"]
MODES: tuple[Mode, ...] = ("published", "tight", "tight-bounded")


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity Δ of a level's count vector under a mode, and the privacy loss per unit of budget.

    `l2_squared` and `l1` bound the distance between unbounded neighbours (one record added or removed),
    `bounded_l2_squared` and `bounded_l1` that between bounded neighbours (one record replaced). The loss of a level is
    its stated ρ times `unbounded`, or times `bounded`.

    >>> delta = of("persons", 10, "tight-bounded")
    >>> delta.loss("zcdp", Fraction(1)), delta.loss("puredp", Fraction(1))
    ((Fraction(1, 2), Fraction(2, 1)), (Fraction(1, 1), Fraction(2, 1)))
    """

    mode: Mode
    l2_squared: int
    l1: int
    bounded_l2_squared: int
    bounded_l1: int
    unbounded: Fraction
    bounded: Fraction

    @property
    def variance_times_rho(self) -> Fraction:
        """The k in σ² = k/ρ for the stated ρ: Δ²/2 divided by the share of ρ that Δ is calibrated to (claim C6)."""
        return Fraction(self.l2_squared, 2) / self.unbounded

    def loss(self, definition: Definition, stated: Fraction) -> tuple[Fraction, Fraction]:
        """The (unbounded, bounded) loss of a level with the stated budget (claim C9).

        Under pure DP the unbounded loss is the stated ε in every mode, and the bounded loss twice that (claim C10).
        """
        if definition == "puredp":
            return stated, 2 * stated
        return self.unbounded * stated, self.bounded * stated

    def distance(self, definition: Definition) -> float:
        """The unbounded Δ₂ (zCDP) or Δ₁ (pure DP), rounded up to a float. Noise is calibrated to this distance."""
        return float(self.l1) if definition == "puredp" else sqrt_up(self.l2_squared)

    def displayed(self, definition: Definition) -> int | float:
        """The Δ to display for the mode: the bounded Δ₂ for `tight-bounded` under zCDP, else the unbounded Δ."""
        if definition == "puredp":
            return self.l1
        square = self.bounded_l2_squared if self.mode == "tight-bounded" else self.l2_squared
        root = math.isqrt(square)
        return root if root**2 == square else math.sqrt(square)


def sqrt_up(square: int) -> float:
    """The square root of an integer, rounded up to a float.

    >>> sqrt_up(484), Fraction(sqrt_up(200)) ** 2 >= 200
    (22.0, True)
    """
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def person_sensitivity(tau: int, mode: Mode) -> Sensitivity:
    """The sensitivity of a count of persons, at most τ per household (claims C4 and C5; published: claim C7)."""
    return _sensitivity(tau, 2 * tau + 2, mode)


def unit_sensitivity(mode: Mode) -> Sensitivity:
    """The sensitivity of a count of units, one per household (claims C4 and C5; published: claim C7).

    Oversized households are units (claim C15).
    """
    return _sensitivity(1, 2, mode)


def dropped_sensitivity(mode: Mode) -> Sensitivity:
    """The sensitivity of a count of dropped persons: one record changes one cell by one, in every mode (claim C14)."""
    return Sensitivity(
        mode,
        l2_squared=1,
        l1=1,
        bounded_l2_squared=2,
        bounded_l1=2,
        unbounded=Fraction(1),
        bounded=Fraction(2),
    )


def of(kind: Kind, tau: int | None, mode: Mode) -> Sensitivity:
    """The sensitivity of a tabulation of a kind; τ is the threshold of a tabulation of persons."""
    if kind == "dropped":
        return dropped_sensitivity(mode)
    if kind == "persons":
        assert tau is not None
        return person_sensitivity(tau, mode)
    return unit_sensitivity(mode)


def _sensitivity(max_contribution: int, published: int, mode: Mode) -> Sensitivity:
    """The sensitivity if a household's contribution to a count vector has L1 norm at most `max_contribution`."""
    if max_contribution < 1:
        raise ValueError(f"expected a truncation threshold of at least 1, got {max_contribution}")
    if mode == "published":
        return Sensitivity(
            mode,
            l2_squared=published**2,
            l1=published,
            bounded_l2_squared=2 * published**2,
            bounded_l1=2 * published,
            unbounded=Fraction(1),
            bounded=Fraction(2),
        )
    unbounded = Fraction(1) if mode == "tight" else Fraction(1, 2)
    return Sensitivity(
        mode,
        l2_squared=2 * max_contribution**2,
        l1=2 * max_contribution,
        bounded_l2_squared=8 * max_contribution**2,
        bounded_l1=4 * max_contribution,
        unbounded=unbounded,
        bounded=4 * unbounded,
    )
