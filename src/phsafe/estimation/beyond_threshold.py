"""What truncation drops: a model of the people beyond the thresholds, and estimates that include them.

For every universe, the number of dropped people of a group follows from its public share, up to uncertain effects of
the nation, region, iteration and group; these people are distributed over cells in uncertain proportions. All of this
is linear in independent normal effects, so measurements of dropped persons and oversized households update it by least
squares, exactly as identities update noisy counts. Where only oversized households are measured, their number is
multiplied by the mean excess. The uncertainty of the mean excess is among the effects, so a release that also measures
dropped persons corrects it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from phsafe.configs.config import Config
from phsafe.estimation.densities import Array
from phsafe.estimation.effects import Spread, leaf_levels, shifted, total
from phsafe.estimation.effects_posterior import EffectsPosterior, UniversesPosterior, widened
from phsafe.estimation.fit import Fit, NormalDraws
from phsafe.estimation.identities import Identity, counts_the_same, same_people, untruncated_cells
from phsafe.estimation.learned_spread import learn_clump, learn_spread
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.public_shares import PublicShares, public_shares
from phsafe.estimation.published_lines import sum_rows
from phsafe.estimation.released_universe import ReleasedUniverse
from phsafe.estimation.truncation_notes import truncation_notes
from phsafe.model.spec import Tabulation


@dataclass(frozen=True)
class Everybody:
    """Estimates of every cell with the people beyond the thresholds: the fit plus an independent normal model.

    Attributes:
        fit: The least-squares fit of the truncated counts.
        beyond: The expected number of dropped people of every cell, given all measurements.
        loadings: How much each effect changes each cell, cells × effects.
        effects: The posterior of the effects.
        measured: The tabulations that measured what truncation drops.
        unknown: The tabulations without public shares, whose estimates remain truncated.
        about: Notes for data users.
        blind: The measurements with blind cells, and the dropped people of all their cells: how many there are, given
            all measurements, and loadings.
    """

    fit: Fit
    beyond: Array = field(repr=False)
    loadings: sparse.csr_array = field(repr=False)
    effects: UniversesPosterior = field(repr=False)
    measured: tuple[Tabulation, ...]
    unknown: tuple[str, ...]
    about: str
    blind: tuple[tuple[LevelBlock, Array, sparse.csr_array], ...] = field(repr=False)

    @property
    def estimates(self) -> Array:
        """The estimate of every cell, everybody counted."""
        return np.asarray(self.fit.estimates + self.beyond)

    def alike(self, blocks: Iterable[LevelBlock]) -> list[list[LevelBlock]]:
        """Measurements whose estimates can be compared: those of everybody, and those that remain truncated."""
        found: dict[bool, list[LevelBlock]] = {}
        for block in blocks:
            found.setdefault(block.tabulation.name in self.unknown, []).append(block)
        return list(found.values())

    def same_people(self, config: Config, blocks: Iterable[LevelBlock]) -> list[Identity]:
        """Sums in different universes that count the same people, everybody counted."""
        return [pair for _, pairs in same_people(config, self.known(blocks)) for pair in pairs]

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of the estimates, one per row."""
        return self.fit.variance(sums) + self.effects.variance((sums @ self.loadings).tocsr())

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of the estimates, one per row."""
        return self.fit.covariance(sums) + self.effects.covariance((sums @ self.loadings).tocsr())

    def known(self, blocks: Iterable[LevelBlock]) -> list[LevelBlock]:
        """The measurements among these whose estimates include everybody."""
        return [block for block in blocks if block.tabulation.name not in self.unknown]

    def dropped(self, block: LevelBlock) -> tuple[float, float]:
        """Return the people beyond the threshold in all groups of a measurement: their mean and variance."""
        # Nobody is added to cells that are counted without truncation, but some people are beyond the threshold.
        for own, expected, load in self.blind:
            if own is block:
                adding = sum_rows([np.arange(len(expected))], len(expected))
                return self.dropped_of((adding @ load).tocsr(), float(expected.sum()))
        row = sum_rows([block.positions().ravel()], len(self.beyond))
        return self.dropped_of((row @ self.loadings).tocsr(), float((row @ self.beyond)[0]))

    def dropped_of(self, effects: sparse.csr_array, expected: float) -> tuple[float, float]:
        """Return the mean and the variance of dropped people, with the effects on them and their expected number."""
        return expected, float(self.effects.variance(effects)[0])

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the true counts given the estimates, positions × draws."""
        beyond = self.beyond[:, None] + self.loadings @ self.effects.draws(standard)
        return np.asarray(self.fit.draws(standard) + beyond)


