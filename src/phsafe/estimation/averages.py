"""The posterior of averages: people per unit, with bounds on both, by weighted draws from a fixed seed.

The unknowns are the parts of the numerator, N ≥ 0, and the denominator, D ≥ 1, with at_least ≤ ΣN/D ≤ τ and a flat
prior over the feasible values. Unknowns are drawn in sequence: each one exactly from its noise distribution,
restricted to the range that the earlier draws leave feasible, and weighted by the probability of that range. The
result is an importance sample of the posterior; there is no Markov chain that has to mix. The uniforms come from a
fixed low-discrepancy sequence, so the same input always gives the same output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.stats import qmc

from phsafe.configs.config import Config
from phsafe.estimation.densities import COVERAGE, TAIL, Array, Density
from phsafe.estimation.identities import untruncated_cells
from phsafe.estimation.measurement_vector import LevelBlock
from phsafe.estimation.table_lines import Ratio

#: Draws per group (a power of two). A group with too small an effective sample is redone with MORE_DRAWS.
DRAWS = 1 << 13
MORE_DRAWS = 1 << 16
MIN_EFFECTIVE_DRAWS = 1000
#: Groups × draws processed in one chunk, to bound memory.
MAX_CHUNK = 1 << 19
SEED = 2020
#: A bound more than this many standard deviations away is ignored.
REACH = 10.0
#: An interval that starts or ends at a bound is preferred unless it is longer than the shortest by more than this
#: factor, because the length of the shortest one is computed from a sample.
SLIGHTLY_LONGER = 1.02
#: Candidates for the lower end of the shortest interval.
STARTS = 201
#: Probabilities at which the posterior is tabulated, for draws from it; the median is in the middle.
LEVELS = np.concatenate([[1e-6], np.linspace(0.005, 0.995, 199), [1 - 1e-6]])
SCORES = special.ndtri(LEVELS)

#: No population group has more people per household on average, everybody counted. The bound matters for groups smaller
#: than the noise only.
MOST_PEOPLE = 10

Rows = NDArray[np.int64]
Factor = Callable[[Array, Array, Rows], Array]


@dataclass(frozen=True)
class Bounds:
    """The range of feasible averages: the fewest people in a unit, and the truncation threshold."""

    at_least: int
    tau: int


def feasible(config: Config, ratio: Ratio, above: LevelBlock, *, truncated: bool) -> Bounds:
    """Return the feasible range of an average.

    Args:
        config: The config of the release.
        ratio: The average.
        above: The measurement of its numerator at a level. Cells that are counted blind are not truncated.
        truncated: Whether estimates leave out the people beyond the threshold of other cells.
    """
    cells, tau = {cell for part in ratio.parts for cell in part}, config.tau[ratio.numerator.name]
    whole = not truncated or cells & set(untruncated_cells(config, above))
    most = max(tau, MOST_PEOPLE) if whole else tau
    return Bounds(min(ratio.at_least, most), most)


@dataclass(frozen=True)
class Unknowns:
    """Noisy numerators and denominators, one row per group.

    Attributes:
        parts: Noisy numerators, groups × parts.
        covariance: Covariance of the parts, groups × parts × parts.
        units: Noisy denominators.
        unit_variance: Variance of the denominators.
        terms: How many noise terms of equal variance are summed in each of (parts..., units). Used only for noise
            whose sums are not of the same family.
        log_factor: Further evidence, as a log-likelihood of (ΣN, D, rows).
        power: The exponent p of the point estimate E[N/D · D^p]/E[D^p]: p = 0 is the posterior mean used in 2020,
            p = 1 weights every unit equally.
        shortest: Whether intervals are the shortest ones; otherwise they have equal tails, as in 2020.
    """

    parts: Array
    covariance: Array
    units: Array
    unit_variance: Array
    terms: tuple[int, ...]
    log_factor: Factor | None = None
    power: float = 0.0
    shortest: bool = False


def posterior(
    density: Density, unknowns: Unknowns, bounds: Bounds, lines: Sequence[Sequence[int]]
) -> tuple[Array, Array]:
    """Summarise Σ parts / units by group and line.

    Returns:
        Point estimate, lower and upper bound of the 90 % interval and standard deviation, 4 × groups × lines; and the
        quantiles at LEVELS, groups × lines × levels.

    Args:
        density: The noise distribution.
        unknowns: Noisy numerators and denominators.
        bounds: The feasible range of the average.
        lines: For each line of the table, the indices of the parts that it sums.
    """
    result, quantiles, done = _unbounded(density, unknowns, bounds, lines)
    remaining = np.flatnonzero(~done)
    chunk = MAX_CHUNK // DRAWS
    for first in range(0, len(remaining), chunk):
        rows = remaining[first : first + chunk]
        result[:, rows], quantiles[rows], effective = _summary(density, unknowns, bounds, lines, rows, DRAWS)
        for row in rows[effective < MIN_EFFECTIVE_DRAWS]:
            one = np.array([row])
            result[:, one], quantiles[one], _ = _summary(density, unknowns, bounds, lines, one, MORE_DRAWS)
    return result, quantiles


def median(quantiles: Array) -> Array:
    """The median, from quantiles at LEVELS in the last dimension."""
    return np.asarray(quantiles[..., len(LEVELS) // 2])


def carried_over(standard: Array, quantiles: Array) -> Array:
    """Carry standard normal draws over to the distribution with these quantiles at LEVELS."""
    return np.asarray(np.interp(standard, SCORES, quantiles))


def _unbounded(
    density: Density, unknowns: Unknowns, bounds: Bounds, lines: Sequence[Sequence[int]]
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Closed-form summaries and quantiles of groups so large that no bound matters, and a mask of those groups.

    For them P(N/D ≤ r) = P(N − rD ≤ 0) is a normal probability, so a quantile solves a quadratic equation (Fieller).
    """
    parts, units, variance = unknowns.parts, unknowns.units, unknowns.unit_variance
    result = np.zeros((4, len(units), len(lines)))
    quantiles = np.zeros((len(units), len(lines), len(LEVELS)))
    if not density.stable:
        return result, quantiles, np.zeros(len(units), bool)
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
    z2 = np.square(density.quantile(np.array(TAIL)))
    n, d, v = (a[done] for a in (parts, units, variance))
    cv2 = v / np.square(d)
    for i, line in enumerate(lines):
        above = n[:, list(line)].sum(axis=1)
        w = unknowns.covariance[done][:, list(line)][:, :, list(line)].sum(axis=(1, 2))
        middle, lead = above * d, np.square(d) - z2 * v
        root = np.sqrt(np.maximum(np.square(middle) - lead * (np.square(above) - z2 * w), 0))
        point = above / d * (1 + (1 - unknowns.power) * cv2 * (1 + 3 * cv2 * (1 + 5 * cv2)))
        spread = np.sqrt(w + np.square(above / d) * v) / d
        result[:, done, i] = point, (middle - root) / lead, (middle + root) / lead, spread
        quantiles[done, i] = (above / d)[:, None] + spread[:, None] * density.quantile(LEVELS)
    return result, quantiles, done


