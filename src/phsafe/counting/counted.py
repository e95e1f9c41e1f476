"""What the kernel finds: counts by code, and rows that break rules. It adds up over partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from phsafe.counting.records import Array

Severity = Literal["error", "warning", "note"]
#: Up to this many codes are counted in an array with a place for each; more in a list of the codes that occur.
DENSE = 2**20
#: Stands for the key of a row that has none; sorted last.
NO_KEY = 2**62


class Rule(NamedTuple):
    """A rule that rows of a table can break. `name` is what users read."""

    name: str
    severity: Severity
    table: str
    column: str


class Tally:
    """How often each code below `size` occurs. Codes from `size` up are ignored."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._dense = np.zeros(size, np.int64) if size <= DENSE else None
        self._codes = self._numbers = np.zeros(0, np.int64)

    def count(self, codes: Array) -> None:
        """Count each code once."""
        if self._dense is not None:
            self._dense += np.bincount(codes, minlength=self.size)[: self.size]
        else:
            self.add(*np.unique(codes[codes < self.size], return_counts=True))

    def add(self, codes: Array, numbers: Array) -> None:
        """Add numbers to distinct codes."""
        if self._dense is not None:
            self._dense[codes] += numbers
            return
        self._codes, position = np.unique(np.concatenate([self._codes, codes]), return_inverse=True)
        total = np.zeros(len(self._codes), np.int64)
        np.add.at(total, position, np.concatenate([self._numbers, numbers]))
        self._numbers = total

    def items(self) -> tuple[Array, Array]:
        """The codes that occur, and how often."""
        if self._dense is None:
            return self._codes, self._numbers
        codes = np.flatnonzero(self._dense)
        return codes, self._dense[codes]


class Counted:
    """What was found in some partitions."""

    def __init__(self, sizes: Mapping[str, int], universes: int, examples: int) -> None:
        """Begin with nothing; `sizes` has the number of codes of each tally."""
        #: Rows by table, rows without a key included; and the number of different keys.
        self.rows: Counter[str] = Counter()
        self.households = 0
        #: By rule, how many rows break it, and up to `examples` keys of theirs, the smallest ones.
        self.broken: Counter[Rule] = Counter()
        self.keys: dict[Rule, Array] = {}
        self._examples = examples
        self.tallies = {name: Tally(size) for name, size in sizes.items()}
        #: By universe, how many persons of countable households truncation drops.
        self.beyond = np.zeros(universes, np.int64)

    def note(self, rule: Rule, keys: Array, rows: int | None = None) -> None:
        """Record that rows with these keys break a rule: one row for each key, or so many."""
        if len(keys):
            self.broken[rule] += len(keys) if rows is None else rows
        if len(keys) and self._examples:
            known = [self.keys.get(rule, np.zeros(0, np.int64)), keys.astype(np.int64)]
            self.keys[rule] = np.unique(np.concatenate(known))[: self._examples]

    def __iadd__(self, other: Counted) -> Counted:
        self.rows += other.rows
        self.households += other.households
        for rule, rows in other.broken.items():
            self.broken[rule] += rows
            if rule in other.keys:
                self.note(rule, other.keys[rule], 0)
        for name, tally in self.tallies.items():
            tally.add(*other.tallies[name].items())
        self.beyond += other.beyond
        return self
