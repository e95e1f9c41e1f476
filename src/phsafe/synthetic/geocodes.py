"""Geography of the units: plausible (not real) counties, tracts and blocks, filled in address order."""

from __future__ import annotations

import numpy as np

from phsafe.model.schema import PUERTO_RICO
from phsafe.synthetic.random_draws import AnyArray, Ints

UNITS_PER_BLOCK = 24
BLOCKS_PER_GROUP = 20
GROUPS_PER_TRACT = 4
TRACTS_PER_COUNTY = 50

#: The states (FIPS codes) of each Census division.
DIVISIONS = {
    "1": "09 23 25 33 44 50",
    "2": "34 36 42",
    "3": "17 18 26 39 55",
    "4": "19 20 27 29 31 38 46",
    "5": "10 11 12 13 24 37 45 51 54",
    "6": "01 21 28 47",
    "7": "05 22 40 48",
    "8": "04 08 16 30 32 35 49 56",
    "9": "02 06 15 41 53",
}
#: The Census region of each division.
REGION_OF_DIVISION = {
    "1": "1",
    "2": "1",
    "3": "2",
    "4": "2",
    "5": "3",
    "6": "3",
    "7": "3",
    "8": "4",
    "9": "4",
}
DIVISION_OF_STATE = {state: division for division, states in DIVISIONS.items() for state in states.split()}

BLOCKS = tuple(f"{group}{block:03d}" for group in range(1, GROUPS_PER_TRACT + 1) for block in range(BLOCKS_PER_GROUP))
BLOCK_GROUPS = tuple(str(group) for group in range(1, GROUPS_PER_TRACT + 1))
TRACTS = tuple(f"{tract:04d}00" for tract in range(1, TRACTS_PER_COUNTY + 1))
#: County codes are odd numbers; this list is longer than any state needs.
COUNTIES = tuple(f"{county:03d}" for county in range(1, 1000, 2))
NO_PLACE, NO_AREA = "99999", "9999"


def division(state: str) -> str:
    """The Census division of a state; 0 for Puerto Rico, which belongs to none."""
    return "0" if state == PUERTO_RICO else DIVISION_OF_STATE[state]


def region(state: str) -> str:
    """The Census region of a state; 9 for Puerto Rico."""
    return "9" if state == PUERTO_RICO else REGION_OF_DIVISION[division(state)]


def columns(position: Ints) -> dict[str, AnyArray]:
    """Indices into the code lists above, for units at these positions (from 0) in their state."""
    block = position // UNITS_PER_BLOCK
    group = block // BLOCKS_PER_GROUP
    tract = group // GROUPS_PER_TRACT
    county = tract // TRACTS_PER_COUNTY
    return {
        # A state with more units than 500 counties can hold starts again at the first county.
        "TABBLKCOU": (county % len(COUNTIES)).astype(np.int16),
        "TABTRACTCE": (tract % TRACTS_PER_COUNTY).astype(np.int8),
        "TABBLK": (block % len(BLOCKS)).astype(np.int8),
        "TABBLKGRPCE": (group % GROUPS_PER_TRACT).astype(np.int8),
    }
