"""Independent normal effects and how a spread changes them, and the groups of a universe that they act on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from phsafe.errors import PHSafeError
from phsafe.estimation.densities import Array
from phsafe.estimation.effects_posterior import widened
from phsafe.estimation.fit import Fit
from phsafe.estimation.identities import Group
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.public_shares import STATE_DIGITS, PublicShares
from phsafe.model.levels import TOTAL, Geography, IterationLevel
from phsafe.model.spec import Tabulation

#: Fills up the code of the rest of a state, of which a level of smaller regions lists only some.
REST = "*"
#: How often groups are scaled to each of their margins in turn.
PASSES = 30
#: Keeps a number of people above zero.
TINY = 1e-12


@dataclass(frozen=True)
class Spread:
    """Factors for the deviations around public shares.

    Attributes:
        common: Of the excess per oversized household and of the distribution over cells, in the nation and its regions.
        iterations: The same between iterations.
        groups: The same between groups, beyond that.
        clump: The variance of a sum over few households, relative to that of independent households. In a sample that
            was expanded by weights, every household recurs as often as its weight says.
    """

    common: float = 1.0
    iterations: float = 1.0
    groups: float = 1.0
    clump: float = 1.0


#: Returns by how much a spread multiplies a variance.
Factor = Callable[[Spread], float]


def fixed(_: Spread) -> float:
    """The factor of a variance that no spread changes."""
    return 1.0


@dataclass
class Effects:
    """Independent effects with mean 0. A matrix of loadings has one column for each effect known when it was made.

    A spread changes the variances of effects, never the loadings, so that many can be tried with the same loadings.
    """

    _variances: list[Sequence[tuple[Array, Factor]]] = field(default_factory=list)
    _shared: dict[object, int] = field(default_factory=dict)
    count: int = 0

    def variances(self, spread: Spread) -> Array:
        """Return the variance of every effect: for each batch, a sum of parts with a factor each."""
        batches = [np.sum([factor(spread) * part for part, factor in parts], axis=0) for parts in self._variances]
        return np.concatenate([np.empty(0), *batches])

    def common(
        self, size: Array, labels: Sequence[object], deviation: float, factor: Factor = fixed
    ) -> sparse.csr_array:
        """One effect for all rows with the same label, in proportion to their size. Labels may recur later."""
        new = [label for label in dict.fromkeys(labels) if label not in self._shared]
        self._shared |= {label: self.count + i for i, label in enumerate(new)}
        self._variances.append([(np.full(len(new), deviation**2), factor)])
        self.count += len(new)
        columns = [self._shared[label] for label in labels]
        return sparse.csr_array((size, (np.arange(len(size)), columns)), shape=(len(size), self.count))

    def own(self, *parts: tuple[Array, Factor]) -> sparse.csr_array:
        """One effect for every row, whose variance is a sum of parts."""
        number, first = len(parts[0][0]), self.count
        self._variances.append(parts)
        self.count += number
        rows = np.arange(number)
        return sparse.csr_array((np.ones(number), (rows, first + rows)), shape=(number, self.count))


def total(*loads: sparse.csr_array) -> sparse.csr_array:
    """Add matrices of loadings that were made at different times."""
    width = max(load.shape[1] for load in loads)
    return sum((widened(load, width) for load in loads[1:]), widened(loads[0], width)).tocsr()


def shifted(load: sparse.csr_array, columns: int) -> sparse.csr_array:
    """Loadings on the same effects after others in front of them."""
    shape = (load.shape[0], columns + load.shape[1])
    return sparse.csr_array((load.data, load.indices + columns, load.indptr), shape=shape)


@dataclass(frozen=True)
class Leaves:
    """The smallest groups of a universe among iterations that cover everybody, or of one other iteration level.

    Attributes:
        tabulations: The truncated tabulations of the universe.
        blocks: Their measurements at the levels of these iterations.
        width: The number of digits of the smallest regions.
        groups: The smallest groups.
        expected: How many dropped people public shares predict for each.
        covers: Whether the iterations cover everybody.
        size: How many there probably are (`released_universe.py`), which variances are in proportion to.
        cell_sizes: Tabulation → the same for the cells of its smallest groups (rows, then cells).
    """

    tabulations: Sequence[Tabulation]
    blocks: Sequence[LevelBlock]
    width: int
    groups: Sequence[Group]
    expected: Array
    covers: bool
    size: Array
    cell_sizes: Mapping[str, Array] = field(default_factory=dict)

    @property
    def regions(self) -> list[str]:
        """The smallest regions."""
        return list(dict.fromkeys(region for region, _ in self.groups))

    def includes(self, level: IterationLevel) -> bool:
        """Whether an iteration level is one of this kind."""
        codes = {code for _, code in self.groups}
        return level.covers if self.covers else not level.covers and codes == {i.code for i in level.iterations}

    def membership(self, small: Sequence[Group], large: Sequence[Group], width: int) -> sparse.csr_array:
        """Which small groups make up which large ones, whose regions have `width` digits: large × small."""
        rows, columns = [], []
        place = {(region if width else "", code): i for i, (region, code) in enumerate(large)}
        for j, (region, code) in enumerate(small):
            for key in dict.fromkeys(((region[:width], code), (region[:width], TOTAL.code))):
                if key in place and (self.covers or key[1] == code):
                    rows.append(place[key])
                    columns.append(j)
                    break
        return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(large), len(small)))


def leaf_levels(
    measured: Measured, fit: Fit, tabulations: Sequence[Tabulation], shares: PublicShares
) -> Iterator[Leaves]:
    """Yield the smallest groups of a universe: those of iterations that cover everybody, then of each other level."""
    blocks = [block for block in measured.blocks.values() if block.tabulation in tabulations]
    others = {b.level.iteration_level.key for b in blocks if not b.level.iteration_level.covers}
    covering: tuple[Leaves, Array] | None = None
    for key in (None, *sorted(others)):
        own = [b for b in blocks if key == (None if b.level.iteration_level.covers else b.level.iteration_level.key)]
        if not own:
            continue
        geography = max((b.level.geography for b in own), key=lambda g: g.width)
        finest = max((b.level.iteration_level for b in own), key=lambda level: len(level.iterations))
        _check_nested(geography, own)
        regions = _regions(geography, measured.config.states)
        groups = [(region, i.code) for region in regions for i in finest.iterations]
        none = np.zeros(len(groups))
        leaves = Leaves(tabulations, own, geography.width, groups, none, key is None, none)
        people, outside = _people(fit, leaves), None
        if leaves.covers:
            covering, outside = (leaves, people), np.zeros(len(regions))
        elif covering and covering[0].width >= leaves.width:
            everyone = [(region, TOTAL.code) for region in regions]
            total = covering[0].membership(covering[0].groups, everyone, leaves.width) @ covering[1]
            outside = np.maximum(total - people.reshape(len(regions), -1).sum(axis=1), 0)
        expected = _expected(measured, leaves, people, outside, shares)
        yield replace(leaves, expected=expected, size=expected)


def _check_nested(smallest: Geography, blocks: Sequence[LevelBlock]) -> None:
    """Refuse geographies whose regions don't make up each other, such as counties and places."""
    for geography in dict.fromkeys(block.level.geography for block in blocks):
        inside = geography.columns == smallest.columns[: len(geography.columns)]
        # The rest of a state is known; the rest of other regions isn't.
        partly = geography.width > STATE_DIGITS and not smallest.covers
        if geography != smallest and (not inside or partly or geography.columns == smallest.columns):
            raise PHSafeError(
                f"target: expected levels whose regions make up each other to estimate everybody, got {geography.key} "
                f"and {smallest.key}; choose the target truncated"
            )


