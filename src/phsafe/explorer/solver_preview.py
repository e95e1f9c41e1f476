"""What a solution for finished tables does to each level and group: who wins and who loses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.finished_margins import basis_terms, finished_margins, finished_model
from phsafe.explorer.finished_solver import ZCDP_ONLY, FinishedTerm, finished_budgets
from phsafe.explorer.joint_margins import joint_moe
from phsafe.explorer.page_requests import Key, Request
from phsafe.explorer.solver_groups import combination, parts_of
from phsafe.model.exact_numbers import text
from phsafe.privacy.accountant import Loss, plan
from phsafe.privacy.budgets import empty_table
from phsafe.privacy_math.margins import gaussian_moe

if TYPE_CHECKING:
    from rich.table import Table

#: A margin that changes by less than this share neither wins nor loses.
SMALL_CHANGE = 0.005
#: "Not worse" allows this share, so that budgets can be rounded.
ROUNDING = 0.001


@dataclass(frozen=True)
class MarginChange:
    """The 90 % margin of a finished number before and after.

    Attributes:
        name: The name of the group, or the tabulation and level.
        kind: Whether it is a group of the request, or a basis cell of a level.
        table: The table or tabulation.
        level: The key of the level.
        line: The number of the line or cell of a group; None for a level.
        before: The margin in the baseline; None if the baseline doesn't publish it.
        after: The margin with the new budgets.
        limit: The largest margin that the request allows; None for no limit.
        weight: Its weight.
    """

    name: str
    kind: Literal["group", "level"]
    table: str
    level: str
    line: int | None
    before: float | None
    after: float
    limit: float | None
    weight: float

    @property
    def ratio(self) -> float | None:
        """The margin after, divided by that before."""
        return None if self.before is None else self.after / self.before

    def to_dict(self) -> dict[str, Any]:
        """Return all fields, and the ratio."""
        return asdict(self) | {"ratio": self.ratio}


@dataclass(frozen=True)
class Preview:
    """A solution for finished tables, compared with a baseline.

    Attributes:
        rows: The margins of all levels and groups, worst change first.
        loss_before: The privacy loss of the baseline.
        loss_after: The privacy loss of the solution.
    """

    rows: tuple[MarginChange, ...]
    loss_before: Loss
    loss_after: Loss

    @property
    def losers(self) -> tuple[MarginChange, ...]:
        """The rows whose margin grows, worst first."""
        return tuple(row for row in self.rows if row.ratio is not None and row.ratio > 1 + SMALL_CHANGE)

    @property
    def winners(self) -> tuple[MarginChange, ...]:
        """The rows whose margin falls, best first."""
        return tuple(row for row in self.rows[::-1] if row.ratio is not None and row.ratio < 1 - SMALL_CHANGE)

    def render(self) -> Table:
        """Return the margins before and after as a Rich table for a terminal, worst change first."""
        title = "Margins of finished tables at 90 %, worst change first"
        table = empty_table(title, ("Level or group",), ("before", "after", "change"))
        for row in self.rows:
            before, change = (
                ("–", "new") if row.ratio is None else (f"{row.before:.4g}", f"{100 * row.ratio - 100:+.1f} %")
            )
            table.add_row(row.name, before, f"{row.after:.4g}", change)
        return table

    def to_dict(self) -> dict[str, Any]:
        """Return the rows and losses as a dictionary."""
        losses = {"loss_before": self.loss_before, "loss_after": self.loss_after}
        return {"rows": [row.to_dict() for row in self.rows]} | {
            name: {"unbounded": text(loss.unbounded), "bounded": text(loss.bounded)} for name, loss in losses.items()
        }


def solve_finished(asked: Config, request: Request, baseline: Config) -> tuple[Config, Preview]:
    """Return a config with budgets for finished tables, and what they change.

    Args:
        asked: The config to start from, in the mode that the request asks for.
        request: The request.
        baseline: What margins are compared with, and what `worse` refers to.

    Raises:
        PHSafeError: Pure DP, nothing to solve for, or limits that can't be met.
    """
    if "puredp" in (asked.privacy, baseline.privacy):
        raise PHSafeError(ZCDP_ONLY)
    levels, groups = _levels(asked, request, baseline), _groups(asked, request, baseline)
    limited = {key for key, (_, term) in levels.items() if term.limit is not None}
    for group, (_, term) in zip(request.groups, groups, strict=True):
        parts = parts_of(asked, group) if term.limit is not None else None
        limited |= {(part.tabulation, group.level) for part in parts or () if part is not None}
    keys = set(levels) if request.total is not None else limited | (set(request.floors) & set(levels))
    if not keys - request.locks:
        raise PHSafeError(
            "there is nothing to solve for: every level is locked, or no limit concerns it; unlock one first"
        )
    named = [*levels.values(), *groups]
    found = finished_budgets(asked, request, [term for _, term in named], frozenset(keys - request.locks))
    model = finished_model(found)
    after = model.variances(model.budgets(found), [term.cells for _, term in named])
    rows = [
        MarginChange(*name, before=term.before, after=gaussian_moe(float(v)), limit=term.limit, weight=term.weight)
        for (name, term), v in zip(named, after, strict=True)
    ]
    rows.sort(key=lambda row: -(row.ratio or 0))
    return found, Preview(tuple(rows), plan(baseline).total, plan(found).total)


_Name = tuple[str, Literal["group", "level"], str, str, int | None]


def _levels(asked: Config, request: Request, baseline: Config) -> Mapping[Key, tuple[_Name, FinishedTerm]]:
    """The terms of all levels. Their weights add up to 1."""
    before, terms = joint_moe(baseline), basis_terms(asked)
    weights = np.array([float(request.weight(asked, key)) for key in terms])
    found: dict[Key, tuple[_Name, FinishedTerm]] = {}
    for (key, cells), weight in zip(terms.items(), weights / weights.sum(), strict=True):
        limit = _limit(before.get(key), request.worse.get(key), request.moe.get(key))
        found[key] = ((", ".join(key), "level", *key, None), FinishedTerm(cells, before.get(key), float(weight), limit))
    return found


def _groups(asked: Config, request: Request, baseline: Config) -> list[tuple[_Name, FinishedTerm]]:
    found: list[tuple[_Name, FinishedTerm]] = []
    for group, before in zip(request.groups, finished_margins(baseline, request.groups), strict=True):
        cells = combination(asked, group)
        if cells is None:
            raise PHSafeError(
                f"groups, {group.name}: expected a level that is published, got {group.level}, which is off"
            )
        name: _Name = (group.name, "group", group.table, group.level, group.line or group.cell)
        limit = _limit(before, group.worse, group.moe)
        found.append((name, FinishedTerm(cells, before, float(group.weight), limit)))
    return found


def _limit(before: float | None, worse: object, moe: object) -> float | None:
    """The smaller of two limits: a margin, and the earlier margin increased by a share."""
    limits = [] if before is None or worse is None else [before * (1 + ROUNDING) * (1 + float(str(worse)))]
    return min([*limits, *([] if moe is None else [float(str(moe))])], default=None)
