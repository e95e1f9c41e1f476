"""How much the people beyond the thresholds vary around public shares, learned from the measurements of a release.

Four factors change how much a universe varies. Three apply to the deviations of the excess per oversized household and
of the distribution over cells (`DEVIATIONS` in `public_shares.py`), one to the variance of sums over few households.
Each is multiplied or divided by its step as long as that raises the likelihood of the release's measurements and the
total gain is clear, so without evidence they remain 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from phsafe.estimation.effects import Spread

#: The likelihood of the measurements of a universe: of all groups or, which is faster, of everyone.
Likelihood = Callable[[bool, Spread], float]
#: A change must raise the logarithm of the likelihood by more than this.
EVIDENCE = 0.5


#: Of each factor: its step, which is tried downwards and then upwards, and its limits.
STEPS: Mapping[str, tuple[float, float, float]] = {
    "clump": (2.0, 1.0, 1024.0),
    "common": (4.0, 0.25, 4.0),
    "groups": (4.0, 0.25, 4.0),
    "iterations": (2.0, 0.25, 4.0),
}


def learn_clump(universes: Sequence[Likelihood]) -> Spread:
    """Learn the clump. Households are the same in all universes, so one serves all."""

    def together(all_groups: bool, spread: Spread) -> float:
        return sum(likelihood(all_groups, spread) for likelihood in universes)

    spread = climb("clump", Spread(), partial(together, False))
    return spread if spread == Spread() else climb("clump", spread, partial(together, True))


def learn_spread(likelihood: Likelihood, start: Spread) -> Spread:
    """Learn the other factors of a universe: from everyone or, for differences between groups, from all groups."""
    spread = climb("common", start, partial(likelihood, False))
    for name in ("groups", "iterations"):
        spread = climb(name, spread, partial(likelihood, True))
    return spread


def climb(name: str, spread: Spread, likelihood: Callable[[Spread], float]) -> Spread:
    """Change one factor step by step while that raises the likelihood; keep the least change that is clearly needed.

    Small steps may add up to clear evidence, so the total gain counts, not the gain of each step.
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