def _summary(
    density: Density, unknowns: Unknowns, bounds: Bounds, lines: Sequence[Sequence[int]], rows: Rows, draws: int
) -> tuple[Array, Array, Array]:
    """Return (point, low, high, deviation) and quantiles of every line, and the effective sample size of each group."""
    parts, units, log_weight = _draw(density, unknowns, bounds, rows, draws)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    share = weight * units**unknowns.power if unknowns.power else weight
    share = share / share.sum(axis=1, keepdims=True)
    out = np.empty((4, len(units), len(lines)))
    quantiles = np.empty((len(units), len(lines), len(LEVELS)))
    for i, line in enumerate(lines):
        ratio = sum(parts[part] for part in line) / units
        out[0, :, i] = (share * ratio).sum(axis=1)
        least = float(bounds.at_least if len(line) == len(parts) else 0)
        values, middle = _sorted(ratio, weight)
        quantiles[:, i] = [np.interp(LEVELS, m, v) for m, v in zip(middle, values, strict=True)]
        if unknowns.shortest:
            out[1, :, i], out[2, :, i] = shortest(values, middle, least, bounds.tau)
        else:
            tails = [np.interp([TAIL, 1 - TAIL], m, v) for m, v in zip(middle, values, strict=True)]
            out[1:3, :, i] = np.array(tails).T
        mean = (weight * ratio).sum(axis=1, keepdims=True)
        out[3, :, i] = np.sqrt((weight * np.square(ratio - mean)).sum(axis=1))
    return out, quantiles, 1 / np.square(weight).sum(axis=1)


