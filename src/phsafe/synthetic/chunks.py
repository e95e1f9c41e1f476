"""Compose one chunk of a state from its random bits: units, the people in them, and their geography."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from phsafe.synthetic import geocodes, group_quarters, household_types
from phsafe.synthetic.chunk_plan import Chunk
from phsafe.synthetic.derived_codes import unit_codes
from phsafe.synthetic.household_cells import SCALE_BITS, Cells, fit, seed
from phsafe.synthetic.household_members import HouseholdBatch, People, fill_households, fill_races
from phsafe.synthetic.races import Races
from phsafe.synthetic.random_draws import AnyArray, Bits, Bytes, Ints, LookupTable
from phsafe.synthetic.state_profiles import nation, profiles

#: In a chunk's list of units, numbers from 0 are cells; negative numbers mark the other units.
VACANT, QUARTERS = -1, -2
_FEMALE = np.array([household_type.female for household_type in household_types.HOUSEHOLD_TYPES])
_MOST_PEOPLE = household_types.LARGEST[-1][0]
#: People by size class: classes 1–7 are exact, a size is drawn within each of the two large classes.
_PEOPLE = LookupTable(
    [np.eye(_MOST_PEOPLE + 1)[size] for size in range(1, 8)]
    + [
        np.bincount([n for n, _ in odds], [weight for _, weight in odds], _MOST_PEOPLE + 1)
        for odds in (household_types.LARGE, household_types.LARGEST)
    ]
)

#: Table → column → numbers. Text columns hold indices into their code lists.
Tables = dict[str, dict[str, AnyArray]]


@dataclass(frozen=True)
class State:
    """The fitted tables that all chunks of a state share."""

    cells: Cells
    races: Races
    groups: LookupTable


@lru_cache(maxsize=2)
def state_tables(state: str) -> State:
    """Fit the tables of a state, once for all its chunks."""
    profile = profiles()[state]
    cells = fit(profile)
    return State(cells, Races(profile, nation(), cells.groups), LookupTable(cells.groups, bits=16))


def compose(chunk: Chunk) -> Tables:
    """Generate the rows of one chunk; the result depends on the chunk alone."""
    state = state_tables(chunk.state)
    bits = Bits(chunk.seed, chunk.state, chunk.number)
    unit_cell = _shuffled_units(chunk, state.cells, bits)
    occupied = np.flatnonzero(unit_cell >= 0)
    cell = unit_cell[occupied]
    traits = seed()
    size = _PEOPLE.draw(traits.size[cell], bits.words(len(cell))[0])
    quartered = np.flatnonzero(unit_cell == QUARTERS)
    chances = bits.words(len(quartered))
    quarter_type, quarter_size = group_quarters.types_and_sizes(*chances[:3])

    population = np.zeros(len(unit_cell), dtype=np.int64)
    population[occupied], population[quartered] = size, quarter_size
    start = np.cumsum(population) - population
    homes = HouseholdBatch(occupied, traits.household_type[cell], traits.age[cell], size, start[occupied])
    people = People(np.repeat(np.arange(len(unit_cell)), population), bits)
    fill_households(homes, people)
    _fill_quarters(people, start[quartered], quarter_type, quarter_size)
    unit_group = np.zeros(len(unit_cell), dtype=np.uint8)
    unit_group[occupied] = traits.group[cell]
    unit_group[quartered] = state.groups.draw(0, chances[3])
    fill_races(homes, people, unit_group, state.races)
    return _tables(chunk, unit_cell, population, homes, people)


def _shuffled_units(chunk: Chunk, cells: Cells, bits: Bits) -> AnyArray:
    """The cell of each unit (or VACANT, QUARTERS), in address order."""
    offset = int(bits.raw(1)[0]) >> (64 - SCALE_BITS)
    count = cells.allot(chunk.households, offset)
    cell = np.repeat(np.arange(len(count), dtype=np.int32), count)
    rest = np.repeat(np.array([VACANT, QUARTERS], dtype=np.int32), [chunk.vacant, chunk.quarters])
    return bits.shuffled(np.concatenate([cell, rest]))


def _fill_quarters(people: People, start: Ints, quarter_type: Bytes, size: Ints) -> None:
    """Set the relationship and age of everyone in group quarters."""
    type_of_person = np.repeat(quarter_type, size)
    offset = np.cumsum(size) - size
    at = np.repeat(start - offset, size) + np.arange(len(type_of_person))
    people.relship[at] = group_quarters.RELSHIP[type_of_person]
    people.age[at] = group_quarters.ages(type_of_person, people.chances.age[at])


def _tables(chunk: Chunk, unit_cell: AnyArray, population: Ints, homes: HouseholdBatch, people: People) -> Tables:
    number = np.arange(len(unit_cell))
    mafid = (chunk.first_mafid + number).astype(np.int32)
    in_quarters = unit_cell == QUARTERS
    rtype = np.where(in_quarters, np.int8(4), np.int8(2))
    units = {"RTYPE": rtype, "MAFID": mafid, "FINAL_POP": population.astype(np.int32)}
    for name, values in _derived(homes, people, seed().tenure[unit_cell[homes.unit]] + 1).items():
        units[name] = np.zeros(len(unit_cell), dtype=np.int8)  # not in universe, unless occupied
        units[name][homes.unit] = values
    return {
        "persons": {
            "RTYPE": np.where(in_quarters, np.int8(5), np.int8(3))[people.unit],
            "MAFID": mafid[people.unit],
            "QAGE": people.age.view(np.int8),
            "CENHISP": people.ethnicity.view(np.int8),
            "CENRACE": people.race.view(np.int8),
            "RELSHIP": people.relship.view(np.int8),
        },
        "units": units,
        "geo": {"RTYPE": rtype, "MAFID": mafid, **geocodes.columns(chunk.first_position + number)},
    }


def _derived(homes: HouseholdBatch, people: People, tenure: Bytes) -> dict[str, Bytes]:
    """The codes of occupied units in layout order; all but tenure are derived from the members."""
    at_home = people.relship < group_quarters.RELSHIP.min()
    start = np.cumsum(homes.size, dtype=np.int64) - homes.size
    codes = unit_codes(people.relship[at_home], people.age[at_home], start, _FEMALE[homes.household_type])
    return {
        "NPF": codes.npf,
        "HHSPAN": people.ethnicity[homes.start],
        "HHRACE": people.race[homes.start],
        "TEN": tenure,
        "HHT": codes.hht,
        "HHT2": codes.hht2,
        "CPLT": codes.cplt,
    }
