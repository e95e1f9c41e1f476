"""How much one person can change a tabulation, and what a mode makes of it, as exact numbers.

All formulas are rational: the noise variance of a level is σ² = k/ρ with an integer k, so no square root
is ever needed to calibrate. The claims are those of docs/privacy.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Mode = Literal["published", "tight", "tight-bounded"]
Definition = Literal["zcdp", "puredp"]
MODES: tuple[Mode, ...] = ("published", "tight", "tight-bounded")


@dataclass(frozen=True)
class Sensitivity:
    """Δ of one level's count vector under a mode, and the losses that its stated budget stands for.

    `l2_squared` and `l1` are the unbounded distances that the mode works with; `bounded_l2_squared` and
    `bounded_l1` those for a replaced record. `unbounded` and `bounded` multiply the stated ρ.

    >>> of(10, "tight-bounded").loss("zcdp", Fraction(1)), of(10, "tight-bounded").loss("puredp", Fraction(1))
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
        """K in σ² = k/ρ, for the stated ρ: Δ²/2 over the share of ρ that Δ is calibrated to (claim C6)."""
        return Fraction(self.l2_squared, 2) / self.unbounded

    def loss(self, definition: Definition, stated: Fraction) -> tuple[Fraction, Fraction]:
        """Unbounded and bounded loss of a level with the stated budget (claim C9).

        Under pure DP every mode holds its stated ε, and a replaced record costs twice that (claim C10).
        """
        if definition == "puredp":
            return stated, 2 * stated
        return self.unbounded * stated, self.bounded * stated

    def distance(self, definition: Definition) -> float:
        """Unbounded Δ₂ (zCDP) or Δ₁ (pure DP) as a float that is never below it: what noise is scaled to."""
        return float(self.l1) if definition == "puredp" else sqrt_up(self.l2_squared)

    def shown(self, definition: Definition) -> int | float:
        """The Δ that names the mode, for people: `tight-bounded` under zCDP is calibrated to the bounded Δ₂."""
        if definition == "puredp":
            return self.l1
        square = self.bounded_l2_squared if self.mode == "tight-bounded" else self.l2_squared
        root = math.isqrt(square)
        return root if root**2 == square else math.sqrt(square)


def sqrt_up(square: int) -> float:
    """The smallest float whose square is not below the given whole number.

    >>> sqrt_up(484), Fraction(sqrt_up(200)) ** 2 >= 200
    (22.0, True)
    """
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


def person_sensitivity(tau: int, mode: Mode) -> Sensitivity:
    """Persons, at most τ of a household, joined with its unit (claims C4 and C5; published: claim C7)."""
    return _sensitivity(tau, 2 * tau + 2, mode)


def unit_sensitivity(mode: Mode) -> Sensitivity:
    """Units, one row of a household (claims C4 and C5; published: claim C7)."""
    return _sensitivity(1, 2, mode)


def of(tau: int | None, mode: Mode) -> Sensitivity:
    """The sensitivity of a tabulation with threshold τ (None: it counts units)."""
    return unit_sensitivity(mode) if tau is None else person_sensitivity(tau, mode)


def _sensitivity(most: int, published: int, mode: Mode) -> Sensitivity:
    """A household's part of a count vector has L1 norm at most `most`."""
    if most < 1:
        raise ValueError(f"expected a threshold of at least 1, got {most}")
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
        l2_squared=2 * most**2,
        l1=2 * most,
        bounded_l2_squared=8 * most**2,
        bounded_l1=4 * most,
        unbounded=unbounded,
        bounded=4 * unbounded,
    )