def _draw(
    density: Density, unknowns: Unknowns, bounds: Bounds, rows: Rows, draws: int
) -> tuple[list[Array], Array, Array]:
    """Draw the parts and units of the given groups (groups × draws); also return the log-weights."""
    noisy, covariance = unknowns.parts[rows], unknowns.covariance[rows]
    count = noisy.shape[1]
    u = iter(uniforms(draws, count + 1 if density.stable else sum(unknowns.terms)).T)
    log_weight = np.zeros((len(noisy), draws))
    parts: list[Array] = []
    total = np.zeros_like(log_weight)
    # Parts are correlated in the joint fit: draw each one given the earlier ones (Cholesky factor, row by row).
    factor = np.linalg.cholesky(covariance) if density.stable else None
    standard: list[Array] = []
    for i in range(count):
        if factor is not None:
            center = noisy[:, i, None] + sum(factor[:, i, j, None] * standard[j] for j in range(i))
            scale = factor[:, i, i, None]
        else:
            scale = density.scale(covariance[:, i, i, None] / unknowns.terms[i])
            center = noisy[:, i, None] + _other_noise(density, scale, unknowns.terms[i], u)
        # Once the last part is added, there must be enough people for at least one unit.
        needed = bounds.at_least if i == count - 1 else 0
        low = (np.maximum(needed - total, 0) - center) / scale
        drawn, log_mass = density.quantile_between(next(u), low)
        standard.append(drawn)
        parts.append(center + scale * drawn)
        total = total + parts[i]
        log_weight += log_mass
    terms = unknowns.terms[-1]
    scale = density.scale(unknowns.unit_variance[rows][:, None] / (1 if density.stable else terms))
    center = unknowns.units[rows][:, None] + (0 if density.stable else _other_noise(density, scale, terms, u))
    least, most = (np.maximum(total / bound, 1) for bound in (bounds.tau, bounds.at_least))
    drawn, log_mass = density.quantile_between(next(u), (least - center) / scale, (most - center) / scale)
    units = np.clip(center + scale * drawn, least, most)
    log_weight += log_mass
    if unknowns.log_factor is not None:
        log_weight += unknowns.log_factor(total, units, rows)
    return parts, units, np.maximum(np.nan_to_num(log_weight, nan=-np.inf), -1e300)


def _other_noise(density: Density, scale: Array, terms: int, u: Iterator[Array]) -> Array:
    """Unrestricted draws of all noise terms in a sum except the last; they shift the centre of that last term."""
    shifts = [density.quantile(next(u)) for _ in range(terms - 1)]
    return np.asarray(scale * np.sum(shifts, axis=0)) if shifts else np.zeros_like(scale)


@lru_cache(maxsize=8)
def uniforms(draws: int, dimensions: int) -> Array:
    """A fixed, scrambled Sobol sequence with values strictly inside (0, 1)."""
    points: Array = qmc.Sobol(dimensions, scramble=True, rng=SEED).random(draws)
    return np.clip(points, 1e-12, 1 - 1e-12)


def _sorted(values: Array, weight: Array) -> tuple[Array, Array]:
    """Sort every row; return the values and the cumulative weight up to the middle of each."""
    order = np.argsort(values, axis=1)
    sorted_values, sorted_weight = (np.take_along_axis(a, order, axis=1) for a in (values, weight))
    return sorted_values, np.cumsum(sorted_weight, axis=1) - 0.5 * sorted_weight


def shortest(values: Array, middle: Array, least: float, most: float) -> tuple[Array, Array]:
    """Return the shortest interval with 90 % of the weight of every row, at a bound if that is hardly longer.

    Args:
        values: Sorted values.
        middle: The cumulative weight up to the middle of each.
        least: The smallest possible value.
        most: The largest possible value.
    """
    starts = np.linspace(0, 1 - COVERAGE, STARTS)
    out = np.empty((2, len(values)))
    for row, (m, v) in enumerate(zip(middle, values, strict=True)):
        low, high = np.interp(starts, m, v), np.interp(starts + COVERAGE, m, v)
        low[0], high[-1] = least, most
        length = high - low
        best = int(np.argmin(length))
        for edge in (0, -1):
            if length[edge] <= SLIGHTLY_LONGER * length[best]:
                best = edge
        out[:, row] = low[best], high[best]
    return out[0], out[1]
