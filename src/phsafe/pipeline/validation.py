"""Validation reports: how often each rule is violated, but no value of any record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from phsafe.counting.encode import COLUMN_RULES
from phsafe.counting.rules import HOUSEHOLD_RULES, UNIT_RULES
from phsafe.counting.tallies import NO_KEY, Rule, Severity
from phsafe.counting.vectorize import Tabulated
from phsafe.model.schema import LAYOUTS

NOT_PRIVATE = "NOT PRIVATE: counts of confidential records, for the trusted people who prepare the data."
EXTRA_COLUMNS = "every column is in the layout"
UNCLASSIFIED = "every record in the universe falls in a cell"
BEYOND = "persons beyond the truncation threshold"
#: All rules, in the order in which reports list their findings.
RULES = (*COLUMN_RULES, *UNIT_RULES, *HOUSEHOLD_RULES)
#: Severities, the most serious first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """A violated rule, and how many rows violate it. Contains no value of any record."""

    severity: Severity
    rule: str
    table: str
    column: str
    rows: int
    share: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the finding as a JSON document."""
        share = {} if self.share is None else {"share": self.share}
        return {
            "severity": self.severity, "rule": self.rule, "table": self.table, "column": self.column,
            "rows": self.rows, **share,
        }  # fmt: skip


@dataclass(frozen=True)
class ValidationReport:
    """What validation found. NOT PRIVATE, although it holds only counts.

    Attributes:
        findings: Violated rules, the most serious first.
        rows: How many rows each table has, and how many households there are.
        tabulations: How many tabulations were checked for unclassified records.
        offenders: Household keys for each violated rule, if they were asked for; None for a row without a key.
            Confidential.

    """

    findings: tuple[Finding, ...]
    rows: Mapping[str, int]
    tabulations: int
    offenders: Mapping[Rule, list[int | None]] = field(default_factory=dict, repr=False)

    def of(self, severity: str) -> tuple[Finding, ...]:
        """Return the findings of one severity: ``error``, ``warning`` or ``note``."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not self.of("error")

    def to_dict(self) -> dict[str, object]:
        """Return the report as a JSON document, without household keys."""
        return {
            "ok": self.ok, "notice": NOT_PRIVATE, "rows": dict(self.rows),
            "findings": [finding.to_dict() for finding in self.findings],
        }  # fmt: skip


def report(tabulated: Tabulated, extra: Mapping[str, int], *, allow_unclassified: bool = False) -> ValidationReport:
    """Collect the findings of a scan.

    Args:
        tabulated: The result of the scan.
        extra: For each table, how many columns it has that its layout doesn't.
        allow_unclassified: Report a record that fits no cell as a warning instead of an error.

    """
    counted = tabulated.counted
    findings = [Finding("warning", EXTRA_COLUMNS, table, "", number) for table, number in extra.items()]
    findings += [
        Finding(rule.severity, rule.name, rule.table, rule.column, counted.violations[rule])
        for rule in RULES
        if rule in counted.violations
    ]
    findings += _cell_findings(tabulated, allow_unclassified)
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    rows = {layout.name: counted.rows[layout.name] for layout in LAYOUTS} | {"households": counted.households}
    offenders = {
        rule: [None if key == NO_KEY else key for key in counted.keys[rule].tolist()]
        for rule in RULES
        if rule in counted.keys
    }
    return ValidationReport(tuple(findings), rows, len(tabulated.unclassified()), offenders)


def _cell_findings(tabulated: Tabulated, allow_unclassified: bool) -> Iterator[Finding]:
    for name, number in tabulated.unclassified().items():
        if number:
            yield Finding("warning" if allow_unclassified else "error", UNCLASSIFIED, name, "", number)
    for name, (total, beyond) in tabulated.beyond_threshold().items():
        if beyond:
            yield Finding("note", BEYOND, name, "", beyond, share=beyond / total)
