"""The attacker, who knows both populations and the claimed noise, and scores the outputs of each world.

From training draws the attacker learns how each score is distributed under either population, picks the score and the
guess that promise the highest bound, and is then evaluated on fresh draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phsafe.privacy_audit import loss_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phsafe.privacy_math.sensitivity import Definition

#: The most bins of a score, and the number of training draws that each bin should get.
MAX_BINS, BIN_DRAWS = 40, 100
#: Candidate limits of a guess, and factors by which it shrinks the learned likelihood ratio.
CLIPS = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
SHRINKS = (0.7, 0.8, 0.9, 1.0)
#: A world's two levels are outputs 0–3 and 4–7; within the first, its two regions are 0–1 and 2–3.
_HALF, _REGION = 4, 2


@dataclass(frozen=True)
class Knowledge:
    """What the attacker knows about a world: the claimed scale of each output, and both sets of exact counts."""

    definition: Definition
    scale: NDArray[np.float64]
    first: NDArray[np.int64]
    second: NDArray[np.int64]

    def likelihood(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The log likelihood ratio under the claimed noise, which is the best score if the noise is as claimed."""
        seen = np.nan_to_num(outputs)
        if self.definition == "puredp":
            gap = np.abs(seen - self.second) - np.abs(seen - self.first)
            return np.asarray(gap @ (1 / self.scale))
        return np.asarray((seen - (self.first + self.second) / 2) @ ((self.first - self.second) / self.scale**2))

    def levels(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much better the difference between the two levels fits the first population than the second."""
        seen = np.nan_to_num(outputs)
        return self._fit(lambda v: v[..., :_HALF] - v[..., _HALF:], seen)

    def regions(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same for the difference between the two regions of the first level."""
        seen = np.nan_to_num(outputs[:, :_HALF])
        return self._fit(lambda v: v[..., :_REGION] - v[..., _REGION:_HALF], seen)

    def shape(self, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Which rows were published, as a bit mask."""
        return np.asarray(np.isnan(outputs) @ (2.0 ** np.arange(outputs.shape[1])))

    @property
    def scores(self) -> tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], ...]:
        """All scores that the attacker tries."""
        return self.likelihood, self.levels, self.regions, self.shape

    def _fit(
        self, difference: Callable[[NDArray[np.float64]], NDArray[np.float64]], seen: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        gaps = [
            np.abs(difference(seen) - difference(exact.astype(np.float64))).sum(axis=1)
            for exact in (self.first, self.second)
        ]
        return np.asarray(gaps[1] - gaps[0])


@dataclass(frozen=True)
class Attack:
    """A binned score, with the number of training draws in each bin under the first and the second population."""

    name: str
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    edges: NDArray[np.float64]
    trains: tuple[NDArray[np.int64], NDArray[np.int64]]

    def binned(self, outputs: NDArray[np.float64]) -> NDArray[np.int64]:
        """The number of draws in each bin."""
        bins = np.searchsorted(self.edges, self.score(outputs), side="right")
        return np.bincount(bins, minlength=len(self.edges) + 1)

    @property
    def learned(self) -> NDArray[np.float64]:
        """The log likelihood ratio of each bin, estimated from the training draws."""
        first, second = (np.log((t + 0.5) / (t.sum() + 0.5 * len(t))) for t in self.trains)
        return np.asarray(first - second)

    def loss_at_least(
        self, definition: Definition, tests: tuple[NDArray[np.int64], NDArray[np.int64]], miss: float
    ) -> float:
        """A lower bound on the loss from fresh draws; the guess or event is chosen from the training draws alone.

        Args:
            definition: The privacy definition, which determines the kind of bound.
            tests: Fresh draws in each bin under the first and the second population.
            miss: The probability that the bound is wrong.
        """
        if definition == "zcdp":
            guess = max(self._guesses(), key=lambda g: self._promise(g, int(tests[0].sum()), miss))
            return max(0.0, loss_bounds.divergence_at_least(guess, tests, self.trains, miss))
        event = max(self._events(), key=lambda e: self._ratio(e, self.trains, miss))
        return self._ratio(event, tests, miss)

    def promise(self, definition: Definition, draws: int, miss: float) -> float:
        """The bound that the training draws promise for a number of fresh draws."""
        scaled = tuple(np.round(t * (draws / t.sum())).astype(np.int64) for t in self.trains)
        return self.loss_at_least(definition, (scaled[0], scaled[1]), miss)

    def _guesses(self) -> list[NDArray[np.float64]]:
        return [np.clip(shrink * self.learned, -clip, clip) for shrink in SHRINKS for clip in CLIPS]

    def _promise(self, guess: NDArray[np.float64], draws: int, miss: float) -> float:
        tests = tuple(np.round(t * (draws / t.sum())).astype(np.int64) for t in self.trains)
        return loss_bounds.divergence_at_least(guess, (tests[0], tests[1]), self.trains, miss)

    def _events(self) -> list[NDArray[np.bool_]]:
        """Candidate events: the bins whose learned likelihood ratio is at least some value."""
        return [self.learned >= least for least in np.unique(self.learned)]

    @staticmethod
    def _ratio(event: NDArray[np.bool_], draws: tuple[NDArray[np.int64], NDArray[np.int64]], miss: float) -> float:
        hits = int(draws[0] @ event), int(draws[1] @ event)
        return loss_bounds.ratio_at_least(hits, (int(draws[0].sum()), int(draws[1].sum())), miss)


def learn(
    knowledge: Knowledge, trains: tuple[NDArray[np.float64], NDArray[np.float64]], draws: int, miss: float
) -> Attack:
    """The attack that promises the highest bound for a number of fresh draws."""
    attacks = []
    bins = max(4, min(MAX_BINS, len(trains[0]) // BIN_DRAWS))
    for score in knowledge.scores:
        both = [score(outputs) for outputs in trains]
        edges = np.unique(np.quantile(np.concatenate(both), np.linspace(0, 1, bins + 1)[1:-1]))
        empty = np.zeros(len(edges) + 1, dtype=np.int64)
        attack = Attack(score.__name__, score, edges, (empty, empty))
        attacks.append(Attack(score.__name__, score, edges, (attack.binned(trains[0]), attack.binned(trains[1]))))
    return max(attacks, key=lambda attack: attack.promise(knowledge.definition, draws, miss))
