"""One chunk of a state, composed from random bits: units, the people in them, and where they are.

Everything is arrays over households or people; the only loop is over the places in a household (the
third person of every household that has one, then the fourth, …).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from phsafe.synth import ages, kinds, places, quarters, races, roles
from phsafe.synth.cells import SCALE_BITS, Cells, fit, seed
from phsafe.synth.derive import unit_codes
from phsafe.synth.draws import AnyArray, Bits, Bytes, Ints, Table, Words
from phsafe.synth.plan import Chunk
from phsafe.synth.profile import nation, profiles
from phsafe.synth.roles import Role

#: In a chunk's list of units, numbers from 0 are cells; these stand for the rest.
VACANT, QUARTERS = -1, -2

_COUPLE = np.array([kind.couple for kind in kinds.KINDS])
_FEMALE = np.array([kind.female for kind in kinds.KINDS])
_MEMBERS = np.array([kind.members for kind in kinds.KINDS], dtype=np.uint8)
#: RELSHIP of the spouse or partner, by kind.
_PARTNER = np.array([{1: 21, 2: 23, 3: 22, 4: 24}.get(kind.cplt, 0) for kind in kinds.KINDS], dtype=np.uint8)
#: People by size class; small classes have one number, large ones are drawn.
_PEOPLE = Table(
    [np.eye(21)[size] for size in range(1, 8)]
    + [np.bincount([n for n, _ in odds], [w for _, w in odds], 21) for odds in (kinds.LARGE, kinds.LARGEST)]
)
#: Biological, adopted, stepchild: without and with a spouse or partner in the household.
_CHILD = Table([[97.0, 3.0, 0.0], [92.5, 2.5, 5.0]])

Tables = dict[str, dict[str, AnyArray]]


@dataclass(frozen=True)
class State:
    """What a state's chunks have in common."""

    cells: Cells
    races: races.Races


@lru_cache(maxsize=2)
def state_tables(state: str) -> State:
    """Fitted once for all chunks of a state."""
    profile = profiles()[state]
    cells = fit(profile)
    return State(cells, races.Races(profile, nation(), cells.groups))


@dataclass
class Households:
    """The occupied housing units of a chunk. `start` is the householder's place in the arrays of people."""

    unit: Ints
    cell: Ints
    kind: Bytes
    band: Bytes
    size: Bytes
    start: Ints


@dataclass
class People:
    """Arrays over the people of a chunk, to be filled."""

    relship: Bytes
    age: Bytes
    bits: tuple[Words, Words, Words, Words]


def compose(chunk: Chunk) -> Tables:
    """The rows of one chunk: table → column → numbers (for text columns, indices into their code lists)."""
    state = state_tables(chunk.state)
    bits = Bits(chunk.seed, chunk.state, chunk.number)
    unit_cell = _shuffled_units(chunk, state.cells, bits)
    occupied = np.flatnonzero(unit_cell >= 0)
    quartered = np.flatnonzero(unit_cell == QUARTERS)
    homes = _households(unit_cell, occupied, bits)
    quarter_type, quarter_size = quarters.types_and_sizes(*bits.words(len(quartered))[:3])

    population = np.zeros(len(unit_cell), dtype=np.int64)
    population[occupied] = homes.size
    population[quartered] = quarter_size
    start = np.cumsum(population) - population
    total = int(population.sum())
    homes.start = start[occupied]
    people = People(np.zeros(total, np.uint8), np.zeros(total, np.uint8), bits.words(total))
    _fill_households(homes, people, bits)
    quarter_people = _within(start[quartered], quarter_size)
    quarter_type_of = np.repeat(quarter_type, quarter_size)
    people.relship[quarter_people] = quarters.RELSHIP[quarter_type_of]
    people.age[quarter_people] = quarters.ages(quarter_type_of, people.bits[1][quarter_people])

    unit_group = np.zeros(len(unit_cell), dtype=np.uint8)
    unit_group[occupied] = seed().group[homes.cell]
    quarter_group = Table(state.races.groups, bits=16).draw(0, bits.words(len(quartered))[0])
    unit_group[quartered] = quarter_group
    unit_of = np.repeat(np.arange(len(unit_cell)), population)
    race, ethnicity = _races(state.races, homes, people, unit_group, unit_of)
    position = chunk.first_position + np.arange(len(unit_cell))
    mafid = (chunk.first_mafid + np.arange(len(unit_cell))).astype(np.int32)
    in_quarters = unit_cell == QUARTERS
    rtype = np.where(in_quarters, 4, 2).astype(np.int8)
    units = {"RTYPE": rtype, "MAFID": mafid, "FINAL_POP": population.astype(np.int32)}
    units |= _unit_columns(homes, people, race, ethnicity, len(unit_cell))
    return {
        "persons": {
            "RTYPE": np.where(in_quarters, 5, 3).astype(np.int8)[unit_of],
            "MAFID": mafid[unit_of],
            "QAGE": people.age.view(np.int8),
            "CENHISP": ethnicity.view(np.int8),
            "CENRACE": race.view(np.int8),
            "RELSHIP": people.relship.view(np.int8),
        },
        "units": units,
        "geo": {"RTYPE": rtype, "MAFID": mafid, **places.columns(position)},
    }


