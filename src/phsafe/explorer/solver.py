"""The best split of a fixed total, and targets turned into budgets; locked levels stay as they are.

A level's squared MOE is c/ρ under zCDP and c/ε² under pure DP. The weighted sum Σ w·c/ρ^p under a fixed Σ ρ is least
where ρ ∝ (w·c)^(1/(p+1)), for zCDP ρ ∝ √(w·k); where that is below a floor, the floor binds and the rest is split
again (water-filling). Budgets are whole millionths, and the millionths left by rounding go where they help most, so
the sum is exact.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from phsafe.config import Config
from phsafe.errors import PHSafeError
from phsafe.exact import text
from phsafe.explorer import targets
from phsafe.explorer.request import Key, Request
from phsafe.privacy import sensitivity
from phsafe.privacy.margins import Z

MILLION = 1_000_000


@dataclass(frozen=True)
class Solution:
    """A solved config, and how it compares with the config it came from on the same weights."""

    config: Config
    before: Config
    weights: Mapping[Key, Decimal]

    def to_dict(self) -> dict[str, Any]:
        """The totals and the weighted sums of squared MOEs, before and after."""
        return {
            "total": self.config.total,
            "total_before": self.before.total,
            "weighted_squared_moe": squared_moe(self.config, self.weights),
            "weighted_squared_moe_before": squared_moe(self.before, self.weights),
        }


@dataclass(frozen=True)
class Item:
    """A level to be given a budget, in millionths: `cost` is w·c, `floor` the least it may get."""

    key: Key
    cost: float
    floor: int


def solve(config: Config, request: Request) -> Solution:
    """The config with the budgets that a request asks for.

    >>> us = Config.load("examples/us.json")
    >>> solution = solve(us, Request(total=Decimal("1.257281")))
    >>> solution.config.total == us.total, squared_moe(solution.config) < squared_moe(us)
    (True, True)
    """
    before = _with_modes(config, request)
    budgets = {name: dict(levels) for name, levels in before.budgets.items()}
    for (name, level), target in request.moe.items():
        budgets[name][level] = targets.budget_for(before, name, target) if target > 0 else Decimal(0)
    for (name, level), floor in request.floors.items():
        budgets[name][level] = max(budgets[name][level], floor)
    _only_nations(before, budgets)
    asked = replace(before, budgets=budgets)
    weights = {key: request.weight(asked, key) for key in _keys(asked)}
    if request.total is None:
        return Solution(asked, before, weights)
    return Solution(_split(asked, before, request, weights), before, weights)


def squared_moe(config: Config, weights: Mapping[Key, Decimal] | None = None) -> float:
    """The weighted sum of squared MOEs over tabulations and levels (all weights 1 unless given)."""
    return math.fsum(
        float((weights or {}).get((m.tabulation.name, m.level.key), Decimal(1)))
        * _square(config, m.tabulation.name)
        / float(m.budget) ** _power(config)
        for m in config.measurements()
    )


def spread(total: int, items: list[Item], power: int) -> dict[Key, int]:
    """Whole millionths, adding up to `total`, that make Σ cost/ρ^power least with every item at its floor or above.

    >>> spread(30, [Item(("a", ""), 1.0, 1), Item(("b", ""), 4.0, 1)], power=1)
    {('a', ''): 10, ('b', ''): 20}
    """
    free, bound = list(items), 0
    while free:
        share = (total - bound) / math.fsum(_pull(i, power) for i in free)
        low = [i for i in free if _pull(i, power) * share < i.floor]
        if not low:
            break
        bound += sum(i.floor for i in low)
        free = [i for i in free if i not in low]
    given = {i.key: i.floor for i in items}
    for i in free:
        given[i.key] = max(i.floor, math.floor(_pull(i, power) * share))
    costs = {i.key: i.cost for i in items}

    def gain(key: Key) -> float:
        n = given[key]
        return -costs[key] * (float(n) ** -power - float(n + 1) ** -power)

    queue = [(gain(key), key) for key in given]
    heapq.heapify(queue)
    for _ in range(total - sum(given.values())):
        _, key = heapq.heappop(queue)
        given[key] += 1
        heapq.heappush(queue, (gain(key), key))
    return given


def _split(asked: Config, before: Config, request: Request, weights: Mapping[Key, Decimal]) -> Config:
    total = _stated_total(asked, request)
    locked = {key: before.budgets[key[0]][key[1]] for key in request.locks}
    spent = sum((Fraction(budget) for budget in locked.values()), Fraction(0))
    least = {**{key: Decimal(0) for key in _keys(asked)}, **request.floors}
    for key, target in request.moe.items():
        if target > 0:
            least[key] = max(least[key], targets.budget_for(asked, key[0], target))
    items = [
        Item(key, float(weights[key]) * _square(asked, key[0]), max(1, math.ceil(least[key] * MILLION)))
        for key in _keys(asked)
        if key not in locked
    ]
    room = math.floor((Fraction(total) - spent) * MILLION)
    need = sum(item.floor for item in items)
    if not items:
        raise PHSafeError("total: every level is locked or switched off, so there is nothing to split")
    if room < need:
        taken = "locked levels, floors and targets"
        raise PHSafeError(f"total: {taken} need {text(Fraction(need, MILLION) + spent)}, which is more than {total:f}")
    given = spread(room, items, _power(asked))
    budgets = {name: dict(levels) for name, levels in asked.budgets.items()}
    for key, units in given.items():
        budgets[key[0]][key[1]] = Decimal(units).scaleb(-6)
    for key, budget in locked.items():
        budgets[key[0]][key[1]] = budget
    return replace(asked, budgets=budgets)


def _stated_total(config: Config, request: Request) -> Decimal:
    """The sum of stated budgets that a total loss allows: the loss is the same multiple of every stated budget."""
    assert request.total is not None
    unbounded, bounded = sensitivity.of(None, config.sensitivity).loss(config.privacy, Fraction(1))
    multiple = bounded if request.neighbours == "bounded" else unbounded
    return request.total / Decimal(multiple.numerator) * Decimal(multiple.denominator)


def _with_modes(config: Config, request: Request) -> Config:
    changed = config.with_sensitivity(request.sensitivity)
    return replace(changed, privacy=request.privacy) if request.privacy else changed


def _keys(config: Config) -> list[Key]:
    return [(m.tabulation.name, m.level.key) for m in config.measurements()]


def _only_nations(config: Config, budgets: Mapping[str, Mapping[str, Decimal]]) -> None:
    if not config.is_puerto_rico:
        return
    absent = {level.key for level in config.catalog.levels if not level.geography.puerto_rico}
    wrong = [f"{name}, {key}" for name, of in budgets.items() for key, b in of.items() if key in absent and b]
    if wrong:
        raise PHSafeError(f"expected no nation in a Puerto Rico config, got {'; '.join(wrong)}")


def _power(config: Config) -> int:
    return 1 if config.privacy == "zcdp" else 2


def _pull(item: Item, power: int) -> float:
    return float(item.cost ** (1 / (power + 1)))


def _square(config: Config, tabulation: str) -> float:
    """The c in MOE² = c/ρ or c/ε²."""
    k = targets.reach(config, tabulation)
    return float(Z**2 * k) if config.privacy == "zcdp" else (float(targets.LN_10) * float(k)) ** 2
