"""The households of a state as a table of cells, fitted to the state's profile.

A cell is a combination of group (race and ethnicity of the householder), kind, size class, tenure and age
band. The national seed says how these hang together; iterative proportional fitting (Deming and Stephan
1940) then scales it until every margin is the state's, which keeps the odds ratios of the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from phsafe.synthesis import kinds as k
from phsafe.synthesis.draws import Bytes, Floats, Ints
from phsafe.synthesis.profile import RACES, SIZES, TENURES, Profile

#: Enough for every margin of every state to hold to a thousandth of its value.
ROUNDS = 20
#: The size class of 11 or more people.
LARGEST = 8
#: Cumulative shares are whole numbers of 2**-40: times a chunk of households they still fit 64 bits.
SCALE_BITS = 40


@dataclass(frozen=True)
class Seed:
    """All possible cells, one array for each trait, and their national odds."""

    group: Bytes
    kind: Bytes
    size: Bytes
    tenure: Bytes
    age: Bytes
    odds: Floats


@cache
def seed() -> Seed:
    """The cells in an order that keeps the rare together (see `Cells.allot`): the largest, then groups, then kinds."""
    shape = (k.GROUPS, len(k.KINDS), 9, 4, len(k.AGE_BANDS))
    group, kind, size, tenure, age = (axis.ravel().astype(np.uint8) for axis in np.indices(shape))
    style = [kind_.style for kind_ in k.KINDS]
    more = np.ones((k.GROUPS, 9))
    for people in range(1, 9):  # repeated multiplication: powers may differ between machines
        more[:, people] = more[:, people - 1] * np.array(k.MORE_BY_GROUP)
    by_race = np.array([[row[k.STYLES[s]] for s in style] for row in k.STYLE_BY_RACE])
    age_by_size = np.array([k.AGE_BY_SIZE[min(i, 4)] for i in range(9)])
    odds = np.array([kind_.sizes for kind_ in k.KINDS], dtype=np.float64)[kind, size]
    for factor in (
        np.array(k.GROUP_SHARES)[group],
        more[group, size],
        by_race[group // 2, kind],
        np.array([k.AGE_BY_STYLE[s] for s in style])[kind, age],
        age_by_size[size, age],
        np.array(k.TENURE_BY_AGE)[age, tenure],
        np.array([k.TENURE_BY_STYLE[s] for s in style])[kind, tenure],
        np.array(k.TENURE_BY_GROUP)[group, tenure],
    ):
        odds *= factor
    keep = np.flatnonzero(odds > 0)
    keep = keep[np.argsort(size[keep] != LARGEST, kind="stable")]
    return Seed(*(trait[keep] for trait in (group, kind, size, tenure, age, odds)))


@dataclass(frozen=True)
class Cells:
    """A state's cells: `edges` are the cumulative shares in units of 2**-40, `groups` the shares by group."""

    edges: Ints
    groups: Floats

    def allot(self, households: int, offset: int) -> Ints:
        """How many of `households` fall in each cell: a systematic sample with a random start.

        `offset` is a random number below 2**40. Every run of neighbouring cells gets its share to within
        one household, so that margins hold in every chunk and rare kinds don't come and go by luck.
        """
        return np.diff((self.edges * households + offset) >> SCALE_BITS, prepend=0)


def fit(profile: Profile) -> Cells:
    """Fit the national seed to a state's margins: group, ethnicity, kind, tenure, size and age."""
    cells = seed()
    white_hispanic = profile["HHRACE_WHITE"] - profile["HH_WHITE_NOT_HISPANIC"]
    races = [profile["HH_WHITE_NOT_HISPANIC"], *(profile[name] for name in RACES[1:]), white_hispanic]
    large = profile["SIZE_8_UP"] - profile["SIZE_11_UP"]
    margins = [
        (np.where(cells.group == 1, 7, cells.group // 2), races),
        (cells.group % 2, [100 - profile["HH_HISPANIC"], profile["HH_HISPANIC"]]),
        (cells.tenure, [profile[name] for name in TENURES]),
        (cells.age, list(k.AGE_SHARES)),
        (cells.size, [*(profile[name] for name in SIZES[:7]), large, profile["SIZE_11_UP"]]),
        (cells.kind, [profile[f"HHT_{kind.hht}"] * kind.share / 100 for kind in k.KINDS]),
    ]
    targets = [(category.astype(np.intp), np.array(shares) / np.cumsum(shares)[-1]) for category, shares in margins]
    weight = cells.odds.copy()
    for _ in range(ROUNDS):
        for category, target in targets:
            # bincount and cumsum add in the order of the cells, so the sums are the same on every machine.
            made = np.bincount(category, weight, len(target))
            weight *= np.divide(target, made, out=np.zeros_like(made), where=made > 0)[category]
    sums = np.cumsum(weight)
    edges = np.floor(sums / sums[-1] * float(1 << SCALE_BITS)).astype(np.int64)
    groups = np.bincount(cells.group, weight, k.GROUPS).astype(np.float64)
    return Cells(edges, groups)
