"""Rows by state, for the people who prepare the data: is a state missing, or a part of it? Confidential."""

from __future__ import annotations

import numpy as np

from phsafe.counting.households import Households
from phsafe.counting.records import Array
from phsafe.counting.tallies import STATE_ROWS, Counted

PERSONS, UNITS, HOUSING_UNITS, HOUSEHOLDS = range(len(STATE_ROWS))


def count_rows(h: Households, state: Array, counted: Counted) -> None:
    """Count the rows of persons and units in each state."""
    size = len(counted.by_state)
    for column, rows in ((PERSONS, h.persons), (UNITS, h.units)):
        # The sums are whole numbers far below 2**53, so floating point holds them exactly.
        counted.by_state[:, column] += np.bincount(state, rows, size).astype(np.int64)


def count_housing(state: Array, countable: Array, occupied: Array, counted: Counted) -> None:
    """Count the countable housing units in each state, and the occupied ones among them."""
    kinds = 3
    kind = countable * (1 + occupied.astype(np.int64))
    found = np.bincount(state * np.int64(kinds) + kind, minlength=kinds * len(counted.by_state)).reshape(-1, kinds)
    counted.by_state[:, HOUSING_UNITS] += found[:, 1] + found[:, 2]
    counted.by_state[:, HOUSEHOLDS] += found[:, 2]
