"""Lower confidence bounds on a privacy loss from an attacker's guesses, valid for any sample size.

zCDP: ρ-zCDP bounds the Rényi divergence of every order α by αρ and therefore, as α → 1, KL(P‖Q) ≤ ρ. By Donsker and
Varadhan, KL(P‖Q) ≥ E_P[g] − log E_Q[e^g] for any bounded g; for Gaussian noise and the best g, the right-hand side
equals ρ. Both means are bounded by betting (a Chernoff bound with a stake λ fixed in advance): for X in [0, 1] with
mean m, the product of 1 + λ(Xᵢ − m) has mean 1, so it exceeds 1/δ with probability at most δ (Markov).

Pure DP: P(A) ≤ e^ε Q(A) for every event A, so ε ≥ log(p/q), with Clopper–Pearson bounds on both probabilities.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS = 60


def mean_at_least(values: NDArray[np.float64], counts: NDArray[np.int64], stake: float, miss: float) -> float:
    """A lower bound on a mean in [0, 1], wrong with probability at most `miss`.

    Args:
        values: The distinct values drawn.
        counts: The number of draws of each value.
        stake: The stake λ in [0, 1]; it must not depend on the draws.
        miss: The probability that the bound is wrong.

    >>> round(mean_at_least(np.array([0.0, 1.0]), np.array([500, 500]), 0.2, 1e-6), 2)
    0.41
    """

    def wealth(mean: float) -> float:
        with np.errstate(divide="ignore"):
            return float(counts @ np.log1p(stake * (values - mean)))

    low, high = 0.0, 1.0
    if stake <= 0 or wealth(0.0) <= -math.log(miss):
        return 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if wealth(middle) > -math.log(miss) else (low, middle)
    return low


def best_stake(variance: float, draws: int, miss: float) -> float:
    """The stake λ that gives the tightest bound, for a variance estimated from other draws."""
    return min(0.9, math.sqrt(-2 * math.log(miss) / (draws * max(variance, 1e-9))))


def divergence_at_least(
    guess: NDArray[np.float64],
    tests: tuple[NDArray[np.int64], NDArray[np.int64]],
    trains: tuple[NDArray[np.int64], NDArray[np.int64]],
    miss: float,
) -> float:
    """A lower bound on ρ, wrong with probability at most `miss`: E_P[g] − log E_Q[e^g].

    Args:
        guess: The value of g for each bin of the attacker's score.
        tests: Fresh draws in each bin under P and Q.
        trains: Training draws in each bin under P and Q, from which the stakes are chosen.
        miss: The probability that the bound is wrong.
    """
    top = float(np.max(np.abs(guess))) or 1.0
    lower = _bounded_mean(guess, -top, top, tests[0], trains[0], miss / 2)
    exponential = np.exp(guess)
    upper = -_bounded_mean(-exponential, -math.exp(top), 0.0, tests[1], trains[1], miss / 2)
    return lower - math.log(upper)


def ratio_at_least(hits: tuple[int, int], draws: tuple[int, int], miss: float) -> float:
    """A lower bound on ε, wrong with probability at most `miss`: log(p/q) for one event.

    Args:
        hits: How often the event occurred under P and under Q.
        draws: The number of draws from P and from Q.
        miss: The probability that the bound is wrong.
    """
    from scipy.stats import beta  # noqa: PLC0415

    p = float(beta.ppf(miss / 2, hits[0], draws[0] - hits[0] + 1)) if hits[0] else 0.0
    q = float(beta.ppf(1 - miss / 2, hits[1] + 1, draws[1] - hits[1])) if hits[1] < draws[1] else 1.0
    return math.log(p / q) if p > q else 0.0


def _bounded_mean(
    values: NDArray[np.float64],
    bottom: float,
    top: float,
    test: NDArray[np.int64],
    train: NDArray[np.int64],
    miss: float,
) -> float:
    """A lower bound on the mean of values in [bottom, top]."""
    scaled = (values - bottom) / (top - bottom)
    mean = float(train @ scaled) / train.sum()
    variance = float(train @ (scaled - mean) ** 2) / train.sum()
    return bottom + (top - bottom) * mean_at_least(scaled, test, best_stake(variance, int(test.sum()), miss), miss)
