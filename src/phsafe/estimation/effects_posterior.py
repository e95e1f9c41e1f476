"""Independent normal effects, given noisy measurements of sums of them: least squares, state by state.

Effects z ~ N(0, D) are measured by y = A z + noise, with independent noise of variance N. With M = A D Aᵀ + N, their
mean is D Aᵀ M⁻¹ y and their covariance is D − D Aᵀ M⁻¹ A D. M is dense, but states share only a few effects. Without
these, it would be block diagonal, bordered by the measurements of the nation: M = S + G D₀ Gᵀ. The factor L of S has
the same blocks. With G' = L⁻¹ G and P = D₀⁻¹ + G'ᵀ G', the inverse is M⁻¹ = L⁻ᵀ (1 − G' P⁻¹ G'ᵀ) L⁻¹, so the cost grows
with the number of states, not with its cube.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from phsafe.estimation.densities import Array
from phsafe.estimation.fit import NormalDraws

#: Linear combinations whose variances are computed at a time, to bound memory.
LINES = 1 << 14
#: In place of a state's number: several states measure the effect, or no state does (but the nation may).
SHARED, UNMEASURED = 1 << 30, 1 << 31
Indices = NDArray[np.intp]
_lower = partial(linalg.solve_triangular, lower=True, check_finite=False)
_upper = partial(linalg.solve_triangular, lower=True, trans="T", check_finite=False)
_factor = partial(linalg.cholesky, lower=True, check_finite=False)


@dataclass(frozen=True)
class Observation:
    """Measurements of sums of effects, one per row.

    Attributes:
        mean: The expected values.
        loads: How much each effect changes them, rows × effects known so far.
        noisy: What was measured.
        variance: The variance of the noise.
        states: The state of each row; empty for the nation.
    """

    mean: Array
    loads: sparse.csr_array
    noisy: Array
    variance: Array
    states: Sequence[str]


def widened(load: sparse.csr_array, width: int) -> sparse.csr_array:
    """Loadings with columns for effects that were added later."""
    return sparse.csr_array((load.data, load.indices, load.indptr), shape=(load.shape[0], width))


@dataclass(frozen=True)
class _State:
    """The measurements of one state, and the effects that no other state shares."""

    rows: Indices
    columns: Indices
    #: How measurements of the state, and then of the nation, depend on these effects.
    own: Array
    nation: Array


class Measurements:
    """Measurements of effects, arranged by state. They can be used with any prior variances.

    Attributes:
        gaps: Observed minus expected values.
        loads: How the measurements depend on the effects.
        noise: The variance of their noise.
    """

    def __init__(self, observations: Sequence[Observation], effects: int) -> None:
        self.gaps = np.concatenate([np.empty(0), *(o.noisy - o.mean for o in observations)])
        self.noise = np.concatenate([np.empty(0), *(o.variance for o in observations)])
        empty = sparse.csr_array((0, effects))
        self.loads = sparse.vstack([empty, *(widened(o.loads, effects) for o in observations)], format="csr")
        names, state = np.unique(["", *(name for o in observations for name in o.states)], return_inverse=True)
        of_row = state[1:] - 1  # −1 is the nation.
        row, effect, value = _entries(self.loads)
        of_state = of_row[row] >= 0
        first, last = np.full(effects, len(names)), np.full(effects, -1)
        np.minimum.at(first, effect[of_state], of_row[row[of_state]])
        np.maximum.at(last, effect[of_state], of_row[row[of_state]])
        #: The number of the state that alone measures an effect, or `SHARED` or `UNMEASURED`.
        self.state_of = np.select([first == last, first < last], [first, SHARED], UNMEASURED)
        self.shared: Indices = np.flatnonzero(self.state_of == SHARED)
        self.rest: Indices = np.flatnonzero(self.state_of == UNMEASURED)
        self.national: Indices = np.flatnonzero(of_row < 0)
        #: The place of an effect, and of a row, among those of its state.
        self.place_of, row_place = np.empty(effects, np.intp), np.empty(len(of_row), np.intp)
        row_place[self.national] = np.arange(len(self.national))
        self.states: list[_State] = []
        for number, entries in enumerate(self.by_state(effect, len(names) - 1)):
            rows, columns = np.flatnonzero(of_row == number), np.flatnonzero(self.state_of == number)
            row_place[rows], self.place_of[columns] = np.arange(len(rows)), np.arange(len(columns))
            inside = of_state[entries]
            matrices = np.zeros((len(rows), len(columns))), np.zeros((len(self.national), len(columns)))
            for matrix, chosen in zip(matrices, (entries[inside], entries[~inside]), strict=True):
                np.add.at(matrix, (row_place[row[chosen]], self.place_of[effect[chosen]]), value[chosen])
            self.states.append(_State(rows, columns, *matrices))

    def by_state(self, effects: Indices, states: int) -> Iterator[Indices]:
        """Yield, for each state, which of some effects it alone measures."""
        state = self.state_of[effects]
        order = np.argsort(state, kind="stable")
        ends = np.searchsorted(state[order], np.arange(states + 1))
        yield from (order[first:last] for first, last in pairwise(ends))


def _entries(matrix: sparse.csr_array) -> tuple[Indices, Indices, Array]:
    """The row, column and value of every entry of a sparse matrix."""
    entries = matrix.tocoo()
    return entries.coords[0].astype(np.intp), entries.coords[1].astype(np.intp), entries.data


@dataclass(frozen=True)
class EffectsPosterior:
    """The posterior of effects, given their prior variances and measurements."""

    prior: Array = field(repr=False)
    measurements: Measurements = field(repr=False)

    @cached_property
    def _factors(self) -> tuple[list[tuple[Array, Array]], Array]:
        """The factor of S: for each state, its block and the border below; then the corner of the nation."""
        given = self.measurements
        outside = given.loads[given.national][:, given.rest]
        corner = (outside.multiply(self.prior[given.rest]) @ outside.T).toarray()
        corner += np.diag(given.noise[given.national])
        blocks = []
        for state in given.states:
            scaled = state.own * self.prior[state.columns]
            block = _factor(scaled @ state.own.T + np.diag(given.noise[state.rows]))
            border = _lower(block, scaled @ state.nation.T)
            corner += (state.nation * self.prior[state.columns]) @ state.nation.T - border.T @ border
            blocks.append((block, border))
        return blocks, _factor(corner) if len(corner) else corner

    @cached_property
    def _shared(self) -> tuple[Array, Array]:
        """G' D₀^½, and the factor of 1 + D₀^½ G'ᵀ G' D₀^½."""
        shared = self.measurements.shared
        scaled = self._forward(self.measurements.loads[:, shared].toarray()) * np.sqrt(self.prior[shared])
        return scaled, _factor(np.eye(len(shared)) + scaled.T @ scaled)

    def _forward(self, side: Array) -> Array:
        """L⁻¹ times the columns of a matrix."""
        blocks, corner = self._factors
        solved, national = np.empty_like(side), side[self.measurements.national]
        for state, (block, border) in zip(self.measurements.states, blocks, strict=True):
            solved[state.rows] = _lower(block, side[state.rows])
            national -= border.T @ solved[state.rows]
        solved[self.measurements.national] = _lower(corner, national) if len(corner) else national
        return solved

    def _backward(self, side: Array) -> Array:
        """L⁻ᵀ times the columns of a matrix."""
        blocks, corner = self._factors
        solved = np.empty_like(side)
        national = _upper(corner, side[self.measurements.national]) if len(corner) else side[:0]
        solved[self.measurements.national] = national
        for state, (block, border) in zip(self.measurements.states, blocks, strict=True):
            solved[state.rows] = _upper(block, side[state.rows] - border @ national)
        return solved

    def gain(self, gaps: Array) -> Array:
        """D Aᵀ M⁻¹ times the columns of a matrix: how gaps between measurements and expectations change effects."""
        scaled, factor = self._shared
        half = self._forward(gaps)
        half -= scaled @ _upper(factor, _lower(factor, scaled.T @ half))
        return np.asarray(self.prior[:, None] * (self.measurements.loads.T @ self._backward(half)))

    @cached_property
    def mean(self) -> Array:
        """The mean of every effect."""
        return self.gain(self.measurements.gaps[:, None])[:, 0]

    def _known(self, sums: sparse.csr_array) -> tuple[list[tuple[Indices, Array]], Array]:
        """What measurements reveal about some sums, which reduces their covariance, and what remains unknown.

        Returns:
            Blocks (which sums, F), and Y: given the shared effects, the covariance falls by the sum of FᵀF over blocks;
            as these are uncertain, it rises by YᵀY.
        """
        given, prior = self.measurements, self.prior
        blocks, corner = self._factors
        scaled, factor = self._shared
        by_effect = sums.tocsc()
        outside = by_effect[:, given.rest].multiply(prior[given.rest]).T
        nation = (given.loads[given.national][:, given.rest] @ outside.tocsc()).toarray()
        common = (by_effect[:, given.shared].toarray() * np.sqrt(prior[given.shared])).T
        line, effect, value = _entries(sums)
        found = []
        of_state = given.by_state(effect, len(given.states))
        for state, (block, border), own in zip(given.states, blocks, of_state, strict=True):
            touched, place = np.unique(line[own], return_inverse=True)
            side = np.zeros((len(state.columns), len(touched)))
            np.add.at(side, (given.place_of[effect[own]], place), value[own] * prior[effect[own]])
            known = _lower(block, state.own @ side)
            nation[:, touched] += state.nation @ side - border.T @ known
            common[:, touched] -= scaled[state.rows].T @ known
            found.append((touched, known))
        if len(corner):
            found.append((np.arange(sums.shape[0]), _lower(corner, nation)))
            common -= scaled[given.national].T @ found[-1][1]
        return found, _lower(factor, common)

    @cached_property
    def _unshared(self) -> Array:
        """The prior variances of effects that are not shared; zero for the others."""
        variances = self.prior.copy()
        variances[self.measurements.shared] = 0
        return variances

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of effects, one per row."""
        total = sums.multiply(sums) @ self._unshared
        for start in range(0, len(total), LINES):
            found, unknown = self._known(sums[start : start + LINES])
            part = total[start : start + LINES]
            part += np.einsum("ij,ij->j", unknown, unknown)
            for touched, known in found:
                part[touched] -= np.einsum("ij,ij->j", known, known)
        return np.asarray(np.maximum(total, 0.0))

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of effects, one per row."""
        found, unknown = self._known(sums)
        total = (sums.multiply(self._unshared) @ sums.T).toarray() + unknown.T @ unknown
        for touched, known in found:
            total[np.ix_(touched, touched)] -= known.T @ known
        return np.asarray(total)

    def covariance_with(self, sums: sparse.csr_array) -> Array:
        """Return the covariance of every effect with linear combinations, effects × combinations."""
        scaled = sums.multiply(self.prior).T.toarray()
        return np.asarray(scaled - self.gain(self.measurements.loads @ scaled))

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the errors of the mean, effects × draws."""
        effects = standard(len(self.prior)) * np.sqrt(self.prior)[:, None]
        noise = standard(len(self.measurements.noise)) * np.sqrt(self.measurements.noise)[:, None]
        return np.asarray(effects - self.gain(self.measurements.loads @ effects + noise))

    @cached_property
    def log_likelihood(self) -> float:
        """The logarithm of the likelihood of the measurements, up to a constant."""
        scaled, factor = self._shared
        half = self._forward(self.measurements.gaps[:, None])
        common = _lower(factor, scaled.T @ half)
        blocks, corner = self._factors
        diagonals = [np.diagonal(matrix) for matrix in (*(block for block, _ in blocks), corner, factor)]
        return float((np.sum(common**2) - np.sum(half**2)) / 2 - np.log(np.concatenate(diagonals)).sum())


@dataclass(frozen=True)
class UniversesPosterior:
    """The posterior of the effects of several universes, which have none in common: those of the first come first."""

    parts: Sequence[EffectsPosterior]

    def _split(self, sums: sparse.csr_array) -> Iterator[tuple[EffectsPosterior, sparse.csr_array]]:
        """Yield the posterior of every universe, and its part of linear combinations."""
        ends = np.cumsum([0, *(len(part.prior) for part in self.parts)])
        by_effect = widened(sums, ends[-1]).tocsc()
        for part, (first, last) in zip(self.parts, pairwise(ends), strict=True):
            yield part, by_effect[:, first:last].tocsr()

    @cached_property
    def mean(self) -> Array:
        """The mean of every effect."""
        return np.concatenate([np.empty(0), *(part.mean for part in self.parts)])

    def variance(self, sums: sparse.csr_array) -> Array:
        """Return the variance of linear combinations of effects, one per row."""
        none = np.zeros(sums.shape[0])
        return np.asarray(sum((part.variance(own) for part, own in self._split(sums) if own.nnz), none))

    def covariance(self, sums: sparse.csr_array) -> Array:
        """Return the covariance matrix of a few linear combinations of effects, one per row."""
        none = np.zeros((sums.shape[0], sums.shape[0]))
        return np.asarray(sum((part.covariance(own) for part, own in self._split(sums) if own.nnz), none))

    def covariance_with(self, sums: sparse.csr_array) -> Array:
        """Return the covariance of every effect with linear combinations, effects × combinations."""
        none = np.empty((0, sums.shape[0]))
        return np.concatenate([none, *(part.covariance_with(own) for part, own in self._split(sums))])

    def draws(self, standard: NormalDraws) -> Array:
        """Return draws of the errors of the mean, effects × draws."""
        return np.concatenate([standard(0), *(part.draws(standard) for part in self.parts)])
