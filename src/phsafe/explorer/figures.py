"""Every number of a scenario, for all faces: the page asks for it, the summary and the workbook print it.

Budgets, losses, variances and margins are those of `phsafe budget`: nothing is computed twice in different ways.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from phsafe.budgets import Budget, Row, budget
from phsafe.config import Config
from phsafe.errors import PHSafeError
from phsafe.exact import round_up, text
from phsafe.explorer import lines, meaning, sums, targets
from phsafe.explorer.public import Truncation
from phsafe.explorer.request import Key
from phsafe.explorer.scenario import Problems, Scenario
from phsafe.privacy.accountant import DEFAULT_DELTA, Loss
from phsafe.privacy.margins import Z
from phsafe.spec import Derived, Table

CURVE_POINTS = 61
CURVE_DECADES = 2


@dataclass(frozen=True)
class Figures:
    """The numbers of one config at one δ."""

    config: Config
    delta: Decimal = DEFAULT_DELTA

    @cached_property
    def budget(self) -> Budget:
        """What `phsafe budget` says."""
        return budget(self.config, self.delta)

    @cached_property
    def loss(self) -> Loss:
        """The loss of the whole run."""
        return self.budget.loss

    @cached_property
    def rows(self) -> dict[Key, Row]:
        """The rows of `phsafe budget`, by tabulation and level."""
        return {(row.event.tabulation, row.event.level): row for row in self.budget.rows}

    def moe(self, part: lines.Part, level: str) -> float:
        """The MOE of a sum of basis cells, by the paper's formula."""
        return sums.moe(self.config.privacy, self.rows[part.tabulation, level].event.noise, part.cells)

    def exact_moe(self, part: lines.Part, level: str) -> int:
        """The MOE of a sum of basis cells, as a quantile of the noise itself."""
        return sums.exact_moe(self.config.privacy, self.rows[part.tabulation, level].event.noise, part.cells)

    def variance(self, part: lines.Part, level: str) -> float:
        """The noise variance of a sum of basis cells."""
        return part.cells * self.rows[part.tabulation, level].event.noise.variance

    def row(self, key: Key) -> dict[str, Any]:
        """One tabulation at one level: losses exactly, margins as `phsafe budget` prints them."""
        row = self.rows[key]
        loss, total = row.event.loss, self.loss
        stated = self.config.budgets[key[0]][key[1]]
        share = float(loss.unbounded / total.unbounded)
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
            "target": text(targets.target_for(self.config, key[0], stated)),
        }

    def derived(self) -> list[dict[str, Any]]:
        """Tabulations that cost nothing: the MOE of each of their cells, by level."""
        found = []
        for output, cells in lines.output_cells(self.config):
            if not isinstance(output, Derived):
                continue
            for cell, terms in cells.items():
                part = lines.Part(output.source, terms)
                margins = {level.key: self._margin(part, level.key) for level in self.config.levels_of(output)}
                found.append({"name": output.name, "cell": cell, "source": output.source, "levels": margins})
        return found

    def table(self, table: Table) -> dict[str, Any]:
        """Every line of a table at every level: MOEs of counts; for averages, of numerator and denominator."""
        levels = [level.key for level in lines.levels_of(self.config, table)]
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
                for m in lines.made(self.config, table)
            ],
        }

    def totals(self) -> dict[str, Any]:
        """The loss of the run, of each tabulation and of each level."""
        loss, tight = self.loss, self.budget.account.tight_total
        epsilon, epsilon_bounded = loss.epsilon(self.delta), loss.epsilon_bounded(self.delta)
        by = {
            kind: {
                name: {
                    "unbounded": text(part.unbounded),
                    "bounded": text(part.bounded),
                    "share": float(part.unbounded / loss.unbounded),
                }
                for name, part in self.budget.account.totals(kind).items()
            }
            for kind in ("tabulation", "level")
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
        """Each tabulation's share of the loss."""
        parts = self.budget.account.totals("tabulation")
        return {name: float(part.unbounded / self.loss.unbounded) for name, part in parts.items()}

    def curve(self, key: Key) -> dict[str, Any]:
        """MOE against budget around the current point, by the paper's formula."""
        reach = float(targets.reach(self.config, key[0]))
        here = float(self.config.budgets[key[0]][key[1]])
        points = []
        for i in range(CURVE_POINTS):
            x = here * 10 ** (CURVE_DECADES * (2 * i / (CURVE_POINTS - 1) - 1))
            zcdp = self.config.privacy == "zcdp"
            points.append((x, float(Z) * (reach / x) ** 0.5 if zcdp else float(targets.LN_10) * reach / x))
        return {"points": points, "budget": here, "moe": self.rows[key].moe}

    def group(self, table: Table, level: str, people: float, units: float) -> dict[str, Any]:
        """What the total line of a table means for a group of this size."""
        total = lines.made(self.config, table)[0]
        if total.per is None:
            return meaning.count(people, self.moe(total.count, level))
        parts = (self.variance(part, level) for part in (total.count, total.per))
        return meaning.average(people, units, *parts)

    def truncation(self, shares: Truncation) -> list[dict[str, Any]]:
        """For each threshold: the share of people it drops."""
        found = []
        for name, tau in self.config.tau.items():
            if self.config.levels_of(self.config.catalog.tabulation(name)):
                dropped = shares.dropped(name, tau)
                found.append({"tabulation": name, "tau": tau, "dropped": dropped, "text": share_text(dropped)})
        return found

    def _margin(self, part: lines.Part, level: str) -> dict[str, Any]:
        moe = self.moe(part, level)
        return {
            "moe": moe,
            "moe_text": f"{moe:,.2f}",
            "moe_exact": self.exact_moe(part, level),
            "cells": part.cells,
        }


def figures(scenario: Scenario) -> tuple[Figures | None, Problems]:
    """The figures of a scenario, or the problems by field."""
    config, delta, problems = scenario.config()
    if config is None:
        return None, problems
    found = Figures(config, delta)
    try:
        found.budget  # noqa: B018  (noise that doesn't fit 64-bit integers is refused here)
    except PHSafeError as error:
        return None, {"scenario": "; ".join(error.reasons)}
    return found, {}


def share_text(percent: float | None) -> str:
    """A share of people in percent, for people."""
    if percent is None:
        return "unknown"
    return f"{percent:.2f} %" if percent >= 0.1 else f"{percent:.3f} %"


def _four(value: float) -> str:
    return round_up(Fraction(value), 4)
