"""What truncation drops according to public data: shares that ship with the program, with their uncertainty.

They are the only information about dropped people in a release that measures none, as in 2020, and a starting point
for small groups otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np

#: The file of shares. `benchmarks/estimation_errors.py --shares` makes it.
FILE = "public_shares.json"
#: Relative standard deviations around the public shares: of dropped people in the nation as a whole, in a region, an
#: iteration and one group; of dropped people per oversized household; and of their distribution over cells. Real states
#: in the American Community Survey differ from shares learned elsewhere by about this much
#: (docs/explanation/estimation.md).
DEVIATIONS = {
    "nation": 0.3,
    "region": 1.0,
    "iteration": 0.8,
    "group": 1.0,
    "excess, nation": 0.1,
    "excess, region": 0.15,
    "excess, iteration": 0.03,
    "excess, group": 0.1,
    "excess, cell": 0.15,
    "cell, nation": 0.2,
    "cell, region": 0.3,
    "cell, iteration": 0.2,
    "cell, group": 0.4,
}
#: The highest shipped share of a state relative to the nation (Hawaii's). A region without a public share may be like
#: any other, so its 90 % interval reaches this far, and further as the share of the nation is uncertain, too.
HIGHEST_REGION = 8.822
#: Higher thresholds are treated like this one: hardly any household is larger. Their shares would be zero by underflow.
HIGHEST_TAU = 100
#: Sizes beyond a threshold over which the mean excess adds up.
SIZES = 40
#: The length of a state's code, with which the codes of smaller regions begin.
STATE_DIGITS = 2


@dataclass(frozen=True)
class PublicShares:
    """Shares of dropped people in public data.

    Attributes:
        source: Which data, in one sentence.
        tabulations: Tabulation → its shares.
        deviation: The relative standard deviation of dropped people in the nation as a whole around its share. Shares
            learned from a few states are less certain than the shipped ones.
    """

    source: str
    tabulations: Mapping[str, Mapping[str, Any]] = field(repr=False)
    deviation: float = DEVIATIONS["nation"]

    def knows(self, tabulation: str) -> bool:
        """Whether there are shares for a tabulation of persons."""
        return "shares" in self.tabulations.get(tabulation, {})

    def share(self, tabulation: str, tau: int) -> float:
        """Dropped people per person kept."""
        return _curve(self.tabulations[tabulation]["shares"], min(tau, HIGHEST_TAU + SIZES))

    def excess(self, tabulation: str, tau: int) -> tuple[float, float]:
        """Mean and variance of the number of people beyond the threshold in an oversized household.

        A household of n > τ people drops n − τ. With T(τ) people dropped in all, T(τ) − T(τ + 1) households are
        oversized, and Σ (n − τ)² = Σ_j (2j + 1)(T(τ + j) − T(τ + j + 1)).
        """
        tau = min(tau, HIGHEST_TAU)
        dropped = np.array([self.dropped(tabulation, tau + j) for j in range(SIZES)])
        households = -np.diff(dropped)
        mean = dropped[0] / households[0]
        square = float(np.sum((2 * np.arange(SIZES - 1) + 1) * households) / households[0])
        return float(mean), max(square - mean**2, 0.0)

    def rarity(self, tabulation: str, tau: int) -> float:
        """How rare dropped people are, from 0 to 1 as rare as at the threshold of 2020.

        Shares differ between regions, iterations and cells because large households are rare. The more people a
        threshold drops, the more alike the shares are.
        """
        share, reference = (self.share(tabulation, t) for t in (tau, self.tabulations[tabulation]["tau"]))
        return float(np.clip(np.log(share) / np.log(reference), 0.0, 1.0))

    def factor(self, tabulation: str, kind: str, code: str) -> float:
        """The share of an iteration (`kind` "iterations") or cell ("cells") relative to all.

        For an iteration level and "others", the share of those who belong to none of its iterations.

        For an oversized tabulation and "per_household", dropped people of the linked cells per oversized household of
        a cell, relative to the mean excess.
        """
        return float(self.tabulations.get(tabulation, {}).get(kind, {}).get(code, 1.0))

    def knows_region(self, tabulation: str, code: str) -> bool:
        """Whether there is a share for a region, or for the state around it."""
        return not {code, code[:STATE_DIGITS]}.isdisjoint(self.tabulations.get(tabulation, {}).get("regions", {}))

    def region(self, tabulation: str, code: str) -> float:
        """The share of a region relative to all, or that of the state around it; 1 if neither is known."""
        known = self.tabulations.get(tabulation, {}).get("regions", {})
        return float(known.get(code, known.get(code[:STATE_DIGITS], 1.0)))

    def regions(self, tabulation: str, codes: Sequence[str]) -> float:
        """The share of several regions together: their mean, since sizes are unknown, or 1 if all are included."""
        known = self.tabulations.get(tabulation, {}).get("regions", {})
        everywhere = len(codes) > 1 and set(codes) >= set(known)
        return 1.0 if everywhere else float(np.mean([self.region(tabulation, code) for code in codes]))

    def dropped(self, tabulation: str, tau: int) -> float:
        """Dropped people per person of the universe."""
        per_kept = self.share(tabulation, tau)
        return per_kept / (1 + per_kept)


def _curve(values: Mapping[str, float], tau: int) -> float:
    """The value at a threshold; beyond the last one, it goes on falling (or rising) by the last ratio."""
    if str(tau) in values:
        return float(values[str(tau)])
    last = max(map(int, values))
    ratio = values[str(last)] / values[str(last - 1)] if values[str(last - 1)] else 0.0
    return float(values[str(last)] * ratio ** (tau - last))


@lru_cache(maxsize=1)
def public_shares() -> PublicShares:
    """The shares that ship with the program."""
    document = json.loads((files("phsafe.estimation") / FILE).read_text(encoding="utf-8"))
    return PublicShares(document["source"], document["tabulations"])
