"""The posterior of averages: people over units, where neither can be less than the other allows.

Unknowns are the parts of the numerator N ≥ 0 and the denominator D ≥ 1, with at_least ≤ ΣN/D ≤ τ; the prior is
flat on what is possible. Draws are made one unknown after another, each exactly from its noise cut to what the
earlier ones leave possible, and weighted by how much that is: weighted draws from the posterior itself, with no
chain that would have to mix. The points are a fixed low-discrepancy sequence: equal input, equal output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from phsafe.estimation.kernels import TAIL, Array, Kernel

#: Draws for each group (a power of two); groups with fewer effective ones get more.
DRAWS = 1 << 13
MORE_DRAWS = 1 << 16
ENOUGH = 1000
#: Groups × draws worked on at once: bounds the memory.
AT_ONCE = 1 << 19
SEED = 2020
#: A bound this many standard deviations away is out of reach.
REACH = 10.0

Rows = NDArray[np.int64]
Factor = Callable[[Array, Array, Rows], Array]


@dataclass(frozen=True)
class Bounds:
    """What a possible average is: people in a unit, and the threshold that they were cut at."""

    at_least: int
    tau: int


@dataclass(frozen=True)
class Unknowns:
    """Noisy numerators and denominators of some groups. One row for each group.

    `parts` are noisy numerators and `covariance` theirs; `units` the noisy denominators and `unit_variance`
    theirs. `terms` says how many equal noises each of (parts..., units) adds up: only where sums of the noise are
    not of its family. `log_factor` is what else is known, as a log-likelihood of (ΣN, D, rows).
    """

    parts: Array
    covariance: Array
    units: Array
    unit_variance: Array
    terms: tuple[int, ...]
    log_factor: Factor | None = None
    #: The point is E[N/D · D^p]/E[D^p]: the mean of 2020 at p = 0; every unit counts the same at p = 1.
    power: float = 0.0


def posterior(
    kernel: Kernel, unknowns: Unknowns, bounds: Bounds, lines: Sequence[Sequence[int]]
) -> tuple[Array, Array, Array]:
    """Point, 5 % and 95 % quantile of Σ parts / units for each group and line; a line lists the parts it adds."""
    result, done = _unbounded(kernel, unknowns, bounds, lines)
    left = np.flatnonzero(~done)
    at_once = AT_ONCE // DRAWS
    for first in range(0, len(left), at_once):
        rows = left[first : first + at_once]
        result[:, rows], effective = _summary(kernel, unknowns, bounds, lines, rows, DRAWS)
        for row in rows[effective < ENOUGH]:
            one = np.array([row])
            result[:, one], _ = _summary(kernel, unknowns, bounds, lines, one, MORE_DRAWS)
    return result[0], result[1], result[2]


def _unbounded(
    kernel: Kernel, unknowns: Unknowns, bounds: Bounds, lines: Sequence[Sequence[int]]
) -> tuple[Array, NDArray[np.bool_]]:
    """Summaries in closed form for groups so large that no bound is within reach, and which groups those are.

    P(N/D ≤ r) = P(N − rD ≤ 0) is then a normal probability: a quantile solves a quadratic equation (Fieller's).
    """
    parts, units, variance = unknowns.parts, unknowns.units, unknowns.unit_variance
    result = np.zeros((3, len(units), len(lines)))
    if not kernel.stable:
        return result, np.zeros(len(units), bool)
    total, reach = parts.sum(axis=1), REACH * np.sqrt(variance)
    spread = unknowns.covariance.sum(axis=(1, 2))
    done = (units - 1 > reach) & (parts > REACH * np.sqrt(np.diagonal(unknowns.covariance, axis1=1, axis2=2))).all(1)
    for bound, sign in ((bounds.at_least, 1), (bounds.tau, -1)):
        done &= sign * (total - bound * units) > REACH * np.sqrt(spread + bound**2 * variance)
    if unknowns.log_factor is not None:
        far, everyone = REACH * np.sqrt(spread), np.arange(len(units))
        for side in (-1, 1):
            edge = (total + side * far)[:, None], (units + side * reach)[:, None]
            done &= unknowns.log_factor(*edge, everyone)[:, 0] > -1e-6
    z2 = np.square(kernel.quantile(np.array(TAIL)))
    n, d, v = (a[done] for a in (parts, units, variance))
    cv2 = v / np.square(d)
    for i, line in enumerate(lines):
        above = n[:, list(line)].sum(axis=1)
        w = unknowns.covariance[done][:, list(line)][:, :, list(line)].sum(axis=(1, 2))
        middle, lead = above * d, np.square(d) - z2 * v
        root = np.sqrt(np.square(middle) - lead * (np.square(above) - z2 * w))
        point = above / d * (1 + (1 - unknowns.power) * cv2 * (1 + 3 * cv2 * (1 + 5 * cv2)))
        result[:, done, i] = point, (middle - root) / lead, (middle + root) / lead
    return result, done


def _summary(
    kernel: Kernel, unknowns: Unknowns, bounds: Bounds, lines: Sequence[Sequence[int]], rows: Rows, draws: int
) -> tuple[Array, Array]:
    """(point, low, high) of every line for some groups, and their effective numbers of draws."""
    parts, units, log_weight = _draw(kernel, unknowns, bounds, rows, draws)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    share = weight * units**unknowns.power if unknowns.power else weight
    share = share / share.sum(axis=1, keepdims=True)
    out = np.empty((3, len(units), len(lines)))
    for i, line in enumerate(lines):
        ratio = sum(parts[part] for part in line) / units
        out[0, :, i] = (share * ratio).sum(axis=1)
        out[1, :, i], out[2, :, i] = _quantiles(ratio, weight)
    return out, 1 / np.square(weight).sum(axis=1)


def _draw(
    kernel: Kernel, unknowns: Unknowns, bounds: Bounds, rows: Rows, draws: int
) -> tuple[list[Array], Array, Array]:
    """Draws of the parts and units of some groups (groups × draws), and their log-weights."""
    noisy, covariance = unknowns.parts[rows], unknowns.covariance[rows]
    count = noisy.shape[1]
    u = iter(uniforms(draws, count + 1 if kernel.stable else sum(unknowns.terms)).T)
    log_weight = np.zeros((len(noisy), draws))
    parts: list[Array] = []
    total = np.zeros_like(log_weight)
    # Parts are correlated in the joint fit: each is drawn given the earlier ones (a Cholesky factor, row by row).
    factor = np.linalg.cholesky(covariance) if kernel.stable else None
    standard: list[Array] = []
    for i in range(count):
        if factor is not None:
            center = noisy[:, i, None] + sum(factor[:, i, j, None] * standard[j] for j in range(i))
            scale = factor[:, i, i, None]
        else:
            scale = kernel.scale(covariance[:, i, i, None] / unknowns.terms[i])
            center = noisy[:, i, None] + _other_noise(kernel, scale, unknowns.terms[i], u)
        # With the last part the people must be enough for one unit.
        needed = bounds.at_least if i == count - 1 else 0
        low = (np.maximum(needed - total, 0) - center) / scale
        drawn, log_mass = kernel.cut(next(u), low)
        standard.append(drawn)
        parts.append(center + scale * drawn)
        total = total + parts[i]
        log_weight += log_mass
    terms = unknowns.terms[-1]
    scale = kernel.scale(unknowns.unit_variance[rows][:, None] / (1 if kernel.stable else terms))
    center = unknowns.units[rows][:, None] + (0 if kernel.stable else _other_noise(kernel, scale, terms, u))
    least, most = (np.maximum(total / bound, 1) for bound in (bounds.tau, bounds.at_least))
    drawn, log_mass = kernel.cut(next(u), (least - center) / scale, (most - center) / scale)
    units = np.clip(center + scale * drawn, least, most)
    log_weight += log_mass
    if unknowns.log_factor is not None:
        log_weight += unknowns.log_factor(total, units, rows)
    return parts, units, np.maximum(np.nan_to_num(log_weight, nan=-np.inf), -1e300)


def _other_noise(kernel: Kernel, scale: Array, terms: int, u: Iterator[Array]) -> Array:
    """All but one of the noises in a sum of several: free draws that shift the center of the last."""
    shifts = [kernel.quantile(next(u)) for _ in range(terms - 1)]
    return np.asarray(scale * np.sum(shifts, axis=0)) if shifts else np.zeros_like(scale)


@lru_cache(maxsize=8)
def uniforms(draws: int, dimensions: int) -> Array:
    """A fixed scrambled Sobol sequence, inside (0, 1)."""
    points: Array = qmc.Sobol(dimensions, scramble=True, rng=SEED).random(draws)
    return np.clip(points, 1e-12, 1 - 1e-12)


def _quantiles(values: Array, weight: Array) -> tuple[Array, Array]:
    """The weighted 5 % and 95 % quantiles of every row."""
    order = np.argsort(values, axis=1)
    sorted_values, sorted_weight = (np.take_along_axis(a, order, axis=1) for a in (values, weight))
    middle = np.cumsum(sorted_weight, axis=1) - 0.5 * sorted_weight
    both = np.array([np.interp([TAIL, 1 - TAIL], m, v) for m, v in zip(middle, sorted_values, strict=True)])
    return both[:, 0], both[:, 1]
