"""Ages that fit each other: each person's age given the age of the relative that it must fit.

Every rule is a row of weights over ages, so no draw can break it: a child is at least `YOUNGEST_PARENT`
years younger than both the householder and the spouse or partner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from phsafe.synthesis.draws import AnyArray, Bytes, Floats, Table, Words, bent_line
from phsafe.synthesis.kinds import AGE_BANDS
from phsafe.synthesis.roles import Role

AGES = np.arange(116)
OLDEST = 104
YOUNGEST_PARENT = 15
YOUNGEST_HOUSEHOLDER = AGE_BANDS[0][0]
#: A child at home with brothers and sisters is rarely older than this when the next is added by spacing.
SPACED_TO = 19


def _tent(centre: float, width: float) -> Floats:
    """Weights that fall off in a straight line from the centre to nothing at `width` years from it."""
    odds: Floats = np.maximum(0.0, width - np.abs(AGES - centre))
    return odds


def _births(parent: int) -> Floats:
    """Ages of a child of someone aged `parent`: most are born when the parent is in the late twenties."""
    at_birth = parent - AGES
    odds = bent_line(at_birth, (14, 18, 24, 31, 38, 45, 55), (0.0, 2.0, 8.0, 10.0, 5.0, 0.6, 0.0))
    return np.where(at_birth >= YOUNGEST_PARENT, odds, 0.0)


def _child(parent: int) -> Floats:
    """Children at home: nearly all to 17, fewer each year from then on."""
    odds = _births(parent) * bent_line(AGES, (0, 17, 23, 26, 35, 60), (1.6, 0.9, 0.8, 0.4, 0.1, 0.05))
    if odds.sum() == 0:  # very old or very young parents: the nearest age that there can be
        odds[max(0, min(parent - YOUNGEST_PARENT, 60))] = 1.0
    return odds


def _grandchild(grandparent: int) -> Floats:
    odds = _tent(grandparent - 56, 20) * bent_line(AGES, (0, 17, 22, 40), (1.0, 1.0, 0.4, 0.0))
    odds = np.where(AGES <= grandparent - 2 * YOUNGEST_PARENT, odds, 0.0)
    if odds.sum() == 0:
        odds[max(0, min(grandparent - 2 * YOUNGEST_PARENT, 20))] = 1.0
    return odds


def _parent(child: int) -> Floats:
    odds = np.where(AGES <= OLDEST, _tent(child + 28, 13), 0.0)
    return odds if odds.sum() > 0 else np.where(OLDEST == AGES, 1.0, 0.0)


def _other_parent(parent: int) -> Floats:
    """A parent's wife or husband is never so much younger as to be too near the householder."""
    return np.where((AGES <= OLDEST) & (AGES >= min(parent - 1, OLDEST)), _tent(parent, 5), 0.0)


def _near(width: int, youngest: int) -> Callable[[int], Floats]:
    """Somebody of about the same age, at least `youngest`."""

    def ages(other: int) -> Floats:
        odds = np.where((AGES >= youngest) & (AGES <= OLDEST), _tent(other, width), 0.0)
        return odds if odds.sum() > 0 else np.where(youngest == AGES, 1.0, 0.0)

    return ages


def _anyone(oldest: int, children: float) -> Callable[[int], Floats]:
    """Any age up to `oldest`, with people under 18 at `children` times the odds of adults."""
    odds = np.where(AGES < 18, children, bent_line(AGES, (18, 30, 60, oldest), (1.0, 1.0, 0.6, 0.0)))
    return lambda _: np.where(AGES <= oldest, odds, 0.0)


#: Who is fitted to whom is said in `phsafe.synthesis.members`; START stands for the spouse or partner.
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
def _by_role() -> Table:
    return Table([RULES[role](other) for role in Role for other in AGES.tolist()], bits=10)


@cache
def _of_householders() -> Table:
    """Nearly even within a band, but few householders under 20 and ever fewer above 65."""
    knots = (16, 18, 21, 24, 25, 65, 66, 74, 75, 90, 98, 105)
    slope = bent_line(AGES, knots, (0.03, 0.2, 1, 1.3, 1, 1, 1, 0.7, 1, 0.3, 0.05, 0))
    return Table([np.where((first <= AGES) & (last >= AGES), slope, 0.0) for first, last in AGE_BANDS])


#: Years between brothers and sisters, 0 (twins) to 6: in most households, and in large ones.
_SPACING = Table([[1.5, 12.0, 32.0, 28.0, 15.0, 7.0, 4.5], [3.0, 32.0, 45.0, 15.0, 4.0, 1.0, 0.0]])


def householder(band: Bytes, u: Words) -> Bytes:
    """The householder's age within its band."""
    return _of_householders().draw(band, u)


def fitting(role: AnyArray | int, other: AnyArray, u: Words) -> Bytes:
    """An age for someone in `role`, given the age of the person that it must fit."""
    row = (np.asarray(role).astype(np.int64)) * len(AGES) + other
    return _by_role().draw(row, u)


def of_child(parent: Bytes, eldest: Bytes, first: AnyArray, large: AnyArray, u: Words, spacing: Words) -> Bytes:
    """The age of one more child: next above the eldest so far while that fits, else any age that fits."""
    spaced = eldest + _SPACING.draw(large, spacing)
    fits = ~first & (spaced <= SPACED_TO) & (spaced + YOUNGEST_PARENT <= parent)
    return np.where(fits, spaced, fitting(int(Role.CHILD), parent, u)).astype(np.uint8)
