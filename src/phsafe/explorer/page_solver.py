"""The page's solver: a new scenario as a preview, with its winners and losers. Nothing is applied here.

Locks, floors, weights and targets of the page become a request to the solver. With the aim "measured" they are about
noisy counts, where a level is never worse than today if it keeps its budget. With "finished" they are about tables
after joint estimation, where levels help each other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

from phsafe.configs.config import Config
from phsafe.display.numbers import plural
from phsafe.errors import ConfigError, PHSafeError
from phsafe.explorer.figures import Figures
from phsafe.explorer.group_margins import is_published, margin, pin_answers
from phsafe.explorer.page_requests import Key, Request
from phsafe.explorer.pinned_groups import PinnedGroup, tabulation_label
from phsafe.explorer.plain_language import short
from phsafe.explorer.scenario import BudgetEntry, Problems, Scenario, exact_decimal
from phsafe.explorer.scenario_changes import change
from phsafe.explorer.scenario_view import FINISHED, View
from phsafe.explorer.solve_targets import MAX_TARGET, MIN_TARGET
from phsafe.explorer.solver import Solution, solve
from phsafe.model.exact_numbers import text
from phsafe.model.spec import Catalog

#: How much more the levels of a pinned group count than others, where groups have no weight of their own.
PIN_WEIGHT = Decimal(10)
MAX_WEIGHT = Decimal(1000)
#: A number for some groups.
GroupNumbers = Mapping[PinnedGroup, Decimal]
#: How long a preview waits for finished margins, in seconds.
PATIENCE = 10.0
#: A margin that changes by less than this share neither wins nor loses; "not worse" leaves room for rounding.
SMALL_CHANGE = 0.005
CHOICES = {
    "neighbours": ("unbounded", "bounded"),
    "weights": ("equal", "cells", "pins"),
    "floor": ("none", "today"),
    "aim": ("measured", "finished"),
}


def solved(body: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return a new scenario that splits a total or meets targets, with what it changes; or what is wrong."""
    view, problems = View.read(body, catalog)
    if view is None:
        return {"problems": problems}
    chosen = {name: body.get(name, choices[0]) for name, choices in CHOICES.items()}
    for name, value in chosen.items():
        if value not in CHOICES[name]:
            raise ConfigError(f"{name}: expected one of {', '.join(CHOICES[name])}, got {str(value)[:40]!r}")
    total = _total(body.get("total"), problems)
    targets = _targets(body.get("targets"), view, problems)
    weights = _weights(view.pins, problems)
    if total is None and not targets and not problems:
        problems["total"] = "expected a number above 0, or a margin for one of the groups"
    if problems:
        return {"problems": problems}
    asked: dict[str, Any] = {"neighbours": chosen["neighbours"], "locks": _by_tabulation(_locked(view.scenario))}
    if total is not None:
        asked["total"] = total
    of = _measured if chosen["aim"] == "measured" else _finished
    asked |= of(view, chosen, targets, weights)
    try:
        request = Request.load(asked, view.found.config)
        solution = solve(view.found.config, request, aim=chosen["aim"])
    except PHSafeError as error:
        where = "total" if total is not None else f"targets.{next(iter(targets)).id}"
        return {"problems": {where: "; ".join(error.reasons).removeprefix("total: ")}}
    return _answer(view, solution, chosen["aim"])


def _answer(view: View, solution: Solution, aim: Literal["measured", "finished"]) -> dict[str, Any]:
    after = Figures(solution.config, view.found.delta)
    known = [(figures, FINISHED.ask(figures.config, view.pins, PATIENCE)) for figures in (after, view.found)]
    sums = {name: value for name, value in solution.to_dict().items() if name.startswith("weighted")}
    levels = [
        dict(finished.levels)
        if aim == "finished" and finished and finished.levels
        else {key: row.moe for key, row in figures.rows.items()}
        for figures, finished in known
    ]
    items = _items(view, after, *levels)
    winners = [item for item in items if item["change"]["state"] == "better"]
    losers = [item for item in items if item["change"]["state"] == "worse"]
    return {
        "problems": {},
        "scenario": _scenario(view.scenario, solution.config, after).to_dict(),
        **sums,
        "pins": pin_answers(view.pins, *known),
        "preview": {
            "total": text(after.loss.unbounded),
            "total_before": text(view.found.loss.unbounded),
            "winners": sorted(winners, key=lambda item: item["change"]["ratio"]),
            "losers": sorted(losers, key=lambda item: -item["change"]["ratio"]),
            "same": len(items) - len(winners) - len(losers),
            "sentence": _sentence(view.found, after, winners, losers),
        },
    }


def _items(view: View, after: Figures, now: Mapping[Key, float], was: Mapping[Key, float]) -> list[dict[str, Any]]:
    catalog = view.scenario.catalog
    labels = {level.key: level.label for level in catalog.levels}
    return [
        {
            "tabulation": key[0],
            "level": key[1],
            "label": f"{tabulation_label(catalog, catalog.tabulation(key[0]))}, {labels[key[1]]}",
            "budget": text(after.config.budgets[key[0]][key[1]]),
            "budget_before": text(view.found.config.budgets[key[0]][key[1]]),
            "moe_text": short(now[key]),
            "moe_before_text": short(was[key]),
            "change": change(now[key], was[key], SMALL_CHANGE),
        }
        for key in now
        if key in was
    ]


