"""Race and ethnicity, shared within families as in reality.

A member has the householder's group with a probability that depends on group and relationship. Otherwise the group is
drawn from the state's people, mostly with the same ethnicity. Children of a couple take after both parents.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np

from phsafe.model.schema import MAJOR_RACES
from phsafe.model.schema import RACES as CODES
from phsafe.synthetic import household_types as ht
from phsafe.synthetic.random_draws import Bytes, Floats, LookupTable, Words
from phsafe.synthetic.state_profiles import RACES, Profile

#: Closeness to the householder, as a row of the tables.
SELF, PARTNER, KIN, STRANGER = range(4)
#: Closeness by RELSHIP code (20–38).
CLOSENESS = np.full(39, STRANGER, dtype=np.uint8)
CLOSENESS[20] = SELF
CLOSENESS[[21, 22, 23, 24, 32]] = PARTNER
CLOSENESS[[25, 26, 27, 28, 29, 30, 31, 33]] = KIN

#: Percent who take over the householder's group, by group (see `household_types.GROUP_SHARES`).
SAME = {
    SELF: (100,) * ht.GROUPS,
    PARTNER: (92, 68, 87, 50, 78, 60, 80, 50, 80, 60, 50, 82, 45, 62),
    KIN: (95, 88, 95, 75, 95, 85, 93, 70, 95, 85, 75, 95, 75, 78),
    STRANGER: (55,) * ht.GROUPS,
}
#: Odds of the same ethnicity among those whose group is drawn.
SAME_ETHNICITY = {SELF: 1.0, PARTNER: 6.0, KIN: 12.0, STRANGER: 2.0}
#: Out of 65,536 children of parents of different races, how many have both races; the others have one parent's.
BOTH_RACES = 30_000
#: Out of 65,536 children with one Hispanic parent, how many are Hispanic.
HISPANIC_CHILD = 46_000

#: Codes of two or more races: national shares in percent, not Hispanic and Hispanic. Other codes get weight `REST`.
COMMON_CODES = {
    ("07", "08", "09", "10", "11", "12", "13", "15", "16", "17", "22"): (20, 37, 17, 1, 9, 3, 2, 2, 1, 1, 3),
    ("07", "08", "09", "11", "15", "18", "22", "24"): (3, 4, 1, 80, 5, 4, 0.5, 1),
}
REST = 0.02

#: Race code ⇄ set of races as bits.
MASKS = np.zeros(64, dtype=np.uint8)
for _code, _races in CODES.items():
    MASKS[int(_code)] = sum(1 << (race - 1) for race in _races)
CODE_OF_MASK = np.zeros(64, dtype=np.uint8)
CODE_OF_MASK[MASKS[1:]] = np.arange(1, 64)


class Races:
    """Race and ethnicity tables of one state, built from its profile and its householders' shares by group."""

    def __init__(self, profile: Profile, nation: Profile, groups: Floats) -> None:
        self.groups = groups
        relative = [(profile[name] + 0.05) / (nation[name] + 0.05) for name in RACES[: len(MAJOR_RACES)]]
        self._codes = LookupTable([_combinations(i, relative) for i in range(2)], bits=16)

    @cached_property
    def _transitions(self) -> LookupTable:
        """Rows: closeness × the householder's group."""
        ethnicity = np.arange(ht.GROUPS) % 2
        rows = []
        for closeness, same in SAME.items():
            for group in range(ht.GROUPS):
                others = self.groups * np.where(ethnicity == group % 2, SAME_ETHNICITY[closeness], 1.0)
                row = others / np.cumsum(others)[-1] * (100 - same[group])
                row[group] += same[group]
                rows.append(row)
        return LookupTable(rows, bits=16)

    def member_groups(self, closeness: Bytes, householder: Bytes, u: Words) -> Bytes:
        """Draw the group of a member, given the householder's."""
        return self._transitions.draw(closeness.astype(np.int64) * ht.GROUPS + householder, u)

    def codes(self, group: Bytes, u: Words) -> Bytes:
        """Draw a race code within the group: the single race, or a combination by how common it is in the state."""
        race = group >> 1
        many = race == ht.TWO_OR_MORE
        codes = (race + 1).astype(np.uint8)
        codes[many] = 7 + self._codes.draw(group[many] & 1, u[many])
        return codes


def of_children(first: Bytes, second: Bytes, u: Words) -> Bytes:
    """Draw the race codes of a couple's children: both parents' races combined, or one parent's."""
    both = CODE_OF_MASK[MASKS[first] | MASKS[second]]
    one = np.where(u & 1, first, second)
    return np.where(u < BOTH_RACES, both, one).astype(np.uint8)


def ethnicity_of_children(first: Bytes, second: Bytes, u: Words) -> Bytes:
    """Draw the ethnicity of a couple's children: Hispanic (2), as most with one Hispanic parent are, or not (1)."""
    return np.where(first == second, first, np.where(u < HISPANIC_CHILD, 2, 1)).astype(np.uint8)


def _combinations(ethnicity: int, relative: list[float]) -> Floats:
    """Odds of the codes 07–63: the nation's, scaled by how common each of the races is in the state."""
    common = dict(zip(*list(COMMON_CODES.items())[ethnicity], strict=True))
    odds = []
    for number, races in enumerate(
        (races for size in range(2, 7) for races in combinations(range(len(MAJOR_RACES)), size)), start=7
    ):
        weight = float(common.get(f"{number:02d}", REST))
        for race in races:
            weight *= relative[race]
        odds.append(weight)
    return np.array(odds)
