"""The solver: budgets that meet MOE targets, or the optimal split of a fixed total.

A level's squared MOE is c/ρ under zCDP and c/ε² under pure DP. For a fixed Σ ρ, the weighted sum Σ w·c/ρ^p is minimal
at ρ ∝ (w·c)^(1/(p+1)), which under zCDP is ρ ∝ √(w·k). Where the loss per unit of ρ differs between tabulations (its
price), it divides w·c. Where that falls below a floor, the floor binds and the rest is split again (water-filling).
Budgets are whole millionths; the millionths left over by rounding go where they reduce the sum most, so the losses add
up to the total exactly. Where the loss of a run is less than their sum, budgets are raised until it reaches the total.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer import solve_targets
from phsafe.explorer.page_requests import Key, Request
from phsafe.model.exact_numbers import text
from phsafe.model.spec import CatalogSource
from phsafe.privacy.accountant import plan
from phsafe.privacy_math.margins import Z

if TYPE_CHECKING:
    from phsafe.explorer.solver_preview import Preview

MILLION = 1_000_000
Aim = Literal["measured", "finished"]


@dataclass(frozen=True)
class Solution:
    """The result of `solve`.

    Attributes:
        config: The config with its new budgets.
        before: The config as it was, in the sensitivity mode and privacy definition that the targets ask for.
        weights: The weight of each level's squared MOE, by tabulation and level.
        preview: For finished tables, who wins and who loses; None otherwise.
    """

    config: Config
    before: Config
    weights: Mapping[Key, Decimal] = field(repr=False)
    preview: Preview | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the totals of stated budgets, the weighted sums of squared MOEs, before and after, and the preview."""
        return {
            "total": self.config.total,
            "total_before": self.before.total,
            "weighted_squared_moe": squared_moe(self.config, self.weights),
            "weighted_squared_moe_before": squared_moe(self.before, self.weights),
            **({} if self.preview is None else {"preview": self.preview.to_dict()}),
        }


@dataclass(frozen=True)
class Item:
    """A level that gets part of the total. `cost` is w·c; `floor` is its least budget, in millionths."""

    key: Key
    cost: float
    floor: int
    #: The loss of a millionth of its budget, as a multiple of the smallest such loss of all items.
    price: int = 1


def solve(
    config: str | Path | Mapping[str, Any] | Config,
    targets: str | Path | Mapping[str, Any] | Request,
    catalog: CatalogSource | None = None,
    *,
    aim: Aim = "measured",
    baseline: str | Path | Mapping[str, Any] | Config | None = None,
) -> Solution:
    """Find the budgets that meet MOE targets, or that split a total with the least error.

    Without a total, every level with a target gets the budget that meets it, levels below a floor are raised to it,
    and all others keep their budgets. With a total, the unlocked levels share it so that the weighted sum of squared
    MOEs is minimal; targets and floors then limit the split. No data is needed.

    For finished tables (`aim="finished"`), margins are those after joint estimation. Without a total, the loss is the
    smallest with which every limit is met; with one, the weighted sum of squared ratios of margins, after to before, is
    the smallest.

    Args:
        config: A config file (JSON or TOML), a mapping of the same form, or a loaded config.
        targets: What to solve for: a TOML or JSON file or a mapping with any of `total`, `neighbours`, `sensitivity`,
            `privacy`, `weights`, `moe`, `floors`, `locks`, `worse` and `groups`, as for `phsafe solve`; or a checked
            `Request`.
        catalog: The tables and levels of the config: a `Catalog`, or a JSON or TOML file of one.
        aim: Whether margins are those of the noisy counts ("measured") or of finished tables, after joint estimation
            ("finished"). The latter needs smaller budgets.
        baseline: For finished tables, the config to compare margins with, and to which `worse` refers; by default
            `config` as it is.

    Returns:
        The solution. Its `config` has the new budgets and can go to `phsafe.budget` or `phsafe.release`.

    Raises:
        ConfigError: If the config or the targets are invalid; all problems are reported together.
        PHSafeError: If the total is too small for the locked levels, floors and targets, if nothing is left to
            split, or if a national level is asked for in a Puerto Rico run.

    Example:
        >>> import phsafe
        >>> solution = phsafe.solve("examples/us.json", {"moe": {"PH3": {"state_A-G": 40}}})
        >>> solution.config.budgets["PH3"]["state_A-G"]
        Decimal('0.165744')
        >>> solution = phsafe.solve("examples/us.json", {"total": 1, "weights": "cells"})
        >>> solution.config.total == 1
        True
        >>> request = {"total": 1.2, "worse": 0, "locks": {"PH2": True}, "sensitivity": "tight"}
        >>> solution = phsafe.solve("examples/us.json", request, aim="finished")
        >>> solution.preview.losers
        ()
    """
    loaded = Config.load(config, catalog)
    request = targets if isinstance(targets, Request) else Request.load(targets, loaded)
    if aim == "measured" and (request.needs_finished or baseline is not None):
        raise PHSafeError(
            "worse, groups, baseline: expected them only with targets for finished tables; add --for finished"
        )
    before = _with_modes(loaded, request)
    budgets = {name: dict(levels) for name, levels in before.budgets.items()}
    for (name, level), target in request.moe.items():
        budgets[name][level] = solve_targets.budget_for(before, (name, level), target) if target > 0 else Decimal(0)
    for (name, level), floor in request.floors.items():
        budgets[name][level] = max(budgets[name][level], floor)
    _refuse_nation_in_puerto_rico(before, budgets)
    asked = replace(before, budgets=budgets)
    weights = {key: request.weight(asked, key) for key in _keys(asked)}
    if aim == "finished":
        from phsafe.explorer.solver_preview import solve_finished  # noqa: PLC0415  (SciPy is slow to load)

        found, preview = solve_finished(asked, request, _baseline(baseline, loaded))
        return Solution(found, before, weights, preview)
    if request.total is None:
        return Solution(asked, before, weights)
    return Solution(_split(asked, before, request, weights), before, weights)


