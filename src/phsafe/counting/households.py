"""Step 2, households: the rows of one key, from all three tables, side by side.

Everything after this step looks at one household at a time: a row of these arrays and its persons. A key that
occurs more than once in units or in geo is no household in any tabulation (claim C1.3 of docs/privacy.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phsafe.counting.records import Array, Rows, gather
from phsafe.errors import PHSafeError

#: Keys lie close together if they span no more numbers than this many times their own number.
CLOSE = 16


class OrderError(PHSafeError):
    """Rows are not in key order, or a key is in more than one partition."""


@dataclass(frozen=True)
class Households:
    """One entry for each key in any of the tables.

    Attributes:
        key: The keys, ascending.
        units: The number of unit rows with that key.
        geos: The number of geo rows with that key.
        persons: The number of person rows with that key.
        unit: The packed unit record; 0 where there is none, the largest of several.
        geo: The packed geo record, likewise.
        inhabited: The positions of the households that have persons.
        first_person: For each of those, the position of its first person row.

    """

    key: Array
    units: Array
    geos: Array
    persons: Array
    unit: Array
    geo: Array
    inhabited: Array
    sizes: Array
    first_person: Array
    of_person: Array

    @classmethod
    def of(
        cls, key: Array, units: Array, geos: Array, unit: Array, geo: Array, inhabited: Array, sizes: Array
    ) -> Households:
        """Add what follows from the rest."""
        persons = np.zeros(len(key), np.int64)
        persons[inhabited] = sizes
        first = np.cumsum(sizes) - sizes
        is_first = np.zeros(int(sizes.sum()), np.int32)
        is_first[first[1:]] = 1
        of_person = inhabited.take(np.cumsum(is_first, dtype=np.int32).astype(np.intp))
        return cls(key, units, geos, persons, unit, geo, inhabited, sizes, first, of_person)

    def sums(self, per_person: Array) -> Array:
        """The sum over the persons of each household, modulo the width of the type."""
        sums = np.cumsum(per_person, dtype=per_person.dtype).take(self.first_person + self.sizes - 1)
        sums[1:] -= sums[:-1].copy()
        return self.spread(sums)

    def spread(self, per_inhabited: Array) -> Array:
        """A value for each inhabited household as a value for every household, 0 for the others."""
        found = np.zeros(len(self.key), per_inhabited.dtype)
        found[self.inhabited] = per_inhabited
        return found


def group(persons: Rows, units: Rows, geo: Rows) -> Households:
    """Put the rows of each key side by side.

    Args:
        persons: Person rows in key order.
        units: Unit rows in key order.
        geo: Geo rows in key order.

    Raises:
        OrderError: Rows are not in key order.

    """
    (p_keys, _, sizes), (u_keys, u_first, u_rows), (g_keys, g_first, g_rows) = map(
        _runs, (persons, units, geo)
    )
    keys = _merged(u_keys, g_keys)
    inhabited = _positions(keys, p_keys)
    if not bool((keys.take(inhabited, mode="clip") == p_keys).all() if len(keys) else len(p_keys) == 0):
        keys = np.union1d(keys, p_keys)
        inhabited = _positions(keys, p_keys)

    def place(run_keys: Array, values: Array) -> Array:
        if len(run_keys) == len(keys):  # All keys are in this table, in the same order.
            return values
        found = np.zeros(len(keys), values.dtype)
        found[_positions(keys, run_keys)] = values
        return found

    return Households.of(
        keys, place(u_keys, u_rows), place(g_keys, g_rows),
        place(u_keys, _largest(units, u_first)), place(g_keys, _largest(geo, g_first)), inhabited, sizes,
    )  # fmt: skip


def _runs(rows: Rows) -> tuple[Array, Array, Array]:
    """The distinct keys of a table in key order, the position of each one's first row, and its number of rows."""
    key = rows.key
    if len(key) == 0:
        return key, np.zeros(0, np.int64), np.zeros(0, np.int64)
    is_first = np.empty(len(key), dtype=bool)
    is_first[0] = True
    np.not_equal(key[1:], key[:-1], out=is_first[1:])
    if not bool((key[1:] >= key[:-1]).all()):
        raise OrderError("expected rows in key order")
    first = np.flatnonzero(is_first)
    return key[first], first, np.diff(first, append=len(key))


def _largest(rows: Rows, first: Array) -> Array:
    """The largest record of each run."""
    return rows.record if len(first) == len(rows) else np.maximum.reduceat(rows.record, first)


def _merged(one: Array, other: Array) -> Array:
    """All keys of two ascending lists. Usually they are the same."""
    return one if np.array_equal(one, other) else np.union1d(one, other)


def _positions(keys: Array, wanted: Array) -> Array:
    """For each wanted key, its position among ascending keys, or any position if it isn't there.

    Keys that lie close together are looked up in a table, which takes a third of the time of a binary search.
    """
    span = int(keys[-1]) - int(keys[0]) + 1 if len(keys) else 0
    if span > CLOSE * len(keys) or len(keys) == 0 or len(wanted) == 0:
        return np.searchsorted(keys, wanted)
    table = np.zeros(span, np.int32)
    table[keys - keys[0]] = np.arange(len(keys), dtype=np.int32)
    return gather(table, np.clip(wanted, keys[0], keys[-1]) - keys[0]).astype(np.intp)
