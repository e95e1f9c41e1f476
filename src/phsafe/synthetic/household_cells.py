"""Households of a state by type, size class, tenure, age and race: a table of cells fitted to the state's profile.

A cell is a combination of group (race and ethnicity of the householder), household type, size class, tenure and
age band. The national seed holds the associations between these traits; iterative proportional fitting (Deming and
Stephan 1940) then scales it until every margin matches the state's. That preserves the odds ratios of the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from phsafe.synthetic import household_types as ht
from phsafe.synthetic.random_draws import Bytes, Floats, Ints
from phsafe.synthetic.state_profiles import RACES, SIZES, TENURES, Profile

#: Enough for every margin of every state to match within a thousandth of its value.
ROUNDS = 20
#: The size class of 11 or more people.
LARGEST = 8
#: Cumulative shares are integers in units of 2**-40: multiplied by a chunk's households they still fit 64 bits.
SCALE_BITS = 40


@dataclass(frozen=True)
class Seed:
    """All possible cells, one array for each trait, and their national odds."""

    group: Bytes
    household_type: Bytes
    size: Bytes
    tenure: Bytes
    age: Bytes
    odds: Floats


@cache
def seed() -> Seed:
    """All cells, with rare ones adjacent (see `Cells.allot`): the largest households, then by group, then by type."""
    shape = (ht.GROUPS, len(ht.HOUSEHOLD_TYPES), 9, 4, len(ht.AGE_BANDS))
    group, household_type, size, tenure, age = (axis.ravel().astype(np.uint8) for axis in np.indices(shape))
    style = [each.style for each in ht.HOUSEHOLD_TYPES]
    more = np.ones((ht.GROUPS, 9))
    for people in range(1, 9):  # repeated multiplication: powers may differ between machines
        more[:, people] = more[:, people - 1] * np.array(ht.MORE_BY_GROUP)
    by_race = np.array([[row[ht.STYLES[s]] for s in style] for row in ht.STYLE_BY_RACE])
    age_by_size = np.array([ht.AGE_BY_SIZE[min(i, 4)] for i in range(9)])
    odds = np.array([each.sizes for each in ht.HOUSEHOLD_TYPES], dtype=np.float64)[household_type, size]
    for factor in (
        np.array(ht.GROUP_SHARES)[group],
        more[group, size],
        by_race[group // 2, household_type],
        np.array([ht.AGE_BY_STYLE[s] for s in style])[household_type, age],
        age_by_size[size, age],
        np.array(ht.TENURE_BY_AGE)[age, tenure],
        np.array([ht.TENURE_BY_STYLE[s] for s in style])[household_type, tenure],
        np.array(ht.TENURE_BY_GROUP)[group, tenure],
    ):
        odds *= factor
    keep = np.flatnonzero(odds > 0)
    keep = keep[np.argsort(size[keep] != LARGEST, kind="stable")]
    return Seed(*(trait[keep] for trait in (group, household_type, size, tenure, age, odds)))


@dataclass(frozen=True)
class Cells:
    """A state's cells: `edges` are the cumulative shares in units of 2**-40, `groups` the shares by group."""

    edges: Ints
    groups: Floats

    def allot(self, households: int, offset: int) -> Ints:
        """How many of `households` fall in each cell: a systematic sample with a random start.

        `offset` is a random number below 2**40. Every run of adjacent cells gets its share to within one household,
        so margins hold in every chunk and rare combinations don't appear or vanish by chance.
        """
        return np.diff((self.edges * households + offset) >> SCALE_BITS, prepend=0)


def fit(profile: Profile) -> Cells:
    """Fit the national seed to a state's margins: group, ethnicity, household type, tenure, size and age."""
    cells = seed()
    white_hispanic = profile["HHRACE_WHITE"] - profile["HH_WHITE_NOT_HISPANIC"]
    races = [profile["HH_WHITE_NOT_HISPANIC"], *(profile[name] for name in RACES[1:]), white_hispanic]
    large = profile["SIZE_8_UP"] - profile["SIZE_11_UP"]
    margins = [
        (np.where(cells.group == 1, 7, cells.group // 2), races),
        (cells.group % 2, [100 - profile["HH_HISPANIC"], profile["HH_HISPANIC"]]),
        (cells.tenure, [profile[name] for name in TENURES]),
        (cells.age, list(ht.AGE_SHARES)),
        (cells.size, [*(profile[name] for name in SIZES[:7]), large, profile["SIZE_11_UP"]]),
        (cells.household_type, [profile[f"HHT_{each.hht}"] * each.share / 100 for each in ht.HOUSEHOLD_TYPES]),
    ]
    targets = [(category.astype(np.intp), np.array(shares) / np.cumsum(shares)[-1]) for category, shares in margins]
    weight = cells.odds.copy()
    for _ in range(ROUNDS):
        for category, target in targets:
            # bincount and cumsum add in the order of the cells, so the sums are the same on every machine.
            current = np.bincount(category, weight, len(target))
            weight *= np.divide(target, current, out=np.zeros_like(current), where=current > 0)[category]
    sums = np.cumsum(weight)
    edges = np.floor(sums / sums[-1] * float(1 << SCALE_BITS)).astype(np.int64)
    groups = np.bincount(cells.group, weight, ht.GROUPS).astype(np.float64)
    return Cells(edges, groups)