def _shuffled_units(chunk: Chunk, cells: Cells, bits: Bits) -> AnyArray:
    """The cell of each unit (or VACANT, QUARTERS) in the order of addresses."""
    offset = int(bits.raw(1)[0]) >> (64 - SCALE_BITS)
    count = cells.allot(chunk.households, offset)
    cell = np.repeat(np.arange(len(count), dtype=np.int32), count)
    rest = np.repeat(np.array([VACANT, QUARTERS], dtype=np.int32), [chunk.vacant, chunk.quarters])
    return bits.shuffled(np.concatenate([cell, rest]))


def _households(unit_cell: AnyArray, occupied: Ints, bits: Bits) -> Households:
    cell = unit_cell[occupied]
    traits = seed()
    size = _PEOPLE.draw(traits.size[cell], bits.words(len(cell))[0])
    return Households(occupied, cell, traits.kind[cell], traits.age[cell], size, occupied)


def _fill_households(homes: Households, people: People, bits: Bits) -> None:
    """Set relationship and age of everyone in a household."""
    age = ages.householder(homes.band, people.bits[1][homes.start])
    people.relship[homes.start], people.age[homes.start] = 20, age
    couple = _COUPLE[homes.kind]
    at = homes.start[couple] + 1
    people.relship[at] = _PARTNER[homes.kind[couple]]
    partner = age.copy()
    partner[couple] = ages.fitting(int(Role.START), age[couple], people.bits[1][at])
    people.age[at] = partner[couple]
    younger = np.minimum(age, partner)

    before = np.full(len(age), Role.START, dtype=np.uint8)
    last_age, eldest = age.copy(), np.zeros(len(age), dtype=np.uint8)
    others = homes.size - 1 - couple
    members, step = _MEMBERS[homes.kind], couple.astype(np.uint8)
    who = np.flatnonzero(others > 0)
    place = 0
    while len(who):
        at = homes.start[who] + 1 + step[who] + place
        u, v, _, w = (word[at] for word in people.bits)
        role = roles.next_role(members[who], homes.size[who], homes.band[who], before[who], u)
        # No child-in-law where every child is young: another relative instead.
        role[(role == Role.CHILD_IN_LAW) & (eldest[who] < 18)] = Role.OTHER_RELATIVE
        child, grown = role == Role.CHILD, eldest[who] >= 18
        # Grandchildren are children of a grown child at home, where there is one.
        rule = np.where((role == Role.GRANDCHILD) & grown, Role.CHILD, role)
        fit_to = _fitted_to(role, grown, age[who], partner[who], eldest[who], last_age[who])
        new_age = ages.fitting(rule, fit_to, v)
        children = who[child]
        new_age[child] = ages.of_child(
            younger[children], eldest[children], before[children] != Role.CHILD, v[child], u[child]
        )
        eldest[children] = np.maximum(eldest[children], new_age[child])
        relship = roles.RELSHIP[role]
        relship[child] += _CHILD.draw(step[children], w[child])
        people.relship[at], people.age[at] = relship, new_age
        before[who], last_age[who] = role, new_age
        place += 1
        who = who[others[who] > place]


