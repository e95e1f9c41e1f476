"""What validation says: findings by rule, never a value of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phsafe.counting.counted import NO_KEY, Rule, Severity
from phsafe.counting.encode import COLUMN_RULES
from phsafe.counting.rules import HOUSEHOLD_RULES, UNIT_RULES
from phsafe.counting.vectorize import Tabulated
from phsafe.schema import LAYOUTS

NOT_PRIVATE = "NOT PRIVATE: counts of confidential records, for the trusted people who prepare the data."
EXTRA_COLUMNS = "only columns of the layout"
UNCLASSIFIED = "every record of the universe fits a cell"
BEYOND = "persons beyond the truncation threshold"
#: All rules over rows, in the order in which findings are listed.
RULES = (*COLUMN_RULES, *UNIT_RULES, *HOUSEHOLD_RULES)
#: The most serious findings come first.
ORDER: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """A rule that some rows break. No value of a record is ever part of it."""

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


@dataclass(frozen=True)
class Report:
    """What validation found: counts only, and not private all the same."""

    findings: tuple[Finding, ...]
    rows: Mapping[str, int]
    tabulations: int

    def of(self, severity: str) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.of("error")

    def to_dict(self) -> dict[str, object]:
        """The report for machines."""
        return {
            "ok": self.ok, "notice": NOT_PRIVATE, "rows": dict(self.rows),
            "findings": [finding.to_dict() for finding in self.findings],
        }  # fmt: skip


def report(tabulated: Tabulated, extra: Mapping[str, int], *, allow_unclassified: bool = False) -> Report:
    """Gather the findings of a run.

    Args:
        tabulated: What was counted.
        extra: For each table, how many columns it has that its layout doesn't.
        allow_unclassified: Whether a row that fits no cell is a warning rather than an error.

    """
    counted = tabulated.counted
    findings = [Finding("warning", EXTRA_COLUMNS, table, "", number) for table, number in extra.items()]
    findings += [
        Finding(rule.severity, rule.name, rule.table, rule.column, counted.broken[rule])
        for rule in RULES
        if rule in counted.broken
    ]
    findings += _cell_findings(tabulated, allow_unclassified)
    findings.sort(key=lambda finding: ORDER.index(finding.severity))
    rows = {layout.name: counted.rows[layout.name] for layout in LAYOUTS} | {"households": counted.households}
    return Report(tuple(findings), rows, len(tabulated.plan.tabulations))


def _cell_findings(tabulated: Tabulated, allow_unclassified: bool) -> Iterator[Finding]:
    for name, number in tabulated.unclassified().items():
        if number:
            yield Finding("warning" if allow_unclassified else "error", UNCLASSIFIED, name, "", number)
    for name, (total, beyond) in tabulated.beyond_threshold().items():
        if beyond:
            yield Finding("note", BEYOND, name, "", beyond, share=beyond / total)


def offenders(tabulated: Tabulated) -> Iterator[tuple[Rule, list[int | None]]]:
    """For each broken rule, the keys of offenders that the kernel kept; None for a row without a key."""
    keys: Mapping[Rule, NDArray[np.int64]] = tabulated.counted.keys
    for rule in RULES:
        if rule in keys:
            yield rule, [None if key == NO_KEY else key for key in keys[rule].tolist()]