def _sentence(before: Figures, after: Figures, winners: Sequence[Any], losers: Sequence[Any]) -> str:
    loss = f"The privacy loss goes from {text(before.loss.unbounded)} to {text(after.loss.unbounded)}"
    counts = f"{plural(len(winners), 'level')} with more accuracy, {len(losers)} with less"
    if not losers:
        return f"{loss}; {counts}."
    worst = max(losers, key=lambda item: item["change"]["ratio"])
    change_of = f"from ± {worst['moe_before_text']} to ± {worst['moe_text']}"
    return f"{loss}; {counts}. The largest drop in accuracy: {worst['label']}, {change_of}."


def _scenario(scenario: Scenario, config: Config, after: Figures) -> Scenario:
    entries = {
        key: BudgetEntry(text(config.budgets[key[0]][key[1]]), on=entry.on, locked=entry.locked)
        if key in after.rows
        else entry
        for key, entry in scenario.entries.items()
    }
    return replace(scenario, units=dict.fromkeys(scenario.units, "budget"), entries=entries)


def _measured(view: View, chosen: Mapping[str, str], targets: GroupNumbers, weights: GroupNumbers) -> dict[str, Any]:
    """Return the request about noisy counts: by level, because a group's margin follows from those of its levels."""
    found, locked = view.found, _locked(view.scenario)
    moe: dict[Key, Decimal] = {}
    for pin, target in targets.items():
        now = margin(pin, found)
        assert now is not None
        for key in pin.keys:
            limit = Decimal(repr(found.rows[key].moe * float(target) / now["moe"]))
            moe[key] = min(limit, moe.get(key, limit))
    floors = {
        key: found.config.budgets[key[0]][key[1]]
        for key in found.rows
        if chosen["floor"] == "today" and key not in locked
    }
    asked: dict[str, Any] = {"moe": _by_level(moe), "floors": _by_level(floors), "weights": chosen["weights"]}
    if chosen["weights"] == "pins":
        heavy = {key: max(weights[pin] for pin in view.pins if key in pin.keys) for key in _pinned(view)}
        asked["weights"] = _by_level({key: heavy.get(key, Decimal(1)) for key in found.rows})
    return asked


def _finished(view: View, chosen: Mapping[str, str], targets: GroupNumbers, weights: GroupNumbers) -> dict[str, Any]:
    """Return the request about finished tables, with the groups themselves."""
    groups = []
    for pin in view.pins:
        if not is_published(pin, view.found) or pin.problem is not None:
            continue
        group = pin.group
        said: dict[str, Any] = {"name": pin.id, "table": group.table, "line": group.line, "level": group.level}
        said |= {"people": group.people, "households": group.households} if pin.sums.per is not None else {}
        said["weight"] = weights[pin] / PIN_WEIGHT if chosen["weights"] == "pins" else Decimal(0)
        said |= {"moe": targets[pin]} if pin in targets else {}
        said |= {"worse": 0} if chosen["floor"] == "today" else {}
        groups.append(said)
    keys = {key: Decimal(0) for key in view.found.rows if key not in _locked(view.scenario)}
    worse = _by_level(keys) if chosen["floor"] == "today" else {}
    return {"groups": groups, "worse": worse, "weights": chosen["weights"].replace("pins", "equal")}


def _pinned(view: View) -> set[Key]:
    return {key for pin in view.pins if is_published(pin, view.found) for key in pin.keys}


def _locked(scenario: Scenario) -> set[Key]:
    return {key for key, entry in scenario.entries.items() if entry.locked and entry.on}


def _by_tabulation(keys: set[Key]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, level in sorted(keys):
        found.setdefault(name, []).append(level)
    return found


def _by_level(values: Mapping[Key, Decimal]) -> dict[str, dict[str, Decimal]]:
    found: dict[str, dict[str, Decimal]] = {}
    for (name, level), value in values.items():
        found.setdefault(name, {})[level] = value
    return found


def _total(typed: object, problems: Problems) -> Decimal | None:
    if typed is None or (isinstance(typed, str) and not typed.strip()):
        return None
    number = exact_decimal(str(typed)) if isinstance(typed, str | int) and not isinstance(typed, bool) else None
    if number is None or number <= 0:
        problems["total"] = f"expected a number above 0, such as 1.5, got “{str(typed)[:20]}”"
    return number


def _targets(typed: object, view: View, problems: Problems) -> dict[PinnedGroup, Decimal]:
    if typed is None:
        return {}
    if not isinstance(typed, Mapping):
        raise ConfigError("targets: expected margins of error by group")
    pins = {pin.id: pin for pin in view.pins}
    found, locked = {}, _locked(view.scenario)
    for name, value in typed.items():
        path = f"targets.{str(name)[:60]}"
        number = exact_decimal(value) if isinstance(value, str) else None
        pin = pins.get(str(name))
        if pin is None:
            problems[path] = "expected one of your groups; add it first"
        elif number is None or not MIN_TARGET <= number <= MAX_TARGET:
            problems[path] = (
                f"expected a margin of error from {MIN_TARGET} to {MAX_TARGET:,.0f}, got “{str(value)[:20]}”"
            )
        elif not is_published(pin, view.found) or pin.problem is not None:
            problems[path] = "this group has no margin: switch its level on, and enter its size"
        elif all(key in locked for key in pin.keys):
            problems[path] = "its levels are locked; unlock one first"
        else:
            found[pin] = number
    return found


def _weights(pins: Sequence[PinnedGroup], problems: Problems) -> dict[PinnedGroup, Decimal]:
    found = {}
    for pin in pins:
        number = exact_decimal(pin.weight) if pin.weight.strip() else PIN_WEIGHT
        if number is None or not 0 < number <= MAX_WEIGHT:
            problems[f"pins.{pin.id}.weight"] = (
                f"expected a weight above 0 and at most {MAX_WEIGHT}, got “{pin.weight[:20]}”"
            )
        found[pin] = number or PIN_WEIGHT
    return found
