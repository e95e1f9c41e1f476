"""The kinds of household and what goes with what in the nation: the seed that each state's shares reshape.

All numbers here are rounded national figures or odds (1 = as often as for everyone). They set how the
traits of a household hang together; how often each trait occurs comes from the state's profile.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Members(IntEnum):
    """Who may live with the householder (and spouse or partner): the row of the role tables."""

    MARRIED = 0  # anyone, or nobody
    COHABITING_FAMILY = 1  # at least one relative
    FAMILY = 2  # no spouse or partner; at least one relative
    NONRELATIVES = 3  # nonrelatives only, or nobody


@dataclass(frozen=True)
class Kind:
    """A kind of household: the HHT it comes under, the couple (CPLT), and its share of that HHT in percent.

    `style` picks the row of the odds below; `sizes` are odds of 1, 2, … 7, 8–10 and 11 or more people.
    """

    hht: int
    cplt: int
    share: float
    style: str
    members: Members
    sizes: tuple[float, ...]

    @property
    def female(self) -> bool:
        """Whether the householder is a woman, where HHT tells."""
        return self.hht in (3, 6, 7)

    @property
    def couple(self) -> bool:
        """Whether the second person is a spouse or partner."""
        return self.cplt < 5


MARRIED_SIZES = (0, 44, 20, 20, 9.5, 3.8, 1.5, 1, 0.12)
SAME_SEX_SIZES = (0, 70, 14, 10, 4, 1.2, 0.4, 0.3, 0.02)
PARTNER_FAMILY_SIZES = (0, 0, 36, 32, 17, 8, 3.5, 2.5, 0.3)
PARTNER_SIZES = (0, 92, 5.5, 1.8, 0.5, 0.15, 0.03, 0.02, 0)
FAMILY_SIZES = (0, 46, 28, 15, 6.5, 2.8, 1.1, 0.9, 0.11)
OTHER_SIZES = (0, 78, 13, 6, 2, 0.6, 0.2, 0.2, 0.02)
ALONE_SIZES = (1, 0, 0, 0, 0, 0, 0, 0, 0)

_COHABITING = ("cohabiting", Members.NONRELATIVES, PARTNER_SIZES)
_COHABITING_FAMILY = ("cohabiting family", Members.COHABITING_FAMILY, PARTNER_FAMILY_SIZES)
KINDS = (
    Kind(1, 1, 98.93, "married", Members.MARRIED, MARRIED_SIZES),
    Kind(1, 2, 1.07, "married", Members.MARRIED, SAME_SEX_SIZES),
    Kind(2, 3, 25.40, *_COHABITING_FAMILY),
    Kind(2, 4, 0.38, *_COHABITING_FAMILY),
    Kind(2, 5, 74.22, "man's family", Members.FAMILY, FAMILY_SIZES),
    Kind(3, 3, 10.16, *_COHABITING_FAMILY),
    Kind(3, 4, 0.25, *_COHABITING_FAMILY),
    Kind(3, 5, 89.59, "woman's family", Members.FAMILY, FAMILY_SIZES),
    Kind(4, 5, 100.0, "alone", Members.NONRELATIVES, ALONE_SIZES),
    Kind(5, 3, 56.21, *_COHABITING),
    Kind(5, 4, 4.44, *_COHABITING),
    Kind(5, 5, 39.35, "others", Members.NONRELATIVES, OTHER_SIZES),
    Kind(6, 5, 100.0, "alone", Members.NONRELATIVES, ALONE_SIZES),
    Kind(7, 3, 55.01, *_COHABITING),
    Kind(7, 4, 5.50, *_COHABITING),
    Kind(7, 5, 39.49, "others", Members.NONRELATIVES, OTHER_SIZES),
)

#: The householder's age: first and last year of each band, and the share of householders in it, in percent.
AGE_BANDS = ((16, 24), (25, 34), (35, 44), (45, 54), (55, 64), (65, 74), (75, 104))
AGE_SHARES = (3.9, 15.2, 17.5, 16.4, 17.5, 16.8, 12.7)

#: Odds of each age band, by style.
AGE_BY_STYLE = {
    "married": (0.25, 0.8, 1.2, 1.2, 1.1, 1.0, 0.75),
    "cohabiting": (3.5, 3.0, 0.9, 0.6, 0.5, 0.35, 0.15),
    "cohabiting family": (1.2, 1.9, 1.7, 0.9, 0.4, 0.2, 0.1),
    "man's family": (0.9, 0.9, 1.2, 1.3, 1.0, 0.7, 0.7),
    "woman's family": (0.8, 1.0, 1.3, 1.2, 0.9, 0.7, 0.8),
    "alone": (0.8, 0.8, 0.6, 0.7, 1.0, 1.4, 2.0),
    "others": (5.0, 2.5, 0.8, 0.6, 0.5, 0.5, 0.3),
}
#: Odds of each age band, by size (1, 2, 3, 4, then 5 and more): children leave, parents stay.
AGE_BY_SIZE = (
    (1, 1, 1, 1, 1, 1, 1),
    (0.9, 0.8, 0.5, 0.7, 1.3, 1.7, 1.8),
    (1.0, 1.1, 1.1, 1.2, 1.0, 0.5, 0.4),
    (0.8, 1.1, 1.8, 1.5, 0.6, 0.25, 0.2),
    (0.6, 1.0, 2.0, 1.4, 0.5, 0.25, 0.2),
)
#: Odds of TEN 1–4 by age band, and by style: mortgages are paid off, the young and the single rent.
TENURE_BY_AGE = (
    (0.25, 0.15, 2.4, 1.2),
    (0.85, 0.25, 1.7, 0.9),
    (1.3, 0.4, 1.1, 0.9),
    (1.35, 0.7, 0.85, 0.9),
    (1.15, 1.2, 0.75, 1.0),
    (0.8, 1.9, 0.65, 1.1),
    (0.45, 2.6, 0.65, 1.3),
)
TENURE_BY_STYLE = {
    "married": (1.35, 1.15, 0.55, 0.8),
    "cohabiting": (0.9, 0.5, 1.4, 1.0),
    "cohabiting family": (0.85, 0.55, 1.4, 1.1),
    "man's family": (0.95, 0.95, 1.1, 1.2),
    "woman's family": (0.75, 0.75, 1.4, 1.2),
    "alone": (0.65, 1.1, 1.25, 1.3),
    "others": (0.5, 0.4, 1.8, 1.0),
}

#: Groups by race (White, Black, AIAN, Asian, NHPI, Some Other Race, two or more) and ethnicity: group 2r is
#: race r not Hispanic, group 2r + 1 Hispanic. Householders of the nation in each, in percent.
GROUP_SHARES = (62.7, 2.8, 11.5, 0.6, 0.6, 0.25, 5.55, 0.12, 0.12, 0.015, 0.35, 5.2, 3.9, 6.3)
GROUPS = len(GROUP_SHARES)
TWO_OR_MORE = 6
#: Odds of TEN 1–4 by group.
TENURE_BY_GROUP = (
    (1.1, 1.15, 0.8, 1.0), (0.95, 0.75, 1.2, 1.0),
    (0.8, 0.65, 1.5, 1.2), (0.8, 0.65, 1.5, 1.2),
    (0.75, 1.0, 1.2, 1.8), (0.75, 0.9, 1.3, 1.3),
    (1.15, 0.75, 1.0, 0.7), (1.0, 0.75, 1.1, 0.8),
    (0.75, 0.6, 1.4, 1.2), (0.75, 0.6, 1.4, 1.2),
    (0.8, 0.6, 1.4, 1.0), (0.8, 0.6, 1.4, 1.0),
    (1.0, 0.9, 1.1, 1.0), (0.85, 0.65, 1.3, 1.0),
)  # fmt: skip
#: Odds of the styles by race: married, cohabiting (either), man's family, woman's family, alone, others.
STYLE_BY_RACE = (
    (1.05, 1.0, 0.85, 0.7, 1.05, 1.0),
    (0.6, 0.85, 1.2, 2.2, 1.2, 0.8),
    (0.8, 1.3, 1.5, 1.6, 0.9, 1.0),
    (1.3, 0.5, 1.0, 0.8, 0.7, 1.0),
    (1.0, 1.0, 1.5, 1.5, 0.6, 1.0),
    (1.05, 1.2, 1.7, 1.6, 0.55, 0.9),
    (0.95, 1.25, 1.3, 1.3, 0.8, 1.1),
)
STYLES = {
    "married": 0,
    "cohabiting": 1,
    "cohabiting family": 1,
    "man's family": 2,
    "woman's family": 3,
    "alone": 4,
    "others": 5,
}
#: Odds of one more person, by group: tuned so that people (not only householders) of each race are as many
#: as in the nation (`benchmarks/synth.py --tune`).
MORE_BY_GROUP = (
    0.886, 1.57, 1.128, 1.248, 1.506, 1.506, 1.025, 1.084, 1.528, 1.528, 1.629, 1.629, 1.089, 0.958,
)  # fmt: skip

#: People in the size classes "8–10" and "11 or more": (people, odds).
LARGE = ((8, 60.0), (9, 27.0), (10, 13.0))
LARGEST = tuple((11 + i, odds) for i, odds in enumerate((40, 24, 14, 8, 5, 3.5, 2, 1.5, 1, 1)))
