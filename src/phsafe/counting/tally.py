"""Counts by code that add up over partitions."""

from __future__ import annotations

import numpy as np

from phsafe.counting.records import Array

#: Up to this many codes are counted in an array with a place for each; more in a list of the codes that occur.
DENSE = 2**20


class Tally:
    """How often each code below `size` occurs. Codes from `size` up are ignored."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._dense = np.zeros(size, np.int64) if size <= DENSE else None
        self._codes = np.zeros(0, np.int64)
        self._numbers = np.zeros(0, np.int64)

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
