"""What a run finds out about its input: how many rows break each rule, and on request some of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from phsafe.schema import LAYOUTS, Column, Layout

Severity = Literal["error", "warning", "note"]
#: Stands for the key of a row that has none; sorted last.
NO_KEY = 2**62


@dataclass(frozen=True)
class Rule:
    """A rule that rows can break. `name` is what users read."""

    name: str
    severity: Severity
    table: str
    column: str


def missing(layout: Layout, column: Column) -> Rule:
    """A column must hold a value."""
    name = "a whole number is given" if column.is_integer else "a value is given"
    return Rule(name, "error", layout.name, column.name)


def outside(layout: Layout, column: Column) -> Rule:
    """A value must be in its domain."""
    return Rule("the value is in its domain", "error", layout.name, column.name)


#: Rules on single values, which `encode` checks: per table, missing values first.
COLUMN_RULES = tuple(
    rule(layout, column)
    for layout in LAYOUTS
    for rule in (missing, outside)
    for column in layout.columns
)  # fmt: skip


class Findings:
    """Counts of rows by rule, and up to `limit` distinct keys of offenders, the smallest ones. Findings add up."""

    def __init__(self, limit: int = 0) -> None:
        self.limit = limit
        self.counts: dict[Rule, int] = {}
        self.keys: dict[Rule, NDArray[np.int64]] = {}

    def add(self, rule: Rule, keys: NDArray[Any], rows: int | None = None) -> None:
        """Record offenders.

        Args:
            rule: The rule that is broken.
            keys: The household keys concerned.
            rows: How many rows break the rule; by default, one for each key.

        """
        number = len(keys) if rows is None else rows
        if number:
            self.counts[rule] = self.counts.get(rule, 0) + number
            self._keep(rule, keys)

    def _keep(self, rule: Rule, keys: NDArray[Any]) -> None:
        if self.limit:
            known = self.keys.get(rule, np.zeros(0, np.int64))
            self.keys[rule] = np.unique(np.concatenate([known, keys.astype(np.int64)]))[: self.limit]

    def __iadd__(self, other: Findings) -> Findings:
        for rule, rows in other.counts.items():
            self.add(rule, other.keys.get(rule, np.zeros(0, np.int64)), rows)
        return self

    def to_plain(self) -> dict[str, Any]:
        """The same in types that need no code of ours to unpickle."""
        rules = [(rule.name, rule.severity, rule.table, rule.column) for rule in self.counts]
        return {
            "limit": self.limit, "rules": rules, "counts": [*self.counts.values()],
            "keys": [self.keys.get(rule) for rule in self.counts],
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Findings:
        """Undo `to_plain`."""
        found = cls(plain["limit"])
        for rule, rows, keys in zip(plain["rules"], plain["counts"], plain["keys"], strict=True):
            found.add(Rule(*rule), np.zeros(0, np.int64) if keys is None else keys, rows)
        return found
