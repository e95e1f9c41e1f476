"""How much the people beyond the thresholds vary around public shares, learned from the measurements of a release.

Four factors change the deviations of a universe (`DEVIATIONS` in `public_shares.py`). Each is multiplied or divided by
its step while that raises the likelihood of the release's measurements, clearly in all, so without evidence they
remain 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import linalg, sparse

from phsafe.estimation.effects import Effects, Rows, widened

#: The likelihood of the measurements of a universe, given by number: of all groups or, which is faster, of everyone.
Likelihood = Callable[[int, bool, "Spread"], float]
#: A change must raise the logarithm of the likelihood by more than this.
EVIDENCE = 0.5


@dataclass(frozen=True)
class Spread:
    """Factors for the deviations around public shares.

    Attributes:
        common: Of the excess per oversized household and of the division over cells, in the nation and its regions.
        iterations: The same between iterations.
        groups: The same between groups, beyond that.
        clump: How many times more a sum over few households varies than if households were independent. In a sample
            that was expanded by weights, every household recurs as often as its weight says.
    """

    common: float = 1.0
    iterations: float = 1.0
    groups: float = 1.0
    clump: float = 1.0


#: Of each factor: its step, which is tried downwards and then upwards, and its limits.
STEPS: Mapping[str, tuple[float, float, float]] = {
    "clump": (2.0, 1.0, 1024.0),
    "common": (4.0, 0.25, 4.0),
    "groups": (4.0, 0.25, 4.0),
    "iterations": (2.0, 0.25, 4.0),
}


def learn_clump(likelihood: Likelihood, universes: int) -> Spread:
    """Learn the clump. Households are the same in all universes, so one serves all."""

    def together(groups: bool, spread: Spread) -> float:
        return sum(likelihood(i, groups, spread) for i in range(universes))

    clump = climb("clump", Spread(), partial(together, False))
    return clump if clump == Spread() else climb("clump", clump, partial(together, True))


def learn_spreads(likelihood: Likelihood, universes: int, clump: Spread) -> list[Spread]:
    """Learn the other factors of each universe. Everyone decides, except about differences between iterations."""
    found = []
    for i in range(universes):
        spread = climb("common", clump, partial(likelihood, i, False))
        for name in ("groups", "iterations"):
            spread = climb(name, spread, partial(likelihood, i, True))
        found.append(spread)
    return found


def climb(name: str, spread: Spread, likelihood: Callable[[Spread], float]) -> Spread:
    """Change one factor step by step while that raises the likelihood; keep the least change that is clearly needed.

    Small steps may add up to clear evidence, so the whole way counts, not each step.
    """
    step, least, most = STEPS[name]
    for factor in (1 / step, step):
        path = [(likelihood(spread), spread)]
        while least <= (value := getattr(path[-1][1], name) * factor) <= most:
            following = replace(spread, **{name: value})
            if (higher := likelihood(following)) <= path[-1][0]:
                break
            path.append((higher, following))
        found = next(passed for height, passed in path if height >= path[-1][0] - EVIDENCE)
        if found != spread:
            return found
    return spread


def log_likelihood(effects: Effects, observations: Sequence[Rows]) -> float:
    """The logarithm of the likelihood of measurements, given independent normal effects."""
    means, loads, observed, noise = (list(part) for part in zip(*observations, strict=True))
    prior = effects.variances
    a = sparse.vstack([widened(load, len(prior)) for load in loads], format="csr")
    factor = np.linalg.cholesky((a.multiply(prior) @ a.T).toarray() + np.diag(np.concatenate(noise)))
    gaps = linalg.solve_triangular(factor, np.concatenate(observed) - np.concatenate(means), lower=True)
    return float(-0.5 * gaps @ gaps - np.log(np.diagonal(factor)).sum())