def _fitted_to(
    role: Bytes, grown: AnyArray, age: Bytes, partner: Bytes, eldest: Bytes, last_age: Bytes
) -> Bytes:
    """The age that a new member's age must fit: the householder's, unless the role says otherwise."""
    fit_to = age.copy()
    by_child = (role == Role.CHILD_IN_LAW) | ((role == Role.GRANDCHILD) & grown)
    fit_to[by_child] = eldest[by_child]
    by_partner = role == Role.PARENT_IN_LAW
    fit_to[by_partner] = partner[by_partner]
    by_last = (role == Role.OTHER_PARENT) | (role == Role.OTHER_PARENT_IN_LAW)
    fit_to[by_last] = last_age[by_last]
    return fit_to


def _races(
    tables: races.Races, homes: Households, people: People, unit_group: Bytes, unit_of: Ints
) -> tuple[Bytes, Bytes]:
    """Race code and ethnicity of everyone."""
    u, v, w, x = people.bits
    home_group = unit_group[unit_of]
    group = tables.member_groups(races.CLOSENESS[people.relship], home_group, w)
    # x of the householder's place serves no other purpose, nor does v of others' places in group 2+.
    race = tables.codes(group, x)
    ethnicity = (group & 1) + np.uint8(1)
    start_of = np.zeros(len(unit_group), dtype=np.int64)
    start_of[homes.unit] = homes.start
    alike = np.flatnonzero((group == home_group) & (group >> 1 == kinds.TWO_OR_MORE) & (people.relship < 34))
    race[alike] = race[start_of[unit_of[alike]]]

    couple = np.zeros(len(unit_group), dtype=bool)
    couple[homes.unit] = _COUPLE[homes.kind]
    of_couple = (people.relship >= 25) & (people.relship <= 31) & couple[unit_of]
    child = np.flatnonzero(of_couple & (people.relship <= 27))
    first = start_of[unit_of[child]]
    race[child] = races.of_children(race[first], race[first + 1], v[child])
    ethnicity[child] = races.ethnicity_of_children(ethnicity[first], ethnicity[first + 1], u[child])
    in_law = np.flatnonzero(of_couple & (people.relship == 31))
    partner = start_of[unit_of[in_law]] + 1
    race[in_law], ethnicity[in_law] = race[partner], ethnicity[partner]
    return race, ethnicity


def _unit_columns(
    homes: Households, people: People, race: Bytes, ethnicity: Bytes, n: int
) -> dict[str, AnyArray]:
    """The columns of units that follow from the members; 0 in vacant units and group quarters."""
    in_home = people.relship < 37
    if in_home.all():
        starts = homes.start
    else:
        starts = (np.cumsum(in_home) - 1)[homes.start]
    codes = unit_codes(people.relship[in_home], people.age[in_home], starts, _FEMALE[homes.kind])
    occupied = {
        "NPF": codes.npf,
        "HHSPAN": ethnicity[homes.start],
        "HHRACE": race[homes.start],
        "TEN": seed().tenure[homes.cell] + 1,
        "HHT": codes.hht,
        "HHT2": codes.hht2,
        "CPLT": codes.cplt,
    }
    result: dict[str, AnyArray] = {}
    for name, values in occupied.items():
        column = np.zeros(n, dtype=np.int8)
        column[homes.unit] = values
        result[name] = column
    return result


def _within(starts: Ints, counts: Ints) -> Ints:
    """The places starts[i], starts[i] + 1, … of counts[i] people each, one after the other."""
    offset = np.cumsum(counts) - counts
    return np.repeat(starts - offset, counts) + np.arange(int(counts.sum()))
