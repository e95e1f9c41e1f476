"""Consistent ages within a household: each person's age is drawn given the age of a relative.

Every rule is a row of weights over ages, so no draw can violate it: a child is at least `YOUNGEST_PARENT`
years younger than both the householder and the spouse or partner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from phsafe.synthetic.household_types import AGE_BANDS
from phsafe.synthetic.random_draws import AnyArray, Bytes, Floats, LookupTable, Words, piecewise_linear
from phsafe.synthetic.roles import Role

AGES = np.arange(116)
OLDEST = 104
YOUNGEST_PARENT = 15
YOUNGEST_HOUSEHOLDER = AGE_BANDS[0][0]
#: Siblings are spaced up to this age; beyond it, a child's age is drawn independently of the siblings' ages.
SPACED_TO = 19


def _tent(centre: float, width: float) -> Floats:
    """Weights that fall linearly from the centre to zero at `width` years from it."""
    odds: Floats = np.maximum(0.0, width - np.abs(AGES - centre))
    return odds


def _births(parent: int) -> Floats:
    """Weights for the age of a child whose parent is aged `parent`: most births are in the parent's late twenties."""
    at_birth = parent - AGES
    odds = piecewise_linear(at_birth, (14, 18, 24, 31, 38, 45, 55), (0.0, 2.0, 8.0, 10.0, 5.0, 0.6, 0.0))
    return np.where(at_birth >= YOUNGEST_PARENT, odds, 0.0)


def _child(parent: int) -> Floats:
    """Weights for children living at home: nearly all up to 17, fewer with each year after that."""
    odds = _births(parent) * piecewise_linear(AGES, (0, 17, 23, 26, 35, 60), (1.6, 0.9, 0.8, 0.4, 0.1, 0.05))
    if odds.sum() == 0:  # very old or very young parents: the nearest possible age
        odds[max(0, min(parent - YOUNGEST_PARENT, 60))] = 1.0
    return odds


def _grandchild(grandparent: int) -> Floats:
    odds = _tent(grandparent - 56, 20) * piecewise_linear(AGES, (0, 17, 22, 40), (1.0, 1.0, 0.4, 0.0))
    odds = np.where(AGES <= grandparent - 2 * YOUNGEST_PARENT, odds, 0.0)
    if odds.sum() == 0:
        odds[max(0, min(grandparent - 2 * YOUNGEST_PARENT, 20))] = 1.0
    return odds


def _parent(child: int) -> Floats:
    odds = np.where(AGES <= OLDEST, _tent(child + 28, 13), 0.0)
    return odds if odds.sum() > 0 else np.where(OLDEST == AGES, 1.0, 0.0)


def _other_parent(parent: int) -> Floats:
    """A parent's spouse: close in age, and never so young as to be too close to the householder's age."""
    return np.where((AGES <= OLDEST) & (AGES >= min(parent - 1, OLDEST)), _tent(parent, 5), 0.0)


def _near(width: int, youngest: int) -> Callable[[int], Floats]:
    """Someone of about the same age, at least `youngest`."""

    def ages(other: int) -> Floats:
        odds = np.where((AGES >= youngest) & (AGES <= OLDEST), _tent(other, width), 0.0)
        return odds if odds.sum() > 0 else np.where(youngest == AGES, 1.0, 0.0)

    return ages


def _anyone(oldest: int, children: float) -> Callable[[int], Floats]:
    """Any age up to `oldest`, with people under 18 at `children` times the odds of adults."""
    odds = np.where(AGES < 18, children, piecewise_linear(AGES, (18, 30, 60, oldest), (1.0, 1.0, 0.6, 0.0)))
    return lambda _: np.where(AGES <= oldest, odds, 0.0)


#: Weights by role. `phsafe.synthetic.household_members` decides whose age is the reference; START is the spouse or
#: partner.
RULES: dict[Role, Callable[[int], Floats]] = {
    Role.CHILD: _child,
    Role.CHILD_IN_LAW: _near(7, 18),
    Role.GRANDCHILD: _grandchild,
    Role.PARENT: _parent,
    Role.OTHER_PARENT: _other_parent,
    Role.PARENT_IN_LAW: _parent,
    Role.OTHER_PARENT_IN_LAW: _other_parent,
    Role.SIBLING: _near(14, 0),
    Role.OTHER_RELATIVE: _anyone(92, 1.6),
    Role.FOSTER_CHILD: lambda _: np.where(AGES <= 20, np.where(AGES < 18, 1.0, 0.2), 0.0),
    Role.ROOMMATE: _near(13, 16),
    Role.OTHER_NONRELATIVE: _anyone(85, 1.0),
    Role.START: _near(9, YOUNGEST_HOUSEHOLDER),
}


@cache
def _by_role() -> LookupTable:
    return LookupTable([RULES[role](other) for role in Role for other in AGES.tolist()], bits=10)


@cache
def _of_householders() -> LookupTable:
    """Nearly uniform within a band, but few householders under 20 and fewer with each year above 65."""
    knots = (16, 18, 21, 24, 25, 65, 66, 74, 75, 90, 98, 105)
    slope = piecewise_linear(AGES, knots, (0.03, 0.2, 1, 1.3, 1, 1, 1, 0.7, 1, 0.3, 0.05, 0))
    return LookupTable([np.where((first <= AGES) & (last >= AGES), slope, 0.0) for first, last in AGE_BANDS])


#: Years between siblings, 0 (twins) to 6: first row for most households, second for large ones.
_SPACING = LookupTable([[1.5, 12.0, 32.0, 28.0, 15.0, 7.0, 4.5], [3.0, 32.0, 45.0, 15.0, 4.0, 1.0, 0.0]])


def householder(band: Bytes, u: Words) -> Bytes:
    """Draw the householder's age within its band."""
    return _of_householders().draw(band, u)


def given_relative(role: AnyArray | int, other: AnyArray, u: Words) -> Bytes:
    """Draw an age for someone in `role`, given the age `other` of the reference person."""
    row = (np.asarray(role).astype(np.int64)) * len(AGES) + other
    return _by_role().draw(row, u)


def of_child(parent: Bytes, eldest: Bytes, first: AnyArray, large: AnyArray, u: Words, spacing: Words) -> Bytes:
    """Draw the age of one more child: spaced above the eldest so far if that is possible, otherwise any valid age."""
    spaced = eldest + _SPACING.draw(large, spacing)
    fits = ~first & (spaced <= SPACED_TO) & (spaced + YOUNGEST_PARENT <= parent)
    return np.where(fits, spaced, given_relative(int(Role.CHILD), parent, u)).astype(np.uint8)
