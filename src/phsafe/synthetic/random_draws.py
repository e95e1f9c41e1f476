"""Seeded random draws that are identical on every machine: raw counter-based bits and integer lookup tables.

Floating-point functions can differ in the last digit between machines, and one such digit can turn a child into an
adult. So no category is chosen by comparing floats at run time. Weights are converted once to a table of 2**bits
slots, using only additions, multiplications and divisions (which IEEE 754 defines exactly), and a draw is an index
into that table.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint16]
Floats = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]


class Bits:
    """The random bits of one chunk: a function of (seed, state, chunk) and nothing else."""

    def __init__(self, seed: int, state: str, chunk: int) -> None:
        # NumPy guarantees the generator's raw output across versions, but not its distributions.
        self._philox = np.random.Philox(np.random.SeedSequence([seed, int(state), chunk]))

    def raw(self, n: int) -> npt.NDArray[np.uint64]:
        """Return `n` words of 64 random bits."""
        return np.asarray(self._philox.random_raw(n), dtype="<u8")

    def words(self, n: int) -> list[Words]:
        """Return four columns of `n` words of 16 random bits."""
        columns = self.raw(n).view("<u2").reshape(n, 4)
        return [np.ascontiguousarray(columns[:, i]) for i in range(4)]

    def shuffled(self, values: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Return the values in random order."""
        # Random high bits above the position: keys are unique, so every sorting algorithm gives the same order.
        n = np.uint64(len(values))
        width = np.uint64(max(1, int(n).bit_length()))
        keys = (self.raw(len(values)) >> width << width) | np.arange(n, dtype=np.uint64)
        keys.sort()
        order = (keys & ((np.uint64(1) << width) - np.uint64(1))).astype(np.int64)
        return values[order]


class LookupTable:
    """Rows of weights over categories, tabulated as slots, from which 16 random bits draw a category.

    Each row has 2**bits slots, divided among the categories in proportion to their weights.

    >>> table = LookupTable([[1, 3], [1, 0]], bits=2)
    >>> table.slots.reshape(2, 4).tolist()
    [[0, 1, 1, 1], [0, 0, 0, 0]]
    >>> u = np.array([0, 20000], dtype=np.uint16)
    >>> table.draw(np.array([0, 0]), u).tolist()
    [0, 1]
    """

    def __init__(self, weights: npt.ArrayLike, bits: int = 12) -> None:
        rows = np.atleast_2d(np.asarray(weights, dtype=np.float64))
        self.bits = bits
        self.slots: Bytes = np.concatenate([_slots(row, 1 << bits) for row in rows])

    def draw(self, row: AnyArray | int, u: Words) -> Bytes:
        """Draw one category for each random word in `u`, using its row of weights."""
        index = (u >> (16 - self.bits)).astype(np.int64)
        if isinstance(row, int):
            index += row << self.bits
        else:
            index += row.astype(np.int64) << self.bits
        return self.slots.take(index)


def piecewise_linear(x: npt.ArrayLike, knots: tuple[float, ...], values: tuple[float, ...]) -> Floats:
    """Interpolate linearly between the knots, constant outside: `np.interp` without fused multiply-add.

    >>> piecewise_linear([0, 15, 99], (10, 20), (0, 1)).tolist()
    [0.0, 0.5, 1.0]
    """
    at = np.clip(np.asarray(x, dtype=np.float64), knots[0], knots[-1])
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    xs, ys = np.array(knots, dtype=np.float64), np.array(values, dtype=np.float64)
    share = (at - xs[left]) / (xs[left + 1] - xs[left])
    step = share * (ys[left + 1] - ys[left])
    result: Floats = ys[left] + step
    return result


def _slots(weights: Floats, n: int) -> Bytes:
    """Divide `n` slots in proportion to the weights; a row of zeros gets category 0 only."""
    sums = np.cumsum(weights)
    if sums[-1] == 0:
        return np.zeros(n, dtype=np.uint8)
    edges = np.floor(sums * n / sums[-1] + 0.5).astype(np.int64)
    return np.repeat(np.arange(len(weights), dtype=np.uint8), np.diff(edges, prepend=0))
