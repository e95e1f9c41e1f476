"""Sensitivities: how much one person can change a tabulation, under each mode and for each kind of neighbours.

All formulas are rational: the noise variance of a level is σ² = k/ρ with an integer k, so calibration needs no square
root. The claims cited here are those of docs/privacy.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from phsafe.model.spec import Kind
from phsafe.privacy_math.level_structure import BLIND, Distances, Structure

Mode = Literal["published", "tight", "tight-bounded", "structured"]
Definition = Literal["zcdp", "puredp"]
MODES: tuple[Mode, ...] = ("published", "tight", "tight-bounded", "structured")


@dataclass(frozen=True)
class Sensitivity:
    """The sensitivity Δ of a level's count vector under a mode, and the privacy loss per unit of budget.

    `l2_squared` and `l1` bound the distance between unbounded neighbours (one record added or removed),
    `bounded_l2_squared` and `bounded_l1` that between bounded neighbours (one record replaced). The loss of a level is
    its stated ρ times `unbounded`, or times `bounded`. `staying` and `entering` are the distances if the household
    stays in the tabulation's universe, and if it enters or leaves it (claim C19); the published bound has no cases.

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
    staying: Distances
    entering: Distances

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

    def losses_under(
        self, true: Sensitivity, definition: Definition, stated: Fraction
    ) -> tuple[tuple[Fraction, Fraction], ...]:
        """The (unbounded, bounded) losses of noise calibrated to this sensitivity, under the distances of `true`.

        First the loss of the level by itself; then its part if the household stays in the universe, and if it enters
        or leaves (claim C19). The variance used is never below k/ρ, so no loss is understated.
        """
        return tuple((a * stated, b * stated) for a, b in _losses_per_budget(self, true, definition))

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


@lru_cache(maxsize=4096)
def _losses_per_budget(
    noise: Sensitivity, true: Sensitivity, definition: Definition
) -> tuple[tuple[Fraction, Fraction], ...]:
    """`Sensitivity.losses_under` for a budget of 1. Pages ask for the same few sensitivities again and again."""
    index, per = (1, Fraction(noise.l1)) if definition == "puredp" else (0, 2 * noise.variance_times_rho)
    largest, bounded = (true.l2_squared, true.l1), (true.bounded_l2_squared, true.bounded_l1)
    factor = Fraction(bounded[index], largest[index])
    distances = (largest[index], true.staying[index], true.entering[index])
    return tuple((d / per, factor * d / per) for d in distances)


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
    """The sensitivity of a count of persons, at most τ per household, for any cell map.

    Claims C4 and C5; published: claim C7.
    """
    return _published(2 * tau + 2) if mode == "published" else _of_structure(_ANY_PERSONS, tau, mode)


def unit_sensitivity(mode: Mode) -> Sensitivity:
    """The sensitivity of a count of units, one per household, for any cell map (claims C4 and C5; published: claim C7).

    Oversized households are units (claim C15).
    """
    return _published(2) if mode == "published" else _of_structure(_ANY_UNITS, None, mode)


def of(kind: Kind, tau: int | None, mode: Mode, structure: Structure | None = None) -> Sensitivity:
    """The sensitivity of a level.

    Args:
        kind: What the tabulation counts.
        tau: The threshold of a tabulation of persons.
        mode: The sensitivity mode. The published mode ignores the structure.
        structure: What the level reads, as `level_structure.structure_of` finds it (claim C16), or that it is counted
            blind (claim C17). Without it, the bound holds for any cell map.

    >>> of("persons", 10, "tight").l2_squared, of("persons", 10, "published").l1, of("units", None, "tight").l1
    (200, 22, 2)
    """
    if kind == "dropped":
        return dropped_sensitivity(mode)
    if structure is not None and structure.level_class == "blind":
        return _blind(mode)
    if structure is not None and mode != "published":
        return _of_structure(structure, tau, mode)
    if kind == "persons":
        assert tau is not None
        return person_sensitivity(tau, mode)
    return unit_sensitivity(mode)


def dropped_sensitivity(mode: Mode) -> Sensitivity:
    """The sensitivity of a count of dropped persons: one record changes one cell by one, in every mode (claim C14)."""
    return _blind(mode)


#: What may read anything.
_ANY_PERSONS = Structure("moves", 2, reads_units=True, counts_persons=True)
_ANY_UNITS = Structure("moves", 2, reads_units=True, counts_persons=False)


def _of_structure(structure: Structure, tau: int | None, mode: Mode) -> Sensitivity:
    """The smallest sensitivity of a structure, calibrated to the unbounded loss, or half as much in `tight-bounded`."""
    distances = structure.distances(tau)
    unbounded = Fraction(1, 2) if mode == "tight-bounded" else Fraction(1)
    return Sensitivity(
        mode,
        l2_squared=distances.l2_squared,
        l1=distances.l1,
        bounded_l2_squared=4 * distances.l2_squared,
        bounded_l1=2 * distances.l1,
        unbounded=unbounded,
        bounded=4 * unbounded,
        staying=structure.staying(tau),
        entering=structure.entering(tau),
    )


def _blind(mode: Mode) -> Sensitivity:
    """One record changes one count by one; a replaced record changes two, in opposite directions (claim C17)."""
    l2_squared, l1 = BLIND.distances(None)
    return Sensitivity(
        mode,
        l2_squared=l2_squared,
        l1=l1,
        bounded_l2_squared=2,
        bounded_l1=2,
        unbounded=Fraction(1),
        bounded=Fraction(2),
        staying=BLIND.staying(None),
        entering=BLIND.entering(None),
    )


def _published(delta: int) -> Sensitivity:
    """The paper's bound, 2τ + 2 for persons and 2 for units (claim C7). It knows no cases."""
    distances = Distances(delta**2, delta)
    return Sensitivity(
        "published",
        l2_squared=delta**2,
        l1=delta,
        bounded_l2_squared=2 * delta**2,
        bounded_l1=2 * delta,
        unbounded=Fraction(1),
        bounded=Fraction(2),
        staying=distances,
        entering=distances,
    )
