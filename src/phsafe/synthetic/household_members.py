"""Fill households with people: relationships and ages, then race and ethnicity.

Everything is vectorised over households or people. The only loop runs over positions within the household: each pass
adds the next person to every household that isn't full yet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phsafe.synthetic import ages, races, roles
from phsafe.synthetic.household_types import HOUSEHOLD_TYPES, TWO_OR_MORE
from phsafe.synthetic.random_draws import AnyArray, Bits, Bytes, Ints, LookupTable, Words
from phsafe.synthetic.roles import Role

#: RELSHIP of the householder and, by household type, of the spouse or partner.
HOUSEHOLDER = 20
PARTNER = np.array([{1: 21, 2: 23, 3: 22, 4: 24}.get(each.cplt, 0) for each in HOUSEHOLD_TYPES], dtype=np.uint8)
HAS_PARTNER = np.array([each.couple for each in HOUSEHOLD_TYPES])
_MEMBERS = np.array([each.members for each in HOUSEHOLD_TYPES], dtype=np.uint8)
#: Biological, adopted, stepchild: without and with a spouse or partner in the household.
_CHILD = LookupTable([[97.0, 3.0, 0.0], [92.5, 2.5, 5.0]])


@dataclass(frozen=True)
class HouseholdBatch:
    """Occupied housing units. `start` is the index of the householder among the people; a partner comes next."""

    unit: Ints
    household_type: Bytes
    band: Bytes
    size: Bytes
    start: Ints

    @property
    def couple(self) -> AnyArray:
        """Whether there is a spouse or partner."""
        return HAS_PARTNER[self.household_type]


class Chances:
    """A column of random numbers for each decision about a person, so that decisions are independent."""

    def __init__(self, bits: Bits, n: int) -> None:
        self.role, self.age, self.spacing, self.child = bits.words(n)
        self.group, self.code, self.parent, self.ethnicity = bits.words(n)


class People:
    """Everyone in a chunk, in unit order: relationship, age, race and ethnicity, filled in step by step."""

    def __init__(self, unit: Ints, bits: Bits) -> None:
        n = len(unit)
        self.unit = unit
        self.relship: Bytes = np.zeros(n, dtype=np.uint8)
        self.age: Bytes = np.zeros(n, dtype=np.uint8)
        self.race: Bytes = np.zeros(n, dtype=np.uint8)
        self.ethnicity: Bytes = np.zeros(n, dtype=np.uint8)
        self.chances = Chances(bits, n)


def fill_households(homes: HouseholdBatch, people: People) -> None:
    """Set the relationship and age of everyone in the households."""
    age = ages.householder(homes.band, people.chances.age[homes.start])
    people.relship[homes.start], people.age[homes.start] = HOUSEHOLDER, age
    couple = homes.couple
    at = homes.start[couple] + 1
    partner = age.copy()
    partner[couple] = ages.given_relative(int(Role.START), age[couple], people.chances.age[at])
    people.relship[at], people.age[at] = PARTNER[homes.household_type[couple]], partner[couple]
    _fill_others(homes, people, age, partner)


def _fill_others(homes: HouseholdBatch, people: People, age: Bytes, partner: Bytes) -> None:
    """Add the other members one position at a time; without a partner, `partner` is the householder's own age."""
    couple = homes.couple.astype(np.uint8)
    others = homes.size - 1 - couple
    members, parent = _MEMBERS[homes.household_type], np.minimum(age, partner)
    before = np.full(len(age), Role.START, dtype=np.uint8)
    last_age, eldest = age.copy(), np.zeros(len(age), dtype=np.uint8)
    chances = people.chances
    position = 0
    who = np.flatnonzero(others > 0)
    while len(who):
        at = homes.start[who] + 1 + couple[who] + position
        role = roles.next_role(members[who], homes.size[who], homes.band[who], before[who], chances.role[at])
        grown = eldest[who] >= 18
        # No child-in-law unless a child is grown: add another child instead.
        role[(role == Role.CHILD_IN_LAW) & ~grown] = Role.CHILD
        # Grandchildren are the children of a grown child at home, if there is one.
        by_child = grown & (role == Role.GRANDCHILD)
        reference = _reference_age(role, by_child, age[who], partner[who], eldest[who], last_age[who])
        new_age = ages.given_relative(np.where(by_child, Role.CHILD, role), reference, chances.age[at])
        relship = roles.RELSHIP[role]

        is_child = role == Role.CHILD
        child, child_at = who[is_child], at[is_child]
        new_age[is_child] = ages.of_child(
            parent[child],
            eldest[child],
            before[child] != Role.CHILD,
            homes.size[child] >= roles.LARGE_FROM,
            chances.age[child_at],
            chances.spacing[child_at],
        )
        eldest[child] = np.maximum(eldest[child], new_age[is_child])
        relship[is_child] += _CHILD.draw(couple[child], chances.child[child_at])

        people.relship[at], people.age[at] = relship, new_age
        before[who], last_age[who] = role, new_age
        position += 1
        who = who[others[who] > position]


def _reference_age(
    role: Bytes, by_child: AnyArray, age: Bytes, partner: Bytes, eldest: Bytes, last_age: Bytes
) -> Bytes:
    """The age that a new member's age depends on: the householder's, unless the role implies another person's."""
    reference = age.copy()
    for rule, other in (
        (by_child | (role == Role.CHILD_IN_LAW), eldest),
        (role == Role.PARENT_IN_LAW, partner),
        ((role == Role.OTHER_PARENT) | (role == Role.OTHER_PARENT_IN_LAW), last_age),
    ):
        reference[rule] = other[rule]
    return reference


def fill_races(homes: HouseholdBatch, people: People, unit_group: Bytes, tables: races.Races) -> None:
    """Set the race and ethnicity of everyone, given the householder's group in each unit."""
    start, couple = np.zeros(len(unit_group), dtype=np.int64), np.zeros(len(unit_group), dtype=bool)
    start[homes.unit], couple[homes.unit] = homes.start, homes.couple
    relship, chances, home_group = people.relship, people.chances, unit_group[people.unit]
    is_child = (relship >= 25) & (relship <= 27)
    chance = chances.group.copy()
    chance[is_child] = _of_home(chance, start, people.unit[is_child])
    group = tables.member_groups(races.CLOSENESS[relship], home_group, chance)
    people.race = tables.codes(group, chances.code)
    people.ethnicity = ((group & 1) + 1).astype(np.uint8)

    # Relatives in the householder's group have the same combination of two or more races.
    related = np.flatnonzero((group == home_group) & (group >> 1 == TWO_OR_MORE) & (relship < 34))
    people.race[related] = people.race[start[people.unit[related]]]

    with_couple = couple[people.unit]
    child = np.flatnonzero(is_child & with_couple)
    home = people.unit[child]
    first, second = start[home], start[home] + 1
    race, ethnicity = people.race, people.ethnicity
    race[child] = races.of_children(race[first], race[second], _of_home(chances.parent, start, home))
    ethnicity[child] = races.ethnicity_of_children(
        ethnicity[first], ethnicity[second], _of_home(chances.ethnicity, start, home)
    )
    in_law = np.flatnonzero(with_couple & (relship == roles.RELSHIP[Role.PARENT_IN_LAW]))
    partner = start[people.unit[in_law]] + 1
    race[in_law], ethnicity[in_law] = race[partner], ethnicity[partner]


def _of_home(chance: Words, start: Ints, home: Ints) -> Words:
    """The householder's random number, so that siblings share the outcome."""
    return chance[start[home]]
