"""Step 2, households: the rows of one key, from all three tables, side by side.

Everything after this step looks at one household at a time: an entry of these arrays, and its persons. A key that
occurs more than once in units or in geo is no household in any tabulation (claim C1.3 of docs/privacy.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phsafe.counting.records import Array, Rows, gather
from phsafe.errors import PHSafeError

#: Keys are close together if they span no more numbers than this many times their own number.
CLOSE = 16


class OrderError(PHSafeError):
    """Rows are not in key order, or a key is in more than one partition."""


@dataclass(frozen=True)
class Households:
    """One entry for each key in any of the tables, in key order."""

    key: Array
    #: How many rows of each table have the key.
    units: Array
    geos: Array
    persons: Array
    #: The packed records of the unit and of geo: 0 if there is none, the largest of several.
    unit: Array
    geo: Array
    #: The positions of households with persons, how many each has, and the position of its first person row.
    inhabited: Array
    sizes: Array
    first_person: Array
    #: The position of each person row's household.
    of_person: Array

    def sums(self, per_person: Array) -> Array:
        """The sum over the persons of each household, modulo the width of the type."""
        sums = np.cumsum(per_person, dtype=per_person.dtype).take(self.first_person + self.sizes - 1)
        sums[1:] -= sums[:-1].copy()
        return _spread(len(self.key), self.inhabited, sums)


def group(persons: Rows, units: Rows, geo: Rows) -> Households:
    """Put the rows of each key side by side; an `OrderError` if a table is not in key order."""
    (p_keys, _, sizes), (u_keys, u_first, u_rows), (g_keys, g_first, g_rows) = map(_runs, (persons, units, geo))
    keys = u_keys if np.array_equal(u_keys, g_keys) else np.union1d(u_keys, g_keys)
    inhabited = _positions(keys, p_keys)
    if len(keys) == 0 or not bool((keys.take(inhabited, mode="clip") == p_keys).all()):
        keys = np.union1d(keys, p_keys)
        inhabited = _positions(keys, p_keys)

    def place(run_keys: Array, values: Array) -> Array:
        whole = len(run_keys) == len(keys)  # Then the table has all keys, in the same order.
        return values if whole else _spread(len(keys), _positions(keys, run_keys), values)

    first = np.cumsum(sizes) - sizes
    is_first = np.zeros(len(persons), np.int32)
    is_first[first[1:]] = 1
    return Households(
        keys, place(u_keys, u_rows), place(g_keys, g_rows), _spread(len(keys), inhabited, sizes),
        place(u_keys, _largest(units, u_first)), place(g_keys, _largest(geo, g_first)),
        inhabited, sizes, first, gather(inhabited, np.cumsum(is_first, dtype=np.int32)),
    )  # fmt: skip


def _spread(length: int, positions: Array, values: Array) -> Array:
    """Values at their positions, and 0 elsewhere."""
    found = np.zeros(length, values.dtype)
    found[positions] = values
    return found


def _runs(rows: Rows) -> tuple[Array, Array, Array]:
    """The distinct keys of a table in key order, the position of each one's first row, and its number of rows."""
    if not bool((rows.key[1:] >= rows.key[:-1]).all()):
        raise OrderError("expected rows in key order")
    first = np.flatnonzero(np.append(np.ones(min(1, len(rows)), dtype=bool), rows.key[1:] != rows.key[:-1]))
    return rows.key[first], first, np.diff(first, append=len(rows))


def _largest(rows: Rows, first: Array) -> Array:
    """The largest record of each run."""
    return rows.record if len(first) == len(rows) else np.maximum.reduceat(rows.record, first)


def _positions(keys: Array, wanted: Array) -> Array:
    """For each wanted key, its position among ascending keys, or any position if it isn't there.

    Keys that are close together are looked up in a table, which takes a third of the time of a binary search.
    """
    span = int(keys[-1]) - int(keys[0]) + 1 if len(keys) else 0
    if span == 0 or span > CLOSE * len(keys) or len(wanted) == 0:
        return np.searchsorted(keys, wanted)
    table = np.zeros(span, np.intp)
    table[keys - keys[0]] = np.arange(len(keys))
    return gather(table, np.clip(wanted, keys[0], keys[-1]) - keys[0])
