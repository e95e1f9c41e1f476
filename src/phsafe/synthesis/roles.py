"""Who else lives in the household: roles drawn one after the other, each given the one before.

Roles come in a fixed order (children first, nonrelatives last) and the chain never goes back. That keeps
impossible sets out by construction: at most two parents, a child-in-law only after a child.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache

import numpy as np

from phsafe.synthesis.draws import AnyArray, Bytes, Floats, Table, Words
from phsafe.synthesis.kinds import AGE_BANDS, Members


class Role(IntEnum):
    """A person's place in the household, in the order in which places are filled."""

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
    START = 12  # nobody yet


RELATIVES = tuple(role for role in Role if role <= Role.OTHER_RELATIVE)
#: RELSHIP of each role; a child is biological here, and may be made adopted or a stepchild.
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
#: What may follow only once, and what makes it likely: the second parent, the wife or husband of a child.
FOLLOWS = {
    Role.PARENT: (Role.OTHER_PARENT, 0.35),
    Role.PARENT_IN_LAW: (Role.OTHER_PARENT_IN_LAW, 0.35),
    Role.CHILD: (Role.CHILD_IN_LAW, 0.05),
}
REPEATABLE = (Role.CHILD, Role.GRANDCHILD, *(role for role in Role if role >= Role.SIBLING))
#: Having one grandchild, sibling, … makes another likely.
AGAIN = {Role.GRANDCHILD: 6.0, Role.SIBLING: 4.0, Role.OTHER_RELATIVE: 6.0}
#: Households from this size on are large, and hold several generations more often, by this factor (tuned so
#: that the share with more than six people under 18 is the nation's).
LARGE_FROM = 7
LARGE_FACTOR = 1.6


@cache
def _chain() -> Table:
    """Rows: members × (small, large) × age band × role before."""
    rows = [
        _row(members, large, band, before)
        for members in Members
        for large in (False, True)
        for band in range(len(AGE_BANDS))
        for before in Role
    ]
    return Table(rows)


def next_role(members: Bytes, size: Bytes, band: Bytes, before: Bytes, u: Words) -> Bytes:
    """The role of the next person in each household."""
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
        odds[Role.FOSTER_CHILD :] = 0  # somebody must be a relative
    if before in FOLLOWS and members != Members.NONRELATIVES:
        partner, share = FOLLOWS[before]
        odds[partner] = np.cumsum(odds)[-1] * share / (1 - share)
    return odds
