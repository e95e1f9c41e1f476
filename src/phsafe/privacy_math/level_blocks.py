"""Blocks: the cells of a level that are measured together, with one sensitivity and one share of the level's budget.

Every mode measures a level as one block, except `structured`: it counts the cells that don't need the unit table blind,
and measures them apart from the others (claim C18 of docs/privacy.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from phsafe.model.levels import Level
from phsafe.model.spec import Tabulation
from phsafe.privacy_math import sensitivity
from phsafe.privacy_math.level_structure import BLIND, is_blind, structure_of
from phsafe.privacy_math.sensitivity import Definition, Mode, Sensitivity

#: Shares have four decimal places, so that losses stay short decimals.
_PLACES = 10**4


@dataclass(frozen=True)
class Block:
    """Some cells of a level, with their sensitivity and their share of the level's budget.

    `is_blind` means that they are counted from persons and public geography alone, without truncation (claim C17).
    """

    cells: tuple[int, ...]
    delta: Sensitivity
    share: Fraction
    is_blind: bool

    def noise_factor(self, definition: Definition) -> Fraction:
        """The k in σ² = k/ρ for the ρ of the whole level; under pure DP, the Δ in b = Δ/ε."""
        k = self.delta.variance_times_rho if definition == "zcdp" else Fraction(self.delta.l1)
        return k / self.share


@lru_cache(4096)
def blocks_of(
    tabulation: Tabulation, level: Level, tau: int | None, mode: Mode, blind_share: Fraction | None = None
) -> tuple[Block, ...]:
    """The blocks in which a mode measures a level, those counted blind first.

    Args:
        tabulation: The tabulation.
        level: One of its levels.
        tau: The threshold that applies to the tabulation.
        mode: The sensitivity mode.
        blind_share: The share of the budget for blind cells, if there are others too. By default the shares make the
            sum of the variances of all cells as small as possible.

    >>> from phsafe.model.tables import CENSUS_2020, PH3
    >>> blocks = blocks_of(PH3.tabulations[0], CENSUS_2020.levels[0], 6, "structured")
    >>> [(block.cells, block.delta.l2_squared, round(float(block.share), 3)) for block in blocks]
    [((2, 9, 10), 1, 0.093), ((4, 5, 6, 7), 72, 0.907)]
    """
    blind = [cell for cell in tabulation.cells if mode == "structured" and _can_be_blind(tabulation, level, cell)]
    rest = [cell for cell in tabulation.cells if cell not in blind]
    parts = []
    if blind:
        parts.append((blind, sensitivity.of(tabulation.kind, tau, mode, BLIND), True))
    if rest:
        delta = sensitivity.of(tabulation.kind, tau, mode, structure_of(tabulation, level, rest))
        parts.append((rest, delta, tabulation.kind == "dropped"))
    shares = [Fraction(1)]
    if len(parts) == 2:
        share = _blind_share(*(len(cells) * delta.l2_squared for cells, delta, _ in parts))
        shares = [share, 1 - share] if blind_share is None else [blind_share, 1 - blind_share]
    return tuple(
        Block(tuple(cells), delta, share, without_units)
        for (cells, delta, without_units), share in zip(parts, shares, strict=True)
    )


def noise_factor(blocks: tuple[Block, ...], definition: Definition) -> Fraction:
    """The noise factor of the noisiest block of a level."""
    return max(block.noise_factor(definition) for block in blocks)


def _blind_share(blind: int, rest: int) -> Fraction:
    """√a/(√a + √b) for blocks with a and b = n·Δ², rounded to four places: the smallest sum of variances (claim C18).

    Σ nΔ²/(2ρ) over blocks with a fixed Σ ρ is smallest at ρ ∝ √n·Δ.
    """
    weights = [math.isqrt(_PLACES**2 * n) for n in (blind, rest)]
    return Fraction(min(max(round(Fraction(_PLACES * weights[0], sum(weights))), 1), _PLACES - 1), _PLACES)


def _can_be_blind(tabulation: Tabulation, level: Level, cell: int) -> bool:
    return tabulation.kind == "persons" and is_blind(tabulation, level, cell)
