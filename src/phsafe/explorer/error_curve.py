"""Noise and truncation in one chart: the total error of a group's count for every threshold τ, in people.

A larger τ leaves out fewer people but needs more noise. With noise of margin m (90 %) and b people left out, the count
is within `total` of the true one in nine of ten releases, where `total` is the 90 % quantile of |noise − b|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from phsafe.configs.config import Config
from phsafe.configs.line_sums import CellSum
from phsafe.estimation.public_shares import public_shares
from phsafe.explorer import public_tables
from phsafe.explorer.figures import Figures
from phsafe.explorer.group_margins import is_published
from phsafe.explorer.page_requests import Key
from phsafe.explorer.pinned_groups import PinnedGroup, find
from phsafe.explorer.plain_language import short
from phsafe.explorer.public_tables import Truncation
from phsafe.privacy_math.margins import Z

THRESHOLDS = range(1, 21)


def error_curve(found: Figures, key: Key, pins: Sequence[PinnedGroup], shares: Truncation) -> dict[str, Any] | None:
    """Return the errors of a group's count for every threshold of its tabulation; None if it has no threshold.

    Args:
        found: The figures of the config.
        key: The tabulation and the level.
        pins: Groups to choose from: the first one of this tabulation and level. Otherwise it is the largest.
        shares: The shares of people that each threshold drops.
    """
    tabulation = found.config.catalog.tabulation(key[0])
    pin = _pin(found, key, pins)
    if not tabulation.is_truncated or pin is None or pin.sizes[0] is None:
        return None
    size, tau = pin.sizes[0], found.config.tau[key[0]]
    points, thresholds = [], tuple(sorted({*THRESHOLDS, tau}))
    for threshold, noise in zip(thresholds, _noise(_alone(found, key), key, pin.sums.count, thresholds), strict=True):
        share = dropped_share(pin, threshold, shares)
        if share is None:
            return None
        dropped = size * share
        points.append({"tau": threshold, "noise": noise, "dropped": dropped, "total": total_error(noise, dropped)})
    now = next(point for point in points if point["tau"] == tau)
    best = min(points, key=lambda point: point["total"])
    return {
        "tabulation": key[0],
        "level": key[1],
        "label": pin.label if pin.sums.per is None else f"people counted for: {pin.label}",
        "size": size,
        "tau": tau,
        "best": best["tau"],
        "points": points,
        "measured": _measured(found, key, now),
        "sentence": _sentence(now, best),
        "source": shares.source,
    }


def total_error(noise: float, dropped: float) -> float:
    """Return the 90 % quantile of the error of a count with a noise margin and people left out.

    >>> total_error(16.45, 0), round(total_error(1.645, 1000), 1)
    (16.45, 1001.3)
    """
    sd = noise / float(Z)
    if sd == 0 or dropped == 0:
        return max(noise, dropped)
    whole = math.erf(float(Z) / math.sqrt(2))  # 90 % by the paper's z, so that noise alone gives its own margin.

    def inside(width: float) -> float:
        return 0.5 * (math.erf((width - dropped) / sd / math.sqrt(2)) + math.erf((width + dropped) / sd / math.sqrt(2)))

    low, high = dropped, dropped + noise
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < whole else (low, middle)
    return max(high, noise)


def _pin(found: Figures, key: Key, pins: Sequence[PinnedGroup]) -> PinnedGroup | None:
    """Return the first pinned group of a tabulation and level, or the largest group of its table's total."""
    for pin in pins:
        if (pin.sums.count.tabulation, pin.level.key) == key and is_published(pin, found):
            return pin
    catalog = found.config.catalog
    level = next(level for level in catalog.levels if level.key == key[1])
    known = [(r, i.code) for r, i in level.groups(found.config.states) if (r, i.code) in public_tables.groups()]
    if not known:
        return None
    region, code = max(known, key=lambda group: public_tables.groups()[group][1])
    table = catalog.table_of(catalog.tabulation(key[0]))
    parts = find(catalog, table.name, str(table.shell[0].number), region, code)
    return None if parts is None else PinnedGroup(catalog, *parts)


def _alone(found: Figures, key: Key) -> Config:
    """Return the config with this level alone, so that its noise doesn't depend on other levels."""
    budgets = {
        name: {level: budget if (name, level) == key else Decimal(0) for level, budget in levels.items()}
        for name, levels in found.config.budgets.items()
    }
    return replace(found.config, budgets=budgets, tau={**found.config.tau, key[0]: 1})


@lru_cache(maxsize=256)
def _noise(alone: Config, key: Key, part: CellSum, thresholds: tuple[int, ...]) -> tuple[float, ...]:
    """Return the margin of a sum of cells for every threshold, with the same budget."""
    configs = (replace(alone, tau={**alone.tau, key[0]: tau}) for tau in thresholds)
    return tuple(Figures(config).moe(part, key[1]) for config in configs)


def dropped_share(pin: PinnedGroup, tau: int, shares: Truncation) -> float | None:
    """Return the share of a group's people that a threshold drops; None if it is unknown.

    Where public data show it, the share differs by region, race or ethnicity, and cell.
    """
    name = pin.sums.count.tabulation
    percent = shares.dropped(name, tau)
    if percent is None:
        return None
    public, factor = public_shares(), 1.0
    if public.knows(name):
        cells = [public.factor(name, "cells", str(cell)) for cell in pin.sums.count.basis]
        weights = [public_tables.cells().get(name, {}).get(cell, 1.0) for cell in pin.sums.count.basis]
        of_cells = sum(w * c for w, c in zip(weights, cells, strict=True)) / sum(weights)
        if len(cells) == len(pin.catalog.tabulation(name).cells):
            of_cells = 1.0  # All cells together drop the share of the tabulation.
        factor = of_cells * public.region(name, pin.region)
        factor = (factor * public.factor(name, "iterations", pin.iteration.code)) ** public.rarity(name, tau)
    return min(1.0, percent / 100 * factor)


def _measured(found: Figures, key: Key, now: dict[str, Any]) -> dict[str, Any] | None:
    """Return the measurement of what this threshold drops at this level, if the config has one."""
    for (name, level), row in found.rows.items():
        tabulation = found.config.catalog.tabulation(name)
        if tabulation.beyond is None or tabulation.beyond.name != key[0] or level != key[1]:
            continue
        what = "people dropped" if tabulation.counts_persons else "households with people dropped"
        sentence = (
            f"This config measures what the threshold drops: {name}, {what}, ± {short(row.moe)} in each cell, so "
            "estimates can add them back."
        )
        together = math.hypot(now["noise"], row.moe) if tabulation.counts_persons else None
        return {"tabulation": name, "moe": row.moe, "total": together, "sentence": sentence}
    return None


def _sentence(now: dict[str, Any], best: dict[str, Any]) -> str:
    today = (
        f"With τ = {now['tau']}, noise is ± {short(now['noise'])} and about {short(now['dropped'])} people are left "
        f"out: in nine of ten releases the count is within {short(now['total'])} of the true one."
    )
    if best["tau"] == now["tau"]:
        return f"{today} No other τ does better for this group."
    return f"{today} The total error is smallest at τ = {best['tau']}: {short(best['total'])}."