def _baseline(baseline: str | Path | Mapping[str, Any] | Config | None, loaded: Config) -> Config:
    return loaded if baseline is None else Config.load(baseline, loaded.catalog)


def squared_moe(config: Config, weights: Mapping[Key, Decimal] | None = None) -> float:
    """Return the weighted sum of squared MOEs over all tabulations and levels; weights default to 1."""
    return math.fsum(
        float((weights or {}).get((m.tabulation.name, m.level.key), Decimal(1)))
        * _squared_moe_factor(config, (m.tabulation.name, m.level.key))
        / float(m.budget) ** _power(config)
        for m in config.measurements()
    )


def split_total(total: int, items: list[Item], power: int) -> dict[Key, int]:
    """Split `total` millionths so that Σ cost/ρ^power is minimal and every item gets at least its floor.

    A millionth of an item's budget takes its price from the total. At least one item has price 1.

    >>> split_total(30, [Item(("a", ""), 1.0, 1), Item(("b", ""), 4.0, 1)], power=1)
    {('a', ''): 10, ('b', ''): 20}
    >>> split_total(40, [Item(("a", ""), 1.0, 1), Item(("b", ""), 2.0, 1, price=2)], power=1)
    {('a', ''): 14, ('b', ''): 13}
    """
    free, bound = list(items), 0
    while free:
        share = (total - bound) / math.fsum(i.price * _relative_share(i, power) for i in free)
        low = [i for i in free if _relative_share(i, power) * share < i.floor]
        if not low:
            break
        bound += sum(i.price * i.floor for i in low)
        free = [i for i in free if i not in low]
    given = {i.key: i.floor for i in items}
    for i in free:
        given[i.key] = max(i.floor, math.floor(_relative_share(i, power) * share))

    def gain(item: Item) -> float:
        n = given[item.key]
        return -item.cost * (float(n) ** -power - float(n + 1) ** -power) / item.price

    left = total - sum(i.price * given[i.key] for i in items)
    queue = [(gain(item), item.key, item) for item in items]
    heapq.heapify(queue)
    while left:
        _, _, item = heapq.heappop(queue)
        if item.price <= left:
            given[item.key] += 1
            left -= item.price
            heapq.heappush(queue, (gain(item), item.key, item))
    return given


