"""Roles of the other household members, drawn one after another, each given the previous role.

Roles have a fixed order (children first, nonrelatives last) and the chain never goes back. That rules out impossible
households by construction: there are at most two parents, and a child-in-law comes only after a child.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache

import numpy as np

from phsafe.synthetic.household_types import AGE_BANDS, Members
from phsafe.synthetic.random_draws import AnyArray, Bytes, Floats, LookupTable, Words


class Role(IntEnum):
    """A person's role in the household, in the order in which members are added."""

    CHILD = 0
    CHILD_IN_LAW = 1
    GRANDCHILD = 2
    PARENT = 3
    OTHER_PARENT = 4
    PARENT_IN_LAW = 5
    OTHER_PARENT_IN_LAW = 6
    SIBLING = 7
    OTHER_RELATIVE = 8
    FOSTER_CHILD = 9
    ROOMMATE = 10
    OTHER_NONRELATIVE = 11
    START = 12  # no one yet


RELATIVES = tuple(role for role in Role if role <= Role.OTHER_RELATIVE)
#: RELSHIP of each role. A child starts as biological and may become adopted or a stepchild.
RELSHIP = np.array([25, 32, 30, 29, 29, 31, 31, 28, 33, 35, 34, 36, 20], dtype=np.uint8)

#: Odds of each role by the householder's age band: 16, 25, 35, 45, 55, 65, 75 and up.
MARRIED = {
    Role.CHILD: (85, 93, 95, 93, 86, 72, 60),
    Role.GRANDCHILD: (0, 0, 0.5, 2, 8, 16, 14),
    Role.PARENT: (3, 1.5, 1, 1.5, 2, 1, 0),
    Role.PARENT_IN_LAW: (3, 1.5, 1, 1.5, 2, 0.8, 0),
    Role.SIBLING: (4, 1.2, 0.5, 0.4, 0.6, 1, 2),
    Role.OTHER_RELATIVE: (4, 1, 0.5, 0.7, 1.2, 2.5, 5),
    Role.FOSTER_CHILD: (0, 0.1, 0.2, 0.2, 0.15, 0.1, 0.05),
    Role.ROOMMATE: (2, 0.7, 0.3, 0.4, 0.7, 1.5, 3),
    Role.OTHER_NONRELATIVE: (2, 0.6, 0.3, 0.4, 0.8, 1.6, 3),
}
UNMARRIED = {
    Role.CHILD: (55, 80, 90, 84, 68, 58, 65),
    Role.GRANDCHILD: (0, 0, 1, 5, 17, 25, 18),
    Role.PARENT: (10, 6, 4, 6, 9, 5, 0),
    Role.SIBLING: (18, 7, 2, 2.5, 4, 6, 8),
    Role.OTHER_RELATIVE: (10, 3.5, 1.5, 2, 3.5, 5, 6),
    Role.FOSTER_CHILD: (0, 0.2, 0.2, 0.2, 0.2, 0.15, 0.1),
    Role.ROOMMATE: (4, 2, 1, 1, 1.5, 2, 2),
    Role.OTHER_NONRELATIVE: (3, 1.6, 1, 1, 1.3, 1.6, 2),
}
COHABITING = UNMARRIED | {
    Role.CHILD: (85, 92, 92, 86, 75, 65, 60),
    Role.OTHER_NONRELATIVE: (4, 4, 4, 4, 3, 3, 3),
}
NONRELATIVES = {
    Role.FOSTER_CHILD: (0, 0.4, 0.7, 0.8, 0.8, 0.6, 0.5),
    Role.ROOMMATE: (88, 84, 74, 70, 66, 64, 60),
    Role.OTHER_NONRELATIVE: (12, 16, 26, 30, 34, 36, 40),
}
ODDS: dict[Members, Mapping[Role, tuple[float, ...]]] = {
    Members.MARRIED: MARRIED,
    Members.COHABITING_FAMILY: COHABITING,
    Members.FAMILY: UNMARRIED,
    Members.NONRELATIVES: NONRELATIVES,
}
#: Roles that can follow another role once, with their probability: the second parent, the spouse of a child.
FOLLOWS = {
    Role.PARENT: (Role.OTHER_PARENT, 0.35),
    Role.PARENT_IN_LAW: (Role.OTHER_PARENT_IN_LAW, 0.35),
    Role.CHILD: (Role.CHILD_IN_LAW, 0.05),
}
REPEATABLE = (Role.CHILD, Role.GRANDCHILD, *(role for role in Role if role >= Role.SIBLING))
#: One grandchild, sibling or other relative makes another more likely, by this factor.
AGAIN = {Role.GRANDCHILD: 6.0, Role.SIBLING: 4.0, Role.OTHER_RELATIVE: 6.0}
#: Households of at least this size are large. Members other than children are more likely there, by this factor, tuned
#: so that the share of households with more than six people under 18 matches the nation's.
LARGE_FROM = 7
LARGE_FACTOR = 1.6


@cache
def _chain() -> LookupTable:
    """The transition table; rows: members × (small, large) × age band × previous role."""
    rows = [
        _row(members, large, band, before)
        for members in Members
        for large in (False, True)
        for band in range(len(AGE_BANDS))
        for before in Role
    ]
    return LookupTable(rows)


def next_role(members: Bytes, size: Bytes, band: Bytes, before: Bytes, u: Words) -> Bytes:
    """Draw the role of the next person in each household."""
    row: AnyArray = members.astype(np.int64) * 2 + (size >= LARGE_FROM)
    row = (row * len(AGE_BANDS) + band) * len(Role) + before
    return _chain().draw(row, u)


def _row(members: Members, large: bool, band: int, before: Role) -> Floats:
    """Odds of each role after `before`."""
    odds = np.zeros(len(Role) - 1)
    first = before == Role.START
    for role, by_band in ODDS[members].items():
        if first or role > before or (role == before and role in REPEATABLE):
            odds[role] = by_band[band]
            odds[role] *= LARGE_FACTOR if large and role != Role.CHILD else 1
            odds[role] *= AGAIN.get(role, 1) if role == before else 1
    if first and members in (Members.FAMILY, Members.COHABITING_FAMILY):
        odds[Role.FOSTER_CHILD :] = 0  # at least one relative is required
    if before in FOLLOWS and members != Members.NONRELATIVES:
        partner, share = FOLLOWS[before]
        odds[partner] = np.cumsum(odds)[-1] * share / (1 - share)
    return odds
