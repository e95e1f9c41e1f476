"""Rounding for publication: whole counts, and averages with the decimals that their intervals support."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from phsafe.estimation.averages import Bounds
from phsafe.estimation.densities import Array
from phsafe.estimation.table_lines import Ratio

#: Estimate, lower bound, upper bound and standard error, each groups × lines.
Summary = tuple[Array, Array, Array, Array]
#: Limits on the decimals of an average. Within them, the interval of the total line spans at least ten steps.
FEWEST, MOST = 1, 6
EXACT = 1e-9
#: Significant digits of a standard error.
DIGITS = 4


def whole(estimate: Array, lower: Array, upper: Array, error: Array) -> Summary:
    """Round bounds outwards to whole, non-negative numbers that enclose the whole-number estimate."""
    low = np.minimum(np.maximum(np.floor(lower + EXACT), 0), estimate)
    return estimate, low, np.maximum(np.ceil(upper - EXACT), estimate), significant(error)


def significant(values: Array) -> Array:
    """Round to a few significant digits.

    >>> significant(np.array([1234.56, 0.00123456])).tolist()
    [1235.0, 0.001235]
    """
    places = DIGITS - 1 - np.floor(np.log10(np.maximum(np.abs(values), EXACT)))
    return np.array([round(float(v), int(p)) for v, p in zip(values.flat, places.flat, strict=True)]).reshape(
        values.shape
    )


def rounded(ratio: Ratio, bounds: Bounds, summary: Summary) -> Summary:
    """Round a summary to a number of decimals chosen per group, so that its lines add up exactly as printed.

    The total is rounded to the nearest step, each part to one of the two steps next to it, and bounds outwards.
    """
    estimate, lower, upper, error = summary
    parts = [next(i for i, (_, line) in enumerate(ratio.lines) if line == (p,)) for p in range(len(ratio.parts))]
    whole_line = max(range(len(ratio.lines)), key=lambda i: len(ratio.lines[i][1]))
    width = (upper - lower)[:, [whole_line]]
    steps = 10.0 ** np.clip(1 - np.floor(np.log10(np.maximum(width, EXACT))), FEWEST, MOST)
    counts = _whole_parts(estimate[:, parts] * steps)
    sums = np.stack([counts[:, list(line)].sum(axis=1) for _, line in ratio.lines], axis=1)
    least = np.array([bounds.at_least if len(line) == len(parts) else 0 for _, line in ratio.lines])
    low = np.maximum(np.floor(lower * steps + EXACT), least * steps)
    high = np.minimum(np.ceil(upper * steps - EXACT), bounds.tau * steps)
    return sums / steps, np.minimum(low, sums) / steps, np.maximum(high, sums) / steps, significant(error)


def bracketed(ratios: Sequence[Ratio], summaries: Sequence[Summary]) -> list[Summary]:
    """Keep an average over all units between the averages over their parts, as it must be.

    Where it is not, the part nearest to it moves: the average over all units is known best.
    """
    found = list(summaries)
    whole_ratio = max(range(len(ratios)), key=lambda i: len(ratios[i].per))
    parts = [i for i, ratio in enumerate(ratios) if set(ratio.per) < set(ratios[whole_ratio].per)]
    if not parts:
        return found
    total = found[whole_ratio][0][:, 0]
    points = np.stack([found[i][0][:, 0] for i in parts])
    groups = np.arange(len(total))
    for extreme, better in ((points.argmax(axis=0), np.maximum), (points.argmin(axis=0), np.minimum)):
        points[extreme, groups] = better(points[extreme, groups], total)
    for i, point in zip(parts, points[:, :, None], strict=True):
        _, low, high, error = found[i]
        found[i] = point, np.minimum(low, point), np.maximum(high, point), error
    return found


def _whole_parts(values: Array) -> Array:
    """Round each value up or down so that a row adds up to its rounded sum (largest-remainder method)."""
    floor = np.floor(values + EXACT)
    extra: NDArray[np.int64] = np.rint(values.sum(axis=1) - floor.sum(axis=1)).astype(np.int64)
    rank = np.argsort(np.argsort(floor - values, axis=1, kind="stable"), axis=1)
    return floor + (rank < extra[:, None])
