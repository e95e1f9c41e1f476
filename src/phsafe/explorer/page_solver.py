"""The page's solver: share out a total or meet margins, and show who wins and who loses before anything is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_UP, Decimal
from typing import Any

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.figures import Figures
from phsafe.explorer.group_margins import is_published, margin
from phsafe.explorer.page_requests import Key, Request
from phsafe.explorer.pinned_groups import PinnedGroup, tabulation_label
from phsafe.explorer.scenario import BudgetEntry, Problems, Scenario
from phsafe.explorer.scenario_changes import change
from phsafe.explorer.scenario_view import View
from phsafe.explorer.solver import solve
from phsafe.model.exact_numbers import text
from phsafe.model.spec import Catalog

#: Margins that change by less than this share count as the same.
SMALL = 0.005
#: How long a preview waits for margins after joint estimation, in seconds.
PATIENCE = 10.0
MILLIONTH = Decimal("0.000001")
CHOICES = {"weights": ("pins", "equal", "cells"), "floor": ("none", "today"), "aim": ("measured", "finished")}


@dataclass(frozen=True)
class Asked:
    """What the user asked for, checked. `targets` has margins by pinned group; `total` None means that they decide."""

    view: View
    total: Decimal | None
    targets: Mapping[str, Decimal]
    weights: str
    floor: str
    aim: str
    neighbours: str

    @property
    def published(self) -> list[PinnedGroup]:
        """The pinned groups that the scenario publishes and whose sizes are known."""
        return [pin for pin in self.view.pins if is_published(pin, self.view.found) and pin.problem is None]


def preview(body: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the scenario with new budgets, and what they change against the scenario as it is."""
    view, problems = View.read({**body, "baseline": body.get("scenario")}, catalog)
    if view is None:
        return {"problems": problems}
    asked, problems = _asked(view, body)
    if asked is None:
        return {"problems": problems}
    try:
        config = _finished(asked) if asked.aim == "finished" else _measured(asked)
    except PHSafeError as error:
        return {"problems": _where("; ".join(error.reasons))}
    after = replace(view, scenario=_applied(view.scenario, view.found, config), found=Figures(config, view.found.delta))
    after = replace(after, base=view.found)
    if asked.aim == "finished" or after.finished_state != "unavailable":
        after.finish(PATIENCE)
    pins = after.pin_answers()
    items = _items(asked, after)
    return {
        "problems": {},
        "scenario": after.scenario.to_dict(),
        "pins": pins,
        "preview": _summary(asked, after, items, pins),
    }


