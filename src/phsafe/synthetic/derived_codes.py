"""Unit codes derived from the members, following the code lists of the 2020 Census."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phsafe.model.schema import FAMILY, OWN_CHILDREN
from phsafe.synthetic.random_draws import AnyArray, Bytes, Ints

_IN_FAMILY = np.zeros(39, dtype=bool)
_IN_FAMILY[[int(code) for code in FAMILY]] = True
_OWN_CHILD = np.zeros(39, dtype=bool)
_OWN_CHILD[[int(code) for code in OWN_CHILDREN]] = True
#: CPLT by the RELSHIP of the spouse or partner: 1 opposite-sex spouse, 2 same-sex spouse, 3, 4 partners.
_CPLT = np.zeros(39, dtype=np.uint8)
_CPLT[[21, 23, 22, 24]] = (1, 2, 3, 4)
NO_COUPLE = 5


class Codes(NamedTuple):
    """NPF, HHT, HHT2 and CPLT of occupied housing units, as numbers."""

    npf: Bytes
    hht: Bytes
    hht2: Bytes
    cplt: Bytes


def unit_codes(relship: Bytes, age: Bytes, starts: Ints, female: AnyArray) -> Codes:
    """Derive the codes of the units whose members begin at `starts` in the person arrays.

    `female` marks units with a female householder; sex isn't in the layout, so it can't be derived.
    """
    people = np.diff(starts, append=len(relship))
    family = np.add.reduceat(_IN_FAMILY[relship], starts, dtype=np.uint8)
    own_minor = np.logical_or.reduceat(_OWN_CHILD[relship] & (age < 18), starts)
    cplt = np.maximum.reduceat(_CPLT[relship], starts)
    cplt[cplt == 0] = NO_COUPLE
    married, partner, alone, relatives = cplt <= 2, cplt <= 4, people == 1, family > 1
    hht = np.where(relatives, 2 + female, 4 + 2 * female + ~alone)
    # Without a couple, 05–08 female and 09–12 male: alone, with own children, with relatives, nonrelatives only.
    single = np.where(alone, 0, np.where(own_minor, 1, np.where(relatives, 2, 3)))
    hht2 = np.where(partner, np.where(married, 1, 3) + ~own_minor, np.where(female, 5, 9) + single)
    return Codes(
        np.where(relatives, family, 0).astype(np.uint8),
        np.where(married, 1, hht).astype(np.uint8),
        hht2.astype(np.uint8),
        cplt,
    )
