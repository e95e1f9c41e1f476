"""All numbers of a scenario, computed once and cached, shared by the page, the summary and the workbook.

Budgets, losses, variances and margins of error come from `phsafe budget`, so there is one source for each number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from phsafe.configs import line_sums
from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer import solve_targets
from phsafe.explorer.page_requests import Key
from phsafe.explorer.public_tables import Truncation
from phsafe.explorer.scenario import Problems, Scenario
from phsafe.model.exact_numbers import round_up, text
from phsafe.model.spec import Derived, Table
from phsafe.privacy.accountant import DEFAULT_DELTA, BlockEvent, Loss
from phsafe.privacy.budgets import Budget, BudgetRow, budget
from phsafe.privacy.mechanism import Noise
from phsafe.privacy_math import noise_sums
from phsafe.privacy_math.margins import Z

CURVE_POINTS = 61
#: How far the curve reaches on either side of the current budget, in powers of ten.
CURVE_DECADES = 2
#: How many configs' figures are kept: those that users change or compare with at the moment.
KEPT = 128


@dataclass(frozen=True)
class Figures:
    """The numbers of one config at one δ."""

    config: Config
    delta: Decimal = DEFAULT_DELTA

    @cached_property
    def budget(self) -> Budget:
        """The result of `phsafe budget`."""
        return budget(self.config, self.delta)

    @cached_property
    def loss(self) -> Loss:
        """The privacy loss of the whole run."""
        return self.budget.loss

    @cached_property
    def rows(self) -> dict[Key, BudgetRow]:
        """The rows of `phsafe budget`, by tabulation and level."""
        return {(row.event.tabulation, row.event.level): row for row in self.budget.rows}

    @cached_property
    def _sum_of_levels(self) -> Fraction:
        return sum((row.event.loss.unbounded for row in self.rows.values()), Fraction(0))

    def moe(self, part: line_sums.CellSum, level: str) -> float:
        """Return the MOE of a sum of basis cells by the paper's formula."""
        noise, terms = self._noise(part, level)
        if noise is None:
            return float(self.exact_moe(part, level))
        return noise_sums.moe(self.config.privacy, noise, terms)

    def exact_moe(self, part: line_sums.CellSum, level: str) -> int:
        """Return the MOE of a sum of basis cells as the 90 % quantile of its noise."""
        noise, terms = self._noise(part, level)
        if noise is None:
            blocks = [(one.noise.scale, set(part.basis) & set(one.block.cells)) for one in self._blocks(part, level)]
            return noise_sums.mixed_geometric_moe(tuple((scale, len(cells)) for scale, cells in blocks))
        return noise_sums.exact_moe(self.config.privacy, noise, terms)

    def variance(self, part: line_sums.CellSum, level: str) -> float:
        """Return the noise variance of a sum of basis cells."""
        blocks = self.rows[part.tabulation, level].event.blocks
        return sum(len(set(part.basis) & set(one.block.cells)) * one.noise.variance for one in blocks)

    def _blocks(self, part: line_sums.CellSum, level: str) -> list[BlockEvent]:
        """Return the blocks of a level that have cells of a sum."""
        events = self.rows[part.tabulation, level].event.blocks
        return [one for one in events if set(part.basis) & set(one.block.cells)]

    def _noise(self, part: line_sums.CellSum, level: str) -> tuple[Noise | None, int]:
        """Return the noise of a term of a sum and the number of terms; mixed Gaussian terms are taken as one.

        Geometric terms of different blocks have no noise in common, so they give None.
        """
        blocks = self._blocks(part, level)
        if len(blocks) == 1:
            return blocks[0].noise, part.cells
        if self.config.privacy == "puredp":
            return None, part.cells
        variance = self.variance(part, level)
        return Noise(blocks[0].noise.distribution, variance**0.5, variance), 1

    def row(self, key: Key) -> dict[str, Any]:
        """Return the figures of one tabulation at one level: exact losses, and MOEs as `phsafe budget` prints them."""
        return self._row_documents[key]

    @cached_property
    def _row_documents(self) -> dict[Key, dict[str, Any]]:
        return {key: self._row(key) for key in self.rows}

    def _row(self, key: Key) -> dict[str, Any]:
        row = self.rows[key]
        loss = row.event.loss
        stated = self.config.budgets[key[0]][key[1]]
        share = float(loss.unbounded / self._sum_of_levels)
        return {
            "budget": text(stated),
            "unbounded": text(loss.unbounded),
            "bounded": text(loss.bounded),
            "share": share,
            "share_text": f"{100 * share:.2f} %",
            "sigma2": row.event.noise.variance,
            "sensitivity": row.event.sensitivity,
            "moe": row.moe,
            "moe_text": f"{row.moe:,.2f}",
            "moe_exact": row.moe_exact,
            "target": text(solve_targets.target_for(self.config, key, stated)),
        }

    def derived(self) -> list[dict[str, Any]]:
        """Return the MOE by level of each cell of the derived tabulations, which need no budget of their own."""
        found = []
        for output, cells in line_sums.output_cells(self.config):
            if not isinstance(output, Derived):
                continue
            for cell, sources in cells.items():
                part = line_sums.CellSum(output.source, sources)
                margins = {level.key: self._margin(part, level.key) for level in self.config.levels_of(output)}
                found.append({"name": output.name, "cell": cell, "source": output.source, "levels": margins})
        return found

    def table(self, table: Table) -> dict[str, Any]:
        """Return the MOE of every line at every level; an average has one for each of its two parts."""
        levels = [level.key for level in line_sums.table_levels(self.config, table)]
        return {
            "name": table.name,
            "levels": levels,
            "lines": [
                {
                    "number": m.line.number,
                    "label": m.line.label,
                    "indent": m.line.indent,
                    "count": {level: self._margin(m.count, level) for level in levels},
                    "per": None if m.per is None else {level: self._margin(m.per, level) for level in levels},
                }
                for m in line_sums.line_sums(self.config, table)
            ],
        }

    @cached_property
    def totals(self) -> dict[str, Any]:
        """The privacy loss of the run, and its parts by tabulation and by level."""
        loss, tight = self.loss, self.budget.account.tight_total
        epsilon, epsilon_bounded = loss.epsilon(self.delta), loss.epsilon_bounded(self.delta)
        # The parts of levels can add up to more than the loss of the run, so shares are of the sum of all parts.
        parts = {grouping: self.budget.account.totals(grouping) for grouping in ("tabulation", "level")}
        by = {
            grouping: {
                name: {
                    "unbounded": text(part.unbounded),
                    "bounded": text(part.bounded),
                    "share": float(part.unbounded / sum(each.unbounded for each in losses.values())),
                }
                for name, part in losses.items()
            }
            for grouping, losses in parts.items()
        }
        return {
            "stated": text(self.config.total),
            "unbounded": text(loss.unbounded),
            "bounded": text(loss.bounded),
            "epsilon": epsilon,
            "epsilon_bounded": epsilon_bounded,
            "epsilon_text": _four(epsilon),
            "epsilon_bounded_text": _four(epsilon_bounded),
            "delta": str(self.delta).lower(),
            "tight_unbounded": round_up(tight.unbounded, 6),
            "tight_bounded": round_up(tight.bounded, 6),
            "by_tabulation": by["tabulation"],
            "by_level": by["level"],
            "measurements": len(self.rows),
        }

    @cached_property
    def totals_by_tabulation(self) -> dict[str, float]:
        """The share of the privacy loss that each tabulation spends."""
        parts = self.budget.account.totals("tabulation")
        return {name: float(part.unbounded / self.loss.unbounded) for name, part in parts.items()}

    def curve(self, key: Key) -> dict[str, Any]:
        """Return the MOE as a function of the budget, around the current budget, by the paper's formula."""
        factor = float(solve_targets.noise_factor(self.config, key))
        here = float(self.config.budgets[key[0]][key[1]])
        points = []
        for i in range(CURVE_POINTS):
            x = here * 10 ** (CURVE_DECADES * (2 * i / (CURVE_POINTS - 1) - 1))
            zcdp = self.config.privacy == "zcdp"
            points.append((x, float(Z) * (factor / x) ** 0.5 if zcdp else float(solve_targets.LN_10) * factor / x))
        return {"points": points, "budget": here, "moe": self.rows[key].moe}

    def average_moe(self, sums: line_sums.LineSum, level: str, people: float, units: float) -> float:
        """Return the 90 % MOE of an average N/D, by the delta method: Var(N/D) ≈ (Var N + (N/D)² Var D)/D²."""
        assert sums.per is not None, "a line of averages has a number of units to divide by"
        noise = self.variance(sums.count, level) + (people / units) ** 2 * self.variance(sums.per, level)
        return float(Z) * math.sqrt(noise) / units

    def truncation(self, shares: Truncation) -> list[dict[str, Any]]:
        """Return the share of people that each threshold drops."""
        found = []
        for name, tau in self.config.tau.items():
            if self.config.levels_of(self.config.catalog.tabulation(name)):
                dropped = shares.dropped(name, tau)
                found.append({"tabulation": name, "tau": tau, "dropped": dropped, "text": share_text(dropped)})
        return found

    def _margin(self, part: line_sums.CellSum, level: str) -> dict[str, Any]:
        moe = self.moe(part, level)
        return {
            "moe": moe,
            "moe_text": f"{moe:,.2f}",
            "moe_exact": self.exact_moe(part, level),
            "cells": part.cells,
        }


def figures(scenario: Scenario) -> tuple[Figures | None, Problems]:
    """Return the figures of a scenario, or None and what is wrong with each field."""
    config, delta, problems = scenario.config()
    if config is None:
        return None, problems
    try:
        return _figures(config, delta), {}
    except PHSafeError as error:
        return None, {"scenario": "; ".join(error.reasons)}


@lru_cache(maxsize=KEPT)
def _figures(config: Config, delta: Decimal) -> Figures:
    found = Figures(config, delta)
    found.budget  # noqa: B018  (raises if the noise could overflow 64-bit integers)
    return found


def share_text(percent: float | None) -> str:
    """Format a share of people, in percent, for display."""
    if percent is None:
        return "unknown"
    return f"{percent:.2f} %" if percent >= 0.1 else f"{percent:.3f} %"


def _four(value: float) -> str:
    return round_up(Fraction(value), 4)
