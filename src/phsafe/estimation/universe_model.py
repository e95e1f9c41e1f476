"""The dropped people of one universe: expected numbers, and how they depend on uncertain effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from phsafe.estimation.densities import Z_90, Array
from phsafe.estimation.effects import REST, Effects, Factor, Leaves, Spread, fixed, total
from phsafe.estimation.effects_posterior import Observation
from phsafe.estimation.fit import Fit
from phsafe.estimation.identities import Group, is_beyond
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.public_shares import DEVIATIONS, HIGHEST_REGION, STATE_DIGITS, PublicShares
from phsafe.model.levels import TOTAL
from phsafe.model.schema import PERSONS
from phsafe.model.spec import Tabulation

#: The smallest factors that may be learned for groups' distributions over cells, which are measured for few tables.
#: Groups differ in types of household and tenure, but hardly in the ages of people in large households.
UNSEEN_UNITS, UNSEEN_PERSONS = 1.0, 0.25
#: How much combinations of types of household and ages deviate, relative to either alone: ages in large households
#: hardly depend on the type.
COMBINED = 0.25


@dataclass(frozen=True)
class Split:
    """The dropped people of one tabulation: by its smallest groups (rows, then cells)."""

    groups: Sequence[Group]
    #: Which leaf groups make up these groups.
    member: sparse.csr_array
    expected: Array
    size: Array
    load: sparse.csr_array

    def rows(self, member: sparse.csr_array, cells: Sequence[int]) -> sparse.csr_array:
        """Select the sum of some cells in larger groups."""
        chosen = np.zeros((1, len(self.expected) // len(self.groups)))
        chosen[0, cells] = 1
        return sparse.kron(member, chosen, format="csr")


class UniverseModel:
    """The dropped people of one universe by leaf group, and how cells and measurements depend on them."""

    def __init__(
        self,
        measured: Measured,
        fit: Fit,
        shares: PublicShares,
        leaves: Leaves,
        effects: Effects,
    ) -> None:
        self.measured, self.fit, self.shares, self.leaves, self.effects = measured, fit, shares, leaves, effects
        known = next(t for t in leaves.tabulations if shares.knows(t.name))
        self.name, tau = known.name, measured.config.tau[known.name]
        self.mean_excess, variance = shares.excess(self.name, tau)
        self.rarity = shares.rarity(self.name, tau)
        self.deviations = DEVIATIONS | {"nation": shares.deviation}
        #: The variance of the excess of one household relative to its square, times dropped people per household.
        self.dispersion = variance / self.mean_excess
        #: Σ (n − τ)² / Σ (n − τ): the variance of a number of dropped people, per person.
        self.compound = self.dispersion + self.mean_excess
        self.load, self.excess = self._people_load(), self._excess_load()
        #: The measurements of what the thresholds of the universe drop.
        self.beyond = [
            block
            for block in measured.blocks.values()
            if is_beyond(measured.config, block.tabulation, leaves.tabulations)
            and leaves.includes(block.level.iteration_level)
        ]
        self._observed: dict[int, list[Observation]] = {}
        self._splits: dict[str, Split] = {}
        self._dispersed: dict[tuple[str, int], sparse.csr_array] = {}

    def _people_load(self) -> sparse.csr_array:
        """Effects on the dropped people of every leaf group."""
        leaves, deviations = self.leaves, self.deviations
        # Effects stay in proportion to what public shares predict even where fewer people are probable.
        largest = np.maximum(leaves.expected, leaves.size)
        states = [region[:STATE_DIGITS] for region, _ in leaves.groups]
        unknown = [leaves.width > 0 and not self.shares.knows_region(self.name, state) for state in states]
        highest = np.exp(np.hypot(np.log(HIGHEST_REGION), Z_90 * self.shares.deviation)) ** self.rarity
        reach = np.where(unknown, max((highest - 1) / Z_90 / deviations["region"], 1.0), 1.0)
        # Parts of states vary around their state, but the rest of a state may be all of it.
        is_part = [leaves.width > STATE_DIGITS and not region.endswith(REST) for region, _ in leaves.groups]
        return total(
            self._common(largest, "nation", []),
            self.effects.common(largest * reach, [(self.name, "state", one) for one in states], deviations["region"]),
            self._common(largest * is_part, "region", [0]),
            self._common(largest, "iteration", [1]),
            self.effects.own((np.square(deviations["group"] * largest), fixed), (self.compound * leaves.size, _clump)),
        )

    def _excess_load(self) -> sparse.csr_array:
        """Effects on the excess, as dropped people: why it is not the mean excess times oversized households."""
        size = self.leaves.size
        return total(
            self._common(size, "excess, nation", [], _everywhere),
            self._common(size, "excess, region", [0], _everywhere),
            self._common(size, "excess, iteration", [1], lambda spread: spread.iterations**2),
            self.effects.own(
                (np.square(self.deviations["excess, group"] * size), lambda spread: spread.groups**2),
                (self.dispersion * size, _clump),
            ),
        )

    def _common(self, size: Array, name: str, which: Sequence[int], factor: Factor = fixed) -> sparse.csr_array:
        """One effect for all leaf groups, or for those of the same region (0) or iteration (1)."""
        labels = [(self.name, name, *(group[i] for i in which)) for group in self.leaves.groups]
        return self.effects.common(size, labels, self.deviations[name], factor)

    def cells(self, block: LevelBlock) -> tuple[Array, sparse.csr_array]:
        """Expected dropped people of every cell of a block, and their dependence on the effects."""
        split = self.split(block.tabulation)
        member = self.leaves.membership(split.groups, block.groups, block.level.geography.width)
        rows = sparse.kron(member, sparse.eye_array(len(block.tabulation.cells)), format="csr")
        return np.asarray(rows @ split.expected), rows @ split.load

    def observations(self, blocks: Sequence[LevelBlock]) -> list[Observation]:
        """What measurements of dropped persons and oversized households say about the effects."""
        for block in blocks:
            if block.start not in self._observed:
                self._observed[block.start] = list(self._measurements(block))
        return [observation for block in blocks for observation in self._observed[block.start]]

    def _measurements(self, block: LevelBlock) -> Iterator[Observation]:
        """Yield what one block measures, cell by cell."""
        source = block.tabulation.beyond
        assert source is not None
        split, groups = self.split(source), self._known_groups(block, source)
        if groups is None:
            return
        distinct = {group: i for i, group in enumerate(dict.fromkeys(groups))}
        place = [distinct[group] for group in groups]
        adding = sparse.csr_array((np.ones(len(groups)), (place, np.arange(len(groups)))))
        noisy, variance = (adding @ a[block.positions()] for a in (self.measured.counts, self.measured.variances))
        width = min(block.level.geography.width, self.leaves.width)
        member = self.leaves.membership(split.groups, list(distinct), width)
        states = [region[: min(width, STATE_DIGITS)] for region, _ in distinct]
        for column, (number, condition) in enumerate(block.tabulation.cells.items()):
            linked = [i for i, cell in enumerate(source.cells.values()) if cell.implies(condition)]
            if linked:
                rows = split.rows(member, linked)
                mean, load = rows @ split.expected, rows @ split.load
                if block.tabulation.kind == "oversized":
                    rate = self.shares.factor(block.tabulation.name, "per_household", str(number)) * self.mean_excess
                    excess = member @ self._excess(block.tabulation, split, linked, number)
                    mean, load = mean / rate, total(load, -excess) / rate
                yield Observation(mean, load.tocsr(), noisy[:, column], variance[:, column], states)

    def _known_groups(self, block: LevelBlock, source: Tabulation) -> list[Group] | None:
        """The group of the universe that each group of a measurement belongs to; None if there is none.

        Where the universe itself has only larger groups, or is iterated by other people, the sum over the smaller ones
        is informative about them.
        """
        geography = block.level.geography
        listed = {region[: geography.width] for region, _ in self.leaves.groups}
        if not geography.covers and not listed.issuperset(region for region, _ in block.groups):
            return None
        level, known = block.level.iteration_level, {code for _, code in self.split(source).groups}
        whose = {t.iterate_by for t in (*self.leaves.tabulations, block.tabulation)} - {None}
        same = len(whose) < 2
        by_iteration = level.is_total or (same and {i.code for i in level.iterations} <= known)
        if not by_iteration and not level.covers:
            return None
        digits = min(geography.width, self.leaves.width)
        return [(region[:digits], code if by_iteration else TOTAL.code) for region, code in block.groups]

    def _excess(self, tabulation: Tabulation, split: Split, linked: Sequence[int], number: int) -> sparse.csr_array:
        """The effects on the excess in some cells of the smallest groups; cells also vary independently."""
        key = (tabulation.name, number)
        if key not in self._dispersed:
            by_cell = split.size.reshape(len(split.groups), -1)
            part, whole = by_cell[:, linked].sum(axis=1), by_cell.sum(axis=1)
            share = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
            load = sparse.diags_array(share) @ (split.member @ self.excess)
            if len(tabulation.cells) > 1:
                varied = np.square(self.deviations["excess, cell"] * part)
                load = total(load.tocsr(), self.effects.own((varied, _everywhere), (self.dispersion * part, _clump)))
            self._dispersed[key] = load.tocsr()
        return self._dispersed[key]

    def split(self, tabulation: Tabulation) -> Split:
        """Divide the dropped people of groups over the cells of a tabulation."""
        if tabulation.name not in self._splits:
            own = [b for b in self.leaves.blocks if b.tabulation is tabulation]
            codes = self._codes(tabulation, own)
            groups = [(region, code) for region in self.leaves.regions for code in codes]
            member = self.leaves.membership(self.leaves.groups, groups, self.leaves.width)
            share = self._cell_shares(tabulation, own, groups)
            expected = (share * (member @ self.leaves.expected)[:, None]).ravel()
            size = (share * (member @ self.leaves.size)[:, None]).ravel()
            size = self.leaves.cell_sizes.get(tabulation.name, size)
            deviations = self._deviations(tabulation, groups, expected, size)
            # Deviations of cells add up to zero: subtract their sum in proportion to the shares.
            spread = sparse.block_diag([part[:, None] for part in share], format="csr")
            adding = sparse.kron(sparse.eye_array(len(groups)), np.ones((1, share.shape[1])), format="csr")
            load = total((spread @ (member @ self.load)).tocsr(), deviations, (-spread @ (adding @ deviations)).tocsr())
            self._splits[tabulation.name] = Split(groups, member, expected, size, load.tocsr())
        return self._splits[tabulation.name]

    def _deviations(
        self, tabulation: Tabulation, groups: Sequence[Group], expected: Array, size: Array
    ) -> sparse.csr_array:
        """Effects on the cells of groups, by which their distribution deviates from the shares."""
        largest = np.maximum(expected, size)
        several = len({code for _, code in groups}) > 1
        # Groups' distributions over cells are measured for few tables, so little may be ruled out.
        unseen = UNSEEN_PERSONS if _reads_persons_alone(tabulation) else UNSEEN_UNITS
        attributes = [(1.0, list(tabulation.cells))] if several else list(_attributes(tabulation))

        def common(name: str, which: Sequence[int], factor: Factor) -> sparse.csr_array:
            loads = []
            for extent, of_cells in attributes:
                keys = [(tabulation.name, *group, attribute) for group in groups for attribute in of_cells]
                labels = [(name, *(key[i] for i in which)) for key in keys]
                loads.append(self.effects.common(largest, labels, extent * self.deviations[name], factor))
            return total(*loads)

        return total(
            common("cell, nation", (0, 3), _everywhere),
            common("cell, region", (0, 1, 3), _everywhere),
            common("cell, iteration", (0, 2, 3), lambda spread: several * max(spread.iterations, unseen) ** 2),
            self.effects.own(
                (
                    np.square(self.deviations["cell, group"] * largest),
                    lambda spread: several * max(spread.groups, unseen) ** 2,
                ),
                (self.compound * size, _clump),
            ),
        )

    def _codes(self, tabulation: Tabulation, own: Sequence[LevelBlock]) -> tuple[str, ...]:
        """The finest iterations of a tabulation, or of a measurement of its dropped people."""
        known = {code for _, code in self.leaves.groups}
        found = [(b, tuple(i.code for i in b.level.iteration_level.iterations)) for b in self.measured.blocks.values()]
        usable = [codes for b, codes in found if b in own]
        usable += [
            codes
            for b, codes in found
            if b.tabulation.beyond is tabulation
            and b.tabulation.iterate_by == tabulation.iterate_by
            and known.issuperset(codes)
        ]
        return max(usable, key=len, default=(TOTAL.code,))

    def _cell_shares(self, tabulation: Tabulation, blocks: Sequence[LevelBlock], groups: Sequence[Group]) -> Array:
        """The distribution of dropped people over cells: people of the cell times its public share."""
        people = np.ones((len(groups), len(tabulation.cells)))
        for block in sorted(blocks, key=lambda b: len(b.groups)):  # The smallest groups decide.
            member = self.leaves.membership(groups, block.groups, block.level.geography.width)
            measured = member.T @ np.maximum(self.fit.estimates[block.positions()], 0)
            people = np.where(member.sum(axis=0)[:, None] > 0, measured, people)
        if _reads_persons_alone(tabulation):
            # Large households of different groups resemble each other, for example in ages, even if the groups don't.
            people = np.tile(people.sum(axis=0), (len(groups), 1))
        rates = [self.shares.factor(tabulation.name, "cells", str(cell)) for cell in tabulation.cells]
        weight = (people + 1e-6 * (1 + people.sum())) * np.array(rates) ** self.rarity
        weight += weight.sum(axis=1, keepdims=True) == 0
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _attributes(tabulation: Tabulation) -> Iterator[tuple[float, list[object]]]:
    """Yield attributes of cells, with the extent of the deviations that cells of the same attribute have in common.

    Cells by households and persons, such as types of household by age, deviate mostly in one or the other.
    """
    cells = list(tabulation.cells.values())
    by_person = [cell.on([name for name in cell.columns if name in PERSONS]) for cell in cells]
    by_household = [cell.on([name for name in cell.columns if name not in PERSONS]) for cell in cells]
    mixed = len(set(by_person)) > 1 and len(set(by_household)) > 1
    if mixed:
        yield 1.0, list(by_person)
        yield 1.0, list(by_household)
    yield COMBINED if mixed else 1.0, list(tabulation.cells)


def _everywhere(spread: Spread) -> float:
    return spread.common**2


def _clump(spread: Spread) -> float:
    return spread.clump


def _reads_persons_alone(tabulation: Tabulation) -> bool:
    """Whether cells are attributes of persons, such as age, and not of their household."""
    return all(name in PERSONS for cell in tabulation.cells.values() for name in cell.columns)
