"""Filling households with people: relationships and ages, then race and ethnicity.

Everything is arrays over households or over people; the only loop is over the places in a household (the
next person of every household that has one more, until none has).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phsafe.synthesis import ages, races, roles
from phsafe.synthesis.draws import AnyArray, Bits, Bytes, Ints, Table, Words
from phsafe.synthesis.kinds import KINDS, TWO_OR_MORE
from phsafe.synthesis.roles import Role

#: RELSHIP of the householder and, by kind, of the spouse or partner.
HOUSEHOLDER = 20
PARTNER = np.array([{1: 21, 2: 23, 3: 22, 4: 24}.get(kind.cplt, 0) for kind in KINDS], dtype=np.uint8)
HAS_PARTNER = np.array([kind.couple for kind in KINDS])
_MEMBERS = np.array([kind.members for kind in KINDS], dtype=np.uint8)
#: Biological, adopted, stepchild: without and with a spouse or partner in the household.
_CHILD = Table([[97.0, 3.0, 0.0], [92.5, 2.5, 5.0]])


@dataclass(frozen=True)
class Households:
    """Occupied housing units; the householder's place among the people is `start`, the partner's the next."""

    unit: Ints
    kind: Bytes
    band: Bytes
    size: Bytes
    start: Ints

    @property
    def couple(self) -> AnyArray:
        """Whether there is a spouse or partner."""
        return HAS_PARTNER[self.kind]


class Chances:
    """A column of random numbers for each decision about a person, so that no two decisions hang together."""

    def __init__(self, bits: Bits, n: int) -> None:
        self.role, self.age, self.spacing, self.child = bits.words(n)
        self.group, self.code, self.parent, self.ethnicity = bits.words(n)


class People:
    """Everyone in a chunk, in the order of the units: relationship, age, race and ethnicity, to be filled."""

    def __init__(self, unit: Ints, bits: Bits) -> None:
        n = len(unit)
        self.unit = unit
        self.relship: Bytes = np.zeros(n, dtype=np.uint8)
        self.age: Bytes = np.zeros(n, dtype=np.uint8)
        self.race: Bytes = np.zeros(n, dtype=np.uint8)
        self.ethnicity: Bytes = np.zeros(n, dtype=np.uint8)
        self.chances = Chances(bits, n)


def fill_households(homes: Households, people: People) -> None:
    """Set the relationship and age of everyone in a household."""
    age = ages.householder(homes.band, people.chances.age[homes.start])
    people.relship[homes.start], people.age[homes.start] = HOUSEHOLDER, age
    couple = homes.couple
    at = homes.start[couple] + 1
    partner = age.copy()
    partner[couple] = ages.fitting(int(Role.START), age[couple], people.chances.age[at])
    people.relship[at], people.age[at] = PARTNER[homes.kind[couple]], partner[couple]
    _fill_others(homes, people, age, partner)


def _fill_others(homes: Households, people: People, age: Bytes, partner: Bytes) -> None:
    """Place by place; `partner` is the householder's own age where there is none."""
    couple = homes.couple.astype(np.uint8)
    others = homes.size - 1 - couple
    members, parent = _MEMBERS[homes.kind], np.minimum(age, partner)
    before = np.full(len(age), Role.START, dtype=np.uint8)
    last_age, eldest = age.copy(), np.zeros(len(age), dtype=np.uint8)
    chances = people.chances
    place = 0
    who = np.flatnonzero(others > 0)
    while len(who):
        at = homes.start[who] + 1 + couple[who] + place
        role = roles.next_role(members[who], homes.size[who], homes.band[who], before[who], chances.role[at])
        grown = eldest[who] >= 18
        # No child-in-law where every child is young: one more child instead.
        role[(role == Role.CHILD_IN_LAW) & ~grown] = Role.CHILD
        # Grandchildren are children of a grown child at home, where there is one.
        by_child = grown & (role == Role.GRANDCHILD)
        fitted = _fitted(role, by_child, age[who], partner[who], eldest[who], last_age[who])
        new_age = ages.fitting(np.where(by_child, Role.CHILD, role), fitted, chances.age[at])
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
        place += 1
        who = who[others[who] > place]


def _fitted(role: Bytes, by_child: AnyArray, age: Bytes, partner: Bytes, eldest: Bytes, last_age: Bytes) -> Bytes:
    """The age that a new member's age must fit: the householder's, unless the role says otherwise."""
    fitted = age.copy()
    for rule, other in (
        (by_child | (role == Role.CHILD_IN_LAW), eldest),
        (role == Role.PARENT_IN_LAW, partner),
        ((role == Role.OTHER_PARENT) | (role == Role.OTHER_PARENT_IN_LAW), last_age),
    ):
        fitted[rule] = other[rule]
    return fitted


def fill_races(homes: Households, people: People, unit_group: Bytes, tables: races.Races) -> None:
    """Set the race and ethnicity of everyone, given the group of each unit (the householder's)."""
    start, couple = np.zeros(len(unit_group), dtype=np.int64), np.zeros(len(unit_group), dtype=bool)
    start[homes.unit], couple[homes.unit] = homes.start, homes.couple
    relship, chances, home_group = people.relship, people.chances, unit_group[people.unit]
    is_child = (relship >= 25) & (relship <= 27)
    chance = chances.group.copy()
    chance[is_child] = _of_home(chance, start, people.unit[is_child])
    group = tables.member_groups(races.CLOSENESS[relship], home_group, chance)
    people.race = tables.codes(group, chances.code)
    people.ethnicity = ((group & 1) + 1).astype(np.uint8)

    # The same "two or more" as the householder, for relatives in the householder's group.
    alike = np.flatnonzero((group == home_group) & (group >> 1 == TWO_OR_MORE) & (relship < 34))
    people.race[alike] = people.race[start[people.unit[alike]]]

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
    """The householder's random number, so that brothers and sisters share the outcome."""
    return chance[start[home]]