def everybody(measured: Measured, fit: Fit, shares: PublicShares | None = None) -> Everybody:
    """Estimate everybody: truncated counts, dropped persons and oversized households together.

    Args:
        measured: The measurements of the release.
        fit: Their least-squares fit.
        shares: What truncation drops in public data; by default the shares that ship with the program.
    """
    shares = public_shares() if shares is None else shares
    found = list(_universes(measured))
    known = [tabulations for tabulations in found if any(shares.knows(t.name) for t in tabulations)]
    unknown = tuple(t.name for tabulations in found if tabulations not in known for t in tabulations)
    universes, clump = _sized(measured, fit, shares, known)
    posteriors: list[EffectsPosterior] = []
    blind = []
    beyond = np.zeros(len(measured.counts))
    parts = [sparse.csr_array((len(beyond), 0))]
    for universe in universes:
        first = sum(len(posterior.prior) for posterior in posteriors)
        for model in universe.models:
            for block in model.leaves.blocks:
                mean, own = model.cells(block)
                load = shifted(own, first)
                # Cells that are counted without truncation already include everybody.
                whole = set(untruncated_cells(measured.config, block))
                if whole:
                    blind.append((block, mean, load))
                cut = np.tile([float(cell not in whole) for cell in block.tabulation.cells], len(block.groups))
                beyond[block.positions().ravel()] = cut * mean
                parts.append(_placed(block, (sparse.diags_array(cut) @ load).tocsr(), len(beyond)))
        # Dividing people over cells adds effects, so it comes before the posterior.
        posteriors.append(universe.posterior(learn_spread(universe.likelihood, clump)))
    effects = UniversesPosterior(posteriors)
    loadings = widened(total(*parts), len(effects.mean))
    beyond += loadings @ effects.mean
    used = [block for universe in universes for model in universe.models for block in model.beyond]
    measures = tuple(dict.fromkeys(block.tabulation for block in used))
    about = truncation_notes(measured, known, used, unknown)
    wide = [(block, mean, widened(load, len(effects.mean))) for block, mean, load in blind]
    uncut = tuple((block, mean + load @ effects.mean, load) for block, mean, load in wide)
    return Everybody(fit, beyond, loadings, effects, measures, unknown, about, uncut)


def _sized(
    measured: Measured, fit: Fit, shares: PublicShares, known: Sequence[Sequence[Tabulation]]
) -> tuple[list[ReleasedUniverse], Spread]:
    """Return the universes with probable sizes of groups and cells, and the clump that they have in common."""
    leaves = (list(leaf_levels(measured, fit, tabulations, shares)) for tabulations in known)
    universes = [ReleasedUniverse(measured, fit, shares, own).resized() for own in leaves]
    clump = learn_clump([universe.likelihood for universe in universes])
    # Sizes of cells come later: they follow the measurements so closely that the learned clump would be too small.
    return [universe.resized(cells=True) for universe in universes], clump


def _placed(block: LevelBlock, load: sparse.csr_array, count: int) -> sparse.csr_array:
    """Loadings of the cells of a block as rows of all positions."""
    positions = block.positions().ravel()
    place = (np.ones(len(positions)), (positions, np.arange(len(positions))))
    return sparse.csr_array(place, shape=(count, len(positions))) @ load


def _universes(measured: Measured) -> Iterator[list[Tabulation]]:
    """Yield the truncated tabulations that count the same people and are iterated by the same people."""
    found: list[list[Tabulation]] = []
    for tabulation in dict.fromkeys(b.tabulation for b in measured.blocks.values() if b.tabulation.is_truncated):
        same = (members for members in found if counts_the_same(measured.config, members[0], tabulation))
        members = next(same, None)
        if members is None:
            found.append([tabulation])
        else:
            members.append(tabulation)
    for members in found:
        iterated: list[str | None] = list(dict.fromkeys(t.iterate_by for t in members if t.iterate_by is not None))
        iterated = iterated or [None]
        for by in iterated:
            yield [t for t in members if t.iterate_by == by or (t.iterate_by is None and by == iterated[0])]