def _regions(geography: Geography, states: Sequence[str]) -> list[str]:
    """The regions of a geography that doesn't cover the country, and the rest of each state; otherwise its regions."""
    listed = [region for region, _ in geography.within(states)]
    rest = [] if geography.covers else [state.ljust(geography.width, REST) for state in states]
    return [*listed, *(region for region in rest if region not in listed)]


def _people(fit: Fit, leaves: Leaves) -> Array:
    """The people of every leaf group, from the measurement of these groups or else in proportion to its margins."""
    size = _rest_of_states(fit, leaves)
    blocks = sorted(leaves.blocks, key=lambda b: -len(b.groups))
    exact = len(blocks[0].groups) == len(leaves.groups)
    for block in blocks[:1] if exact else blocks * PASSES:
        member = leaves.membership(leaves.groups, block.groups, block.level.geography.width)
        total = np.maximum(fit.estimates[block.positions()].sum(axis=1), 0)
        within = member @ size
        ratio = member.T @ np.divide(total, within, out=np.zeros_like(total), where=within > 0)
        size = size * np.where(member.sum(axis=0) > 0, ratio, 1.0)
    return np.asarray(size)


def _rest_of_states(fit: Fit, leaves: Leaves) -> Array:
    """The people of listed regions and of the rest of each state; 1 for every group if there is no such rest.

    The rest is what a level of larger regions counts more than the listed ones.
    """
    is_rest = np.array([region.endswith(REST) for region, _ in leaves.groups], bool)
    size = np.ones(len(leaves.groups))
    smaller, larger = (
        [b for b in leaves.blocks if (b.level.geography.width == leaves.width) is inside] for inside in (True, False)
    )
    if not is_rest.any() or not larger:
        return size

    def scaled(block: LevelBlock, chosen: NDArray[np.bool_]) -> Array:
        """The size of chosen groups for which they, with the others, add up to the measured groups."""
        member = leaves.membership(leaves.groups, block.groups, block.level.geography.width)
        more = fit.estimates[block.positions()].sum(axis=1) - member @ np.where(chosen, 0.0, size)
        ratio = np.maximum(more, 0) / np.maximum(member @ (chosen * size), TINY)
        return np.asarray(size * (member.T @ ratio))

    size = np.where(is_rest, size, scaled(smaller[0], ~is_rest))
    return np.where(is_rest, scaled(max(larger, key=lambda b: b.level.geography.width), is_rest), size)


