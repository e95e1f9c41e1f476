"""The results of counting: counts by code and rule violations. Results of partitions can be added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from phsafe.counting.records import Array
from phsafe.model.schema import STATES

Severity = Literal["error", "warning", "note"]
#: Up to this many codes, a tally is an array with one entry per code; above, a list of the codes that occur.
DENSE = 2**20
#: In place of the key of a row without one; it sorts last.
NO_KEY = 2**62
#: What is counted in each state: rows of persons and of units, housing units of the filter, and the occupied of these.
STATE_ROWS = ("persons", "units", "housing_units", "households")


class Rule(NamedTuple):
    """A validation rule about the rows of a table. `name` is the text shown to users."""

    name: str
    severity: Severity
    table: str
    column: str


class Tally:
    """How often each code below `size` occurs. Larger codes are ignored."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._dense = np.zeros(size, np.int64) if size <= DENSE else None
        self._codes = self._numbers = np.zeros(0, np.int64)

    def count(self, codes: Array) -> None:
        """Count every entry of an array of codes."""
        if self._dense is not None:
            self._dense += np.bincount(codes, minlength=self.size)[: self.size]
        else:
            self.add(*np.unique(codes[codes < self.size], return_counts=True))

    def add(self, codes: Array, numbers: Array) -> None:
        """Add to the counts of distinct codes."""
        if self._dense is not None:
            self._dense[codes] += numbers
            return
        self._codes, position = np.unique(np.concatenate([self._codes, codes]), return_inverse=True)
        total = np.zeros(len(self._codes), np.int64)
        np.add.at(total, position, np.concatenate([self._numbers, numbers]))
        self._numbers = total

    def items(self) -> tuple[Array, Array]:
        """The codes that occur, and how often each does."""
        if self._dense is None:
            return self._codes, self._numbers
        codes = np.flatnonzero(self._dense)
        return codes, self._dense[codes]


class Counted:
    """The result of counting one or more partitions."""

    def __init__(self, sizes: Mapping[str, int], universes: int, examples: int) -> None:
        """Start with zero counts; `sizes` maps the name of each tally to its number of codes."""
        #: The number of rows of each table, including rows without a key, and the number of distinct keys.
        self.rows: Counter[str] = Counter()
        self.households = 0
        #: The rows of each state, by its code and the column of `STATE_ROWS`; code 0 holds rows without a known state.
        self.by_state = np.zeros((1 + len(STATES), len(STATE_ROWS)), np.int64)
        #: For each rule, how many rows violate it, and the keys of up to `examples` of them, smallest first.
        self.violations: Counter[Rule] = Counter()
        self.keys: dict[Rule, Array] = {}
        self._examples = examples
        self.tallies = {name: Tally(size) for name, size in sizes.items()}
        #: For each universe, how many persons of countable households truncation drops.
        self.beyond = np.zeros(universes, np.int64)

    def note(self, rule: Rule, keys: Array, rows: int | None = None) -> None:
        """Record that rows with these keys violate a rule: `rows` of them, by default one for each key."""
        if len(keys):
            self.violations[rule] += len(keys) if rows is None else rows
        if len(keys) and self._examples:
            known = [self.keys.get(rule, np.zeros(0, np.int64)), keys.astype(np.int64)]
            self.keys[rule] = np.unique(np.concatenate(known))[: self._examples]

    def __iadd__(self, other: Counted) -> Counted:
        self.rows += other.rows
        self.households += other.households
        self.by_state += other.by_state
        for rule, rows in other.violations.items():
            self.violations[rule] += rows
            if rule in other.keys:
                self.note(rule, other.keys[rule], 0)
        for name, tally in self.tallies.items():
            tally.add(*other.tallies[name].items())
        self.beyond += other.beyond
        return self