def _split(asked: Config, before: Config, request: Request, weights: Mapping[Key, Decimal]) -> Config:
    assert request.total is not None
    loss_of = {key: _loss_multiple(asked, key, request) for key in {*_keys(asked), *request.locks}}
    locked = {key: before.budgets[key[0]][key[1]] for key in request.locks}
    spent = sum((loss_of[key] * Fraction(budget) for key, budget in locked.items()), Fraction(0))
    least = {**{key: Decimal(0) for key in _keys(asked)}, **request.floors}
    for key, target in request.moe.items():
        if target > 0:
            least[key] = max(least[key], solve_targets.budget_for(asked, key, target))
    free = [key for key in _keys(asked) if key not in locked]
    if not free:
        raise PHSafeError("total: there is nothing to split, every level is locked or switched off; unlock one first")
    smallest = min(loss_of[key] for key in free)
    items = [
        Item(
            key,
            float(weights[key]) * _squared_moe_factor(asked, key),
            max(1, math.ceil(least[key] * MILLION)),
            math.ceil(loss_of[key] / smallest),
        )
        for key in free
    ]
    available = math.floor((Fraction(request.total) - spent) / smallest * MILLION)
    need = sum(item.price * item.floor for item in items)
    if available < need:
        least_total = text(smallest * Fraction(need, MILLION) + spent)
        raise PHSafeError(
            f"total: expected at least {least_total}, which locks, floors, targets and 0.000001 for every other level "
            f"need, got {request.total:f}; raise the total, or relax some of them"
        )

    def split(millionths: int) -> Config:
        budgets = {name: dict(levels) for name, levels in asked.budgets.items()}
        for key, units in split_total(millionths, items, _power(asked)).items():
            budgets[key[0]][key[1]] = Decimal(units).scaleb(-6)
        for key, budget in locked.items():
            budgets[key[0]][key[1]] = budget
        return replace(asked, budgets=budgets)

    return _largest(available, split, lambda config: _loss(config, request) <= Fraction(request.total or 0))


def _largest(known: int, split: Callable[[int], Config], fits: Callable[[Config], bool]) -> Config:
    """Return the split of as many millionths as fit into the total, searching upwards from a number known to fit.

    The sum over levels is at least the loss of a run, because levels are accounted jointly; in the published mode it is
    the loss.
    """
    low, high = known, known + 1
    while fits(split(high)):
        low, high = high, high + 2 * (high - low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(split(middle)) else (low, middle)
    return split(low)


def _loss(config: Config, request: Request) -> Fraction:
    """Return the loss of a run of the config, for the neighbours of a request."""
    total = plan(config).total
    return total.bounded if request.neighbours == "bounded" else total.unbounded


def _loss_multiple(config: Config, key: Key, request: Request) -> Fraction:
    """Return the loss of a level by itself per unit of its stated budget, for the neighbours of a request."""
    tabulation = config.catalog.tabulation(key[0])
    level = next(level for level in config.catalog.levels if level.key == key[1])
    losses = [block.delta.loss(config.privacy, block.share) for block in config.blocks(tabulation, level)]
    return sum((loss[request.neighbours == "bounded"] for loss in losses), Fraction(0))


def _with_modes(config: Config, request: Request) -> Config:
    changed = config.with_sensitivity(request.sensitivity)
    return replace(changed, privacy=request.privacy) if request.privacy else changed


def _keys(config: Config) -> list[Key]:
    return [(m.tabulation.name, m.level.key) for m in config.measurements()]


def _refuse_nation_in_puerto_rico(config: Config, budgets: Mapping[str, Mapping[str, Decimal]]) -> None:
    if not config.is_puerto_rico:
        return
    absent = {level.key for level in config.catalog.levels if not level.geography.puerto_rico}
    wrong = [f"{name}, {key}" for name, of in budgets.items() for key, b in of.items() if key in absent and b]
    if wrong:
        raise PHSafeError(f"expected no national levels in a Puerto Rico config, got {'; '.join(wrong)}")


def _power(config: Config) -> int:
    """Return p in the squared MOE c/ρ^p (c/ε^p under pure DP)."""
    return 1 if config.privacy == "zcdp" else 2


def _relative_share(item: Item, power: int) -> float:
    """Return the optimal budget of an item up to a common factor: (w·c/price)^(1/(p+1))."""
    return float((item.cost / item.price) ** (1 / (power + 1)))


def _squared_moe_factor(config: Config, key: Key) -> float:
    """Return c in MOE² = c/ρ, or in MOE² = c/ε² under pure DP."""
    k = solve_targets.noise_factor(config, key)
    return float(Z**2 * k) if config.privacy == "zcdp" else (float(solve_targets.LN_10) * float(k)) ** 2