def _expected(measured: Measured, leaves: Leaves, people: Array, outside: Array | None, shares: PublicShares) -> Array:
    """Dropped people according to public shares: those of a region, divided in proportion to shares of iterations.

    Args:
        measured: The measurements of the release.
        leaves: The groups.
        people: The people of every group.
        outside: The people of every region who belong to none of the iterations, if known. They have a share, too,
            which makes a difference where nearly everybody belongs to one iteration.
        shares: The public shares.
    """
    name = next(t.name for t in leaves.tabulations if shares.knows(t.name))
    tau, regions = measured.config.tau[name], leaves.regions
    rarity = shares.rarity(name, tau)
    within = [measured.config.states if leaves.width == 0 else [region] for region in regions]
    rate = shares.share(name, tau) * np.array([shares.regions(name, codes) for codes in within]) ** rarity
    codes = list(dict.fromkeys(code for _, code in leaves.groups))
    iteration = np.array([shares.factor(name, "iterations", code) for code in codes]) ** rarity
    inside = people.reshape(len(regions), len(codes))
    expected = rate[:, None] * iteration * inside
    if outside is not None:
        level = leaves.blocks[0].level.iteration_level.key
        total = rate * (inside.sum(axis=1) + outside)
        found = expected.sum(axis=1) + rate * outside * shares.factor(name, "others", level) ** rarity
        expected *= np.divide(total, found, out=np.zeros_like(total), where=found > 0)[:, None]
    return expected.ravel()
