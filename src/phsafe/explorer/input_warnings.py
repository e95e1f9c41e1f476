"""Warnings about what a user typed or chose: valid but extreme, or probably a mistake. They never block.

Each is one sentence with the path of its field, and some have a fix: the scenario as it was probably meant.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from phsafe.errors import PHSafeError
from phsafe.explorer import plain_language, public_tables, solve_targets
from phsafe.explorer.budget_conversion import converted
from phsafe.explorer.figures import Figures, share_text
from phsafe.explorer.page_requests import Key
from phsafe.explorer.public_tables import Truncation
from phsafe.explorer.scenario import BudgetEntry, Scenario
from phsafe.explorer.scenario_view import View
from phsafe.model.exact_numbers import text
from phsafe.model.levels import Level
from phsafe.privacy.budgets import MODE_CAVEAT, UNITS
from phsafe.privacy_math.sensitivity import Definition, Mode

#: A budget of at least this much is more than any level needs, so it is likely a margin of error.
LIKELY_MARGIN: dict[Definition, Decimal] = {"zcdp": Decimal(2), "puredp": Decimal(10)}
#: A margin of error below this many people publishes practically exact counts.
EXACT = 1.0
#: An attacker who is right more often than this learns almost everything.
CERTAIN = 0.99
#: Thresholds that drop more than this share of people, in percent, or that are larger than any household needs.
DROPS_MUCH, LARGE_TAU = 5.0, 30
#: A δ above one in a hundred million is larger than one person in the nation.
LARGE_DELTA = Decimal("1e-8")
#: What each mode guarantees, for the sentence about it.
HOLDS: dict[Mode, str] = {
    "tight": "it guarantees the stated loss for one person added or removed, with less noise",
    "tight-bounded": "it guarantees twice the stated loss for one person's record changed, as in 2020, with less noise",
    "structured": "it guarantees the stated loss for one person added or removed, and counts cells that need no "
    "household table with the least noise",
}


def warnings(view: View, shares: Truncation) -> list[dict[str, Any]]:
    """Return everything that a user should look at again, most important first."""
    return [*_meant_otherwise(view), *_mode(view), *_extreme(view.found, view.scenario), *_thresholds(view, shares)]


def _warning(path: str, kind: str, sentence: str, label: str = "", fixed: Scenario | None = None) -> dict[str, Any]:
    fix = None if fixed is None else {"label": label, "scenario": fixed.to_dict()}
    return {"path": path, "kind": kind, "sentence": sentence, "fix": fix}


def _meant_otherwise(view: View) -> Iterator[dict[str, Any]]:
    """Margins typed as budgets, and ρ read as ε."""
    found, scenario = view.found, view.scenario
    unit = UNITS[found.config.privacy]
    for key, row in found.rows.items():
        budget = found.config.budgets[key[0]][key[1]]
        if scenario.units[key[0]] != "budget" or budget < LIKELY_MARGIN[found.config.privacy]:
            continue
        meant = _as_margin(found, scenario, key, budget)
        share = found.row(key)["share_text"]
        yield _warning(
            f"entries.{key[0]}.{key[1]}",
            "margin",
            f"{text(budget)} is a budget ({unit}) here: it takes {share} of the privacy loss for a margin of "
            f"± {plain_language.short(row.moe)}. Did you mean a margin of error of {text(budget)}?",
            f"Read {text(budget)} as a margin of error",
            meant,
        )
    base = view.base
    if base is not None and (found.config.privacy, base.config.privacy) == ("puredp", "zcdp"):
        same = [key for key in found.rows if key in base.rows and _budget(found, key) == _budget(base, key)]
        if len(same) > len(found.rows) / 2:
            yield _warning(
                "privacy",
                "definition",
                "Most budgets are the ρ of the baseline, read as ε. Convert them to keep the protection of each level.",
                "Convert ρ to ε",
                converted(replace(scenario, privacy="zcdp"), "puredp"),
            )


def _budget(found: Figures, key: Key) -> Decimal:
    return found.config.budgets[key[0]][key[1]]


def _as_margin(found: Figures, scenario: Scenario, key: Key, margin: Decimal) -> Scenario | None:
    try:
        budget = solve_targets.budget_for(found.config, key, margin)
    except PHSafeError:
        return None
    entry = scenario.entries[key]
    return replace(
        scenario, entries={**scenario.entries, key: BudgetEntry(text(budget), on=entry.on, locked=entry.locked)}
    )


def _mode(view: View) -> Iterator[dict[str, Any]]:
    """What a mode other than that of 2020 guarantees and gives up."""
    config = view.found.config
    if config.sensitivity == "published":
        return
    loss, was = view.found.loss, Figures(config.with_sensitivity("published"), view.found.delta).loss
    unit = UNITS[config.privacy]
    now, before = text(loss.bounded), text(was.bounded)
    bounded = f"the bounded loss (one person's record changed) stays {unit} = {now}"
    if loss.bounded != was.bounded:
        bounded = (
            f"the bounded loss (one person's record changed) is {unit} = {now} instead of {before} with the published "
            f"mode, × {float(loss.bounded / was.bounded):.2f}"
        )
    unbounded = ""
    if loss.unbounded != was.unbounded:
        unbounded = f", the unbounded loss {text(loss.unbounded)} instead of {text(was.unbounded)}"
    yield _warning(
        "sensitivity",
        "mode",
        f"Mode {config.sensitivity}: {HOLDS[config.sensitivity]}; {bounded}{unbounded}. {MODE_CAVEAT}",
    )


def _extreme(found: Figures, scenario: Scenario) -> Iterator[dict[str, Any]]:
    right = plain_language.guesses(found.config.privacy, found.loss.unbounded)
    if right > CERTAIN:
        yield _warning("", "extreme", f"This protects hardly anyone: {plain_language.person_sentence(found.loss)}")
    for key, row in found.rows.items():
        path = f"entries.{key[0]}.{key[1]}"
        likely_margin = (
            scenario.units[key[0]] == "budget" and _budget(found, key) >= LIKELY_MARGIN[found.config.privacy]
        )
        if row.moe < EXACT and not likely_margin:
            yield _warning(
                path, "extreme", f"A margin of ± {plain_language.short(row.moe)} publishes practically exact counts."
            )
        typical = _typical_group(found, key)
        if typical is not None and row.moe > typical:
            yield _warning(
                path,
                "extreme",
                f"A margin of ± {plain_language.short(row.moe)} is larger than half of the groups of this level: they "
                "would be nothing but noise.",
            )
    if found.delta > LARGE_DELTA:
        yield _warning(
            "delta",
            "extreme",
            f"δ = {found.delta} allows ε to fail for more than one person in the nation; 1e-10 is usual.",
        )


def _typical_group(found: Figures, key: Key) -> float | None:
    tabulation = found.config.catalog.tabulation(key[0])
    level = next(level for level in found.config.catalog.levels if level.key == key[1])
    return None if tabulation.beyond is not None else _median(level, found.config.states, tabulation.counts_persons)


@lru_cache(maxsize=256)
def _median(level: Level, states: tuple[str, ...], persons: bool) -> float | None:
    """Return the people or households of the median group of a level, as far as public figures exist."""
    sizes = [public_tables.groups().get((region, iteration.code)) for region, iteration in level.groups(states)]
    known = [size[1] if persons else size[0] for size in sizes if size is not None]
    return statistics.median(known) if known else None


def _thresholds(view: View, shares: Truncation) -> Iterator[dict[str, Any]]:
    for row in view.found.truncation(shares):
        dropped, tau = row["dropped"], row["tau"]
        path = f"tau.{row['tabulation']}"
        if dropped is not None and dropped > DROPS_MUCH:
            yield _warning(path, "extreme", f"τ = {tau} leaves out {share_text(dropped)} of the people.")
        if tau > LARGE_TAU:
            yield _warning(
                path,
                "extreme",
                f"τ = {tau} is larger than almost every household: it adds noise and hardly includes more people.",
            )