def _asked(view: View, body: Mapping[str, Any]) -> tuple[Asked | None, Problems]:
    problems: Problems = {}
    chosen = {name: body.get(name, known[0]) for name, known in CHOICES.items()}
    for name, known in CHOICES.items():
        if chosen[name] not in known:
            problems[name] = f"expected one of {', '.join(known)}"
    typed = str(body.get("total", "")).strip()
    total = _positive(typed) if typed else None
    if typed and total is None:
        problems["total"] = "expected a number above 0"
    given = body.get("targets") or {}
    targets = {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        number = _positive(str(value))
        if number is None:
            problems[f"targets.{name}"] = f"expected a margin of error above 0, got “{str(value)[:20]}”"
        else:
            targets[str(name)] = number
    if total is None and not targets and not problems:
        problems["total"] = "expected a total, or a margin of error above 0 for a group"
    neighbours = "bounded" if body.get("neighbours") == "bounded" else "unbounded"
    return (None, problems) if problems else (Asked(view, total, targets, **chosen, neighbours=neighbours), {})


def _positive(typed: str) -> Decimal | None:
    try:
        number = Decimal(typed.strip().replace(",", ""))
    except ArithmeticError:
        return None
    return number if number.is_finite() and 0 < number < Decimal(10) ** 12 else None


def _where(reason: str) -> Problems:
    """Return the problem at the field that it concerns."""
    group = reason.removeprefix("groups, ")
    if group != reason and ": " in group:
        name, _, said = group.partition(": ")
        return {f"targets.{name}": said}
    return {"total": reason.removeprefix("total: ")}


def _locks(scenario: Scenario) -> dict[str, list[str]]:
    locks: dict[str, list[str]] = {}
    for (name, level), entry in scenario.entries.items():
        if entry.locked and entry.on:
            locks.setdefault(name, []).append(level)
    return locks


def _finished(asked: Asked) -> Config:
    """Solve for margins after joint estimation. Weight 1 of a group counts as much as all levels together."""
    groups = []
    for pin in asked.published:
        line: dict[str, Any] = {"table": pin.table.name, "line": pin.line.number}
        group = {"name": pin.id, "level": pin.level.key, **line}
        people, units = pin.sizes
        if units is not None:
            group |= {"people": Decimal(str(people)), "households": Decimal(str(units))}
        group["weight"] = _weight(pin) if asked.weights == "pins" else Decimal(0)
        if pin.id in asked.targets:
            group["moe"] = asked.targets[pin.id]
        groups.append(group)
    request: dict[str, Any] = {"locks": _locks(asked.view.scenario), "groups": groups, "neighbours": asked.neighbours}
    request["weights"] = "cells" if asked.weights == "cells" else "equal"
    if asked.total is not None:
        request["total"] = asked.total
    if asked.floor == "today":
        request["worse"] = 0
    config = asked.view.found.config
    if asked.total is None:
        request["floors"] = _nested(_kept(asked))
    return solve(config, Request.load(request, config), aim="finished").config


def _kept(asked: Asked) -> dict[Key, Decimal]:
    """Return budgets that may not fall while a margin is tightened: otherwise others would pay for it."""
    locks = _locks(asked.view.scenario)
    kept: dict[Key, Decimal] = {}
    for pin in asked.published:
        now = margin(pin, asked.view.found) if pin.id in asked.targets else None
        if now is not None and asked.targets[pin.id] < Decimal(now["moe"]):
            free = [key for key in pin.keys if key[1] not in locks.get(key[0], ())]
            kept |= {key: asked.view.found.config.budgets[key[0]][key[1]] for key in free}
    return kept


def _measured(asked: Asked) -> Config:
    """Solve for margins of the noise. The margin of a sum falls as 1/√budget, or as 1/budget under pure DP."""
    config, needed = asked.view.found.config, _needed(asked)
    locks = _locks(asked.view.scenario)
    for pin in asked.published:
        locked = [name for name, level in pin.keys if level in locks.get(name, ())]
        if pin.id in asked.targets and locked:
            raise PHSafeError(f"groups, {pin.id}: expected an unlocked budget, but {' and '.join(locked)} is locked")
    if asked.total is None:
        budgets = {name: dict(levels) for name, levels in config.budgets.items()}
        for (name, level), budget in needed.items():
            budgets[name][level] = budget
        return replace(config, budgets=budgets)
    floors = {key: config.budgets[key[0]][key[1]] for key in asked.view.found.rows} if asked.floor == "today" else {}
    floors |= {key: max(budget, floors.get(key, budget)) for key, budget in needed.items()}
    request = {
        "total": asked.total, "neighbours": asked.neighbours, "locks": locks, "weights": _weights(asked),
        "floors": _nested({key: floor for key, floor in floors.items() if key[1] not in locks.get(key[0], ())}),
    }  # fmt: skip
    return solve(config, Request.load(request, config)).config


def _needed(asked: Asked) -> dict[Key, Decimal]:
    """Return the budgets with which the pinned groups have the margins asked for."""
    config, power = asked.view.found.config, 2 if asked.view.found.config.privacy == "zcdp" else 1
    needed: dict[Key, Decimal] = {}
    for pin in asked.published:
        now = margin(pin, asked.view.found) if pin.id in asked.targets else None
        if now is None:
            continue
        factor = (Decimal(now["moe"]) / asked.targets[pin.id]) ** power
        for key in pin.keys:
            budget = (config.budgets[key[0]][key[1]] * factor).quantize(MILLIONTH, ROUND_UP)
            needed[key] = max(budget, needed.get(key, budget))
    return needed


def _weights(asked: Asked) -> str | dict[str, dict[str, Decimal]]:
    """Return the weights of squared margins. For pinned groups, ratios to the margins as they are count."""
    if asked.weights != "pins":
        return asked.weights
    rows = asked.view.found.rows
    weights = dict.fromkeys(rows, Decimal(1))
    for pin in asked.published:
        for key in pin.keys:
            weights[key] += _weight(pin) * len(rows) / len(pin.keys)
    # Wide bounds keep the weights in the range that the solver takes.
    return _nested({key: round(w / Decimal(rows[key].moe) ** 2 * 10**4, 9) + MILLIONTH for key, w in weights.items()})


def _weight(pin: PinnedGroup) -> Decimal:
    found = _positive(pin.weight)
    return Decimal(1) if found is None else min(found, Decimal(1000))


def _nested(values: Mapping[Key, Decimal]) -> dict[str, dict[str, Decimal]]:
    found: dict[str, dict[str, Decimal]] = {}
    for (name, level), value in values.items():
        found.setdefault(name, {})[level] = value
    return found


def _applied(scenario: Scenario, found: Figures, config: Config) -> Scenario:
    entries = {
        key: BudgetEntry(text(config.budgets[key[0]][key[1]]), entry.on, entry.locked) if key in found.rows else entry
        for key, entry in scenario.entries.items()
    }
    return replace(scenario, entries=entries, units=dict.fromkeys(scenario.units, "budget"))


def _items(asked: Asked, after: View) -> list[dict[str, Any]]:
    """Return the margin of every level before and after, those that change most first."""
    before, catalog = asked.view.found, after.found.config.catalog
    if asked.aim == "finished":
        from phsafe.explorer.joint_margins import joint_moe  # noqa: PLC0415  (SciPy is slow to load)

        now, was = joint_moe(after.found.config), joint_moe(before.config)
    else:
        now, was = ({key: row.moe for key, row in one.rows.items()} for one in (after.found, before))
    levels = {level.key: level.label for level in catalog.levels}
    items = [
        {
            "tabulation": key[0],
            "level": key[1],
            "label": f"{tabulation_label(catalog, catalog.tabulation(key[0]))}, {levels[key[1]]}",
            "budget": text(after.found.config.budgets[key[0]][key[1]]),
            "budget_before": text(before.config.budgets[key[0]][key[1]]),
            "moe_text": f"{now[key]:,.2f}",
            "moe_before_text": f"{was[key]:,.2f}",
            "change": change(now[key], was[key]),
        }
        for key in after.found.rows
    ]
    return sorted(items, key=lambda item: -abs(item["change"]["ratio"] - 1))


def _summary(asked: Asked, after: View, items: list[dict[str, Any]], pins: list[dict[str, Any]]) -> dict[str, Any]:
    winners = [item for item in items if item["change"]["ratio"] < 1 - SMALL]
    losers = [item for item in items if item["change"]["ratio"] > 1 + SMALL]
    changes = [pin["change"]["finished" if pin["finished"] else "measured"] for pin in pins]
    better, worse = (sum(1 for one in changes if one and one["state"] == state) for state in ("better", "worse"))
    sentence = (
        f"More accurate: {len(winners)} of {len(items)} levels, and {better} of your {len(pins)} groups. "
        f"Less accurate: {len(losers)} levels, and {worse} of your groups."
    )
    losses = [getattr(one.loss, asked.neighbours) for one in (after.found, asked.view.found)]
    return {
        "total": text(losses[0]),
        "total_before": text(losses[1]),
        "winners": winners,
        "losers": losers,
        "same": len(items) - len(winners) - len(losers),
        "sentence": sentence,
    }
