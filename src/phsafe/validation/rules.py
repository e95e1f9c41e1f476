"""What a rule is: a condition on one row of some table, and how much it matters.

A rule can count its offenders and, for those who may see them, name their keys; it never sees more of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Literal

import ibis
from ibis import _
from ibis.expr.types import BooleanValue, IntegerValue, Table

Severity = Literal["error", "warning", "note"]
#: Whether each row breaks a rule, and for how many it stands.
Condition = Callable[[Table], BooleanValue]
Weight = Callable[[Table], IntegerValue]


@dataclass(frozen=True)
class Rule:
    """A rule over the rows of a base table (persons, units, geo, or households: one row for each MAFID).

    `breaks` is true for an offending row; `weight` says how many rows of `table` it stands for (default one). `quickly`
    is another way to the number of offenders, for engines that count values faster than they filter rows.
    """

    name: str
    severity: Severity
    table: str
    column: str
    breaks: Condition
    weight: Weight | None = None
    quickly: Weight | None = None

    def count(self, base: Table, times: str | None = None) -> IntegerValue:
        """How many rows break the rule. A row of the base stands for as many as its column `times` says."""
        if self.quickly is not None and times is None:
            return self.quickly(base).cast("int64")
        broken = self.breaks(base)
        weights = [self.weight(base)] if self.weight else []
        weights += [base[times]] if times else []
        if not weights:
            return base.count(where=broken).cast("int64")
        return reduce(mul, weights).sum(where=broken).fill_null(0).cast("int64")

    def offenders(self, base: Table) -> Table:
        """The keys of the offending rows."""
        return base.filter(self.breaks(base).fill_null(False)).select("MAFID")


@dataclass(frozen=True)
class Finding:
    """A rule that some rows break. `text` says it in words; no value of a record is ever part of it."""

    severity: Severity
    rule: str
    table: str
    column: str
    rows: int
    share: float | None = None

    def to_dict(self) -> dict[str, object]:
        """The finding for machines."""
        share = {} if self.share is None else {"share": self.share}
        return {
            "severity": self.severity, "rule": self.rule, "table": self.table, "column": self.column,
            "rows": self.rows, **share,
        }  # fmt: skip


def named(rules: Iterable[Rule]) -> dict[str, Rule]:
    """Rules by the names of their counts: r0, r1, …."""
    return {f"r{i}": rule for i, rule in enumerate(rules)}


def counts_of(base: Table, rules: Mapping[str, Rule], times: str | None = None) -> Table:
    """One row with the number of offenders of each rule, in one pass; and the number of rows, n.

    A row of the base stands for as many as its column `times` says, if one is named.
    """
    rows = base.count() if times is None else base[times].sum().fill_null(0)
    return base.aggregate(
        n=rows.cast("int64"), **{name: rule.count(base, times) for name, rule in rules.items()}
    )


def offenders_of(base: Table, rules: Mapping[str, Rule]) -> Table:
    """The number of offenders (n) of each rule, a row for each, found by filters.

    See `phsafe.engine.Engine.passes_over`.
    """
    found = [
        base.filter(rule.breaks(base)).aggregate(rule=ibis.literal(name), n=_.count().cast("int64"))
        for name, rule in rules.items()
    ]
    return ibis.union(*found, distinct=False)
