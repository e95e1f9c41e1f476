"""Household types and the national associations between their traits, which are fitted to the profile of each state.

All numbers here are rounded national figures or odds (1 = as often as for everyone). They determine how the traits of a
household are associated; the state's profile determines how often each trait occurs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Members(IntEnum):
    """Who may live with the householder and the spouse or partner; selects a row of the role tables."""

    MARRIED = 0  # anyone, or no one
    COHABITING_FAMILY = 1  # at least one relative
    FAMILY = 2  # no spouse or partner; at least one relative
    NONRELATIVES = 3  # nonrelatives only, or no one


@dataclass(frozen=True)
class HouseholdType:
    """A household type: its HHT, the kind of couple (CPLT), and its share of that HHT in percent.

    `style` selects a row of the odds below; `sizes` are the weights of 1, 2, … 7, 8–10 and 11 or more people.
    """

    hht: int
    cplt: int
    share: float
    style: str
    members: Members
    sizes: tuple[float, ...]

    @property
    def female(self) -> bool:
        """Whether HHT implies a female householder."""
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
HOUSEHOLD_TYPES = (
    HouseholdType(1, 1, 98.93, "married", Members.MARRIED, MARRIED_SIZES),
    HouseholdType(1, 2, 1.07, "married", Members.MARRIED, SAME_SEX_SIZES),
    HouseholdType(2, 3, 25.40, *_COHABITING_FAMILY),
    HouseholdType(2, 4, 0.38, *_COHABITING_FAMILY),
    HouseholdType(2, 5, 74.22, "man's family", Members.FAMILY, FAMILY_SIZES),
    HouseholdType(3, 3, 10.16, *_COHABITING_FAMILY),
    HouseholdType(3, 4, 0.25, *_COHABITING_FAMILY),
    HouseholdType(3, 5, 89.59, "woman's family", Members.FAMILY, FAMILY_SIZES),
    HouseholdType(4, 5, 100.0, "alone", Members.NONRELATIVES, ALONE_SIZES),
    HouseholdType(5, 3, 56.21, *_COHABITING),
    HouseholdType(5, 4, 4.44, *_COHABITING),
    HouseholdType(5, 5, 39.35, "others", Members.NONRELATIVES, OTHER_SIZES),
    HouseholdType(6, 5, 100.0, "alone", Members.NONRELATIVES, ALONE_SIZES),
    HouseholdType(7, 3, 55.01, *_COHABITING),
    HouseholdType(7, 4, 5.50, *_COHABITING),
    HouseholdType(7, 5, 39.49, "others", Members.NONRELATIVES, OTHER_SIZES),
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
#: Odds of each age band, by size (1, 2, 3, 4, and 5 or more): households shrink when the children leave home.
AGE_BY_SIZE = (
    (1, 1, 1, 1, 1, 1, 1),
    (0.9, 0.8, 0.5, 0.7, 1.3, 1.7, 1.8),
    (1.0, 1.1, 1.1, 1.2, 1.0, 0.5, 0.4),
    (0.8, 1.1, 1.8, 1.5, 0.6, 0.25, 0.2),
    (0.6, 1.0, 2.0, 1.4, 0.5, 0.25, 0.2),
)
#: Odds of TEN 1–4 by age band, and by style: the old have paid off their mortgages, and the young and single rent.
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

#: The national share of householders in each group by race and ethnicity, in percent. The races r = 0, 1, … are White,
#: Black, AIAN, Asian, NHPI, Some Other Race, and two or more; group 2r is not Hispanic, and group 2r + 1 is Hispanic.
GROUP_SHARES = (62.7, 2.8, 11.5, 0.6, 0.6, 0.25, 5.55, 0.12, 0.12, 0.015, 0.35, 5.2, 3.9, 6.3)
GROUPS = len(GROUP_SHARES)
#: The number of the race "two or more".
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
#: The column of STYLE_BY_RACE for each style.
STYLES = {
    "married": 0,
    "cohabiting": 1,
    "cohabiting family": 1,
    "man's family": 2,
    "woman's family": 3,
    "alone": 4,
    "others": 5,
}
#: Odds of one more person, by group: tuned so that the shares of people (not only householders) by race match those of
#: the nation (`benchmarks/synth.py --tune`).
MORE_BY_GROUP = (
    0.886, 1.57, 1.128, 1.248, 1.506, 1.506, 1.025, 1.084, 1.528, 1.528, 1.629, 1.629, 1.089, 0.958,
)  # fmt: skip

#: The sizes in the size classes "8–10" and "11 or more": (people, weight).
LARGE = ((8, 60.0), (9, 27.0), (10, 13.0))
LARGEST = tuple((11 + i, odds) for i, odds in enumerate((40, 24, 14, 8, 5, 3.5, 2, 1.5, 1, 1)))
