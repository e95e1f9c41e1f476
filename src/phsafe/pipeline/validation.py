"""Validation reports: how often each rule is violated, control totals and empty states, but no value of any record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from phsafe.configs.config import Config
from phsafe.counting.encode import COLUMN_RULES
from phsafe.counting.rules import HOUSEHOLD_RULES, UNIT_RULES
from phsafe.counting.tallies import NO_KEY, STATE_ROWS, Counted, Rule, Severity
from phsafe.counting.vectorize import Tabulated
from phsafe.model.schema import LAYOUTS, STATES

NOT_PRIVATE = "NOT PRIVATE: counts of confidential records, for the trusted people who prepare the data."
EXTRA_COLUMNS = "every column is in the layout"
UNCLASSIFIED = "every record in the universe falls in a cell"
WITHOUT_HOUSING = "everyone counted without the unit table lives in a housing unit that counts"
BEYOND = "persons beyond the truncation threshold"
NOT_EMPTY = "the table has rows"
STATE_NOT_EMPTY = "every state of the filter has housing units"
CONTROL_TOTAL = "every state has as many rows as its control total"
OUTSIDE_FILTER = "records of states outside the filter"
#: The suffix of a table's control total among the rows of a state.
CONTROL = "_control_total"
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


@dataclass(frozen=True, repr=False)
class ValidationReport:
    """What validation found. NOT PRIVATE, although it holds only counts.

    Attributes:
        findings: Violated rules, the most serious first.
        rows: How many rows each table has, and how many households there are.
        tabulations: How many tabulations were checked for unclassified records.
        states: For each state of the filter, how many rows of persons and units it has, how many housing units, and
            how many of these are households (occupied); and the control totals that the config gives for it.
        offenders: Household keys for each violated rule, if they were asked for; None for a row without a key.
            Confidential.

    """

    findings: tuple[Finding, ...]
    rows: Mapping[str, int]
    tabulations: int
    states: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    offenders: Mapping[Rule, list[int | None]] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(self.of(kind))} {kind}s" for kind in ("error", "warning", "note"))
        return f"ValidationReport({'ok' if self.ok else 'not ok'}: {counts}; NOT PRIVATE)"

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
            "states": {state: dict(rows) for state, rows in self.states.items()},
            "findings": [finding.to_dict() for finding in self.findings],
        }  # fmt: skip


def report(
    tabulated: Tabulated,
    extra: Mapping[str, int],
    *,
    allow_unclassified: bool = False,
    allow_empty_states: bool = False,
) -> ValidationReport:
    """Collect the findings of a scan.

    Args:
        tabulated: The result of the scan.
        extra: For each table, how many columns it has that its layout doesn't.
        allow_unclassified: Report a record that fits no cell, or that only counts without the unit table include, as a
            warning instead of an error.
        allow_empty_states: Report a state of the filter without housing units, and an empty table, as a warning.

    """
    counted, config = tabulated.counted, tabulated.plan.config
    findings = [Finding("warning", EXTRA_COLUMNS, table, "", number) for table, number in extra.items()]
    findings += [
        Finding(rule.severity, rule.name, rule.table, rule.column, counted.violations[rule])
        for rule in RULES
        if rule in counted.violations
    ]
    findings += _total_findings(config, counted, "warning" if allow_empty_states else "error")
    findings += _cell_findings(tabulated, allow_unclassified)
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    rows = {layout.name: counted.rows[layout.name] for layout in LAYOUTS} | {"households": counted.households}
    offenders = {
        rule: [None if key == NO_KEY else key for key in counted.keys[rule].tolist()]
        for rule in RULES
        if rule in counted.keys
    }
    states = {
        state: _rows_of(counted, state)
        | {table + CONTROL: totals[state] for table, totals in config.control_totals.items() if state in totals}
        for state in config.states
    }
    return ValidationReport(tuple(findings), rows, len(tabulated.unclassified()), states, offenders)


def _rows_of(counted: Counted, state: str) -> dict[str, int]:
    """The entries of `STATE_ROWS` for a state."""
    return dict(zip(STATE_ROWS, counted.by_state[1 + [*STATES].index(state)].tolist(), strict=True))


def _total_findings(config: Config, counted: Counted, empty: Severity) -> Iterator[Finding]:
    """Findings about the input as a whole: what is missing, and what is left out."""
    by_state = {state: _rows_of(counted, state) for state in STATES}
    for layout in LAYOUTS:
        if not counted.rows[layout.name]:
            yield Finding(empty, NOT_EMPTY, layout.name, "", 0)
    without = sum(not by_state[state]["housing_units"] for state in config.states)
    if without:
        yield Finding(empty, STATE_NOT_EMPTY, "units", "", without)
    for table, totals in config.control_totals.items():
        different = sum(by_state[state][table] != total for state, total in totals.items())
        if different:
            yield Finding("error", CONTROL_TOTAL, table, "", different)
    for table in ("persons", "units"):
        outside = sum(rows[table] for state, rows in by_state.items() if state not in config.states)
        if outside:
            yield Finding("note", OUTSIDE_FILTER, table, "", outside)


def _cell_findings(tabulated: Tabulated, allow_unclassified: bool) -> Iterator[Finding]:
    for name, number in tabulated.unclassified().items():
        if number:
            yield Finding("warning" if allow_unclassified else "error", UNCLASSIFIED, name, "", number)
    for name, number in tabulated.without_housing().items():
        if number:
            yield Finding("warning" if allow_unclassified else "error", WITHOUT_HOUSING, name, "", number)
    for name, (total, beyond) in tabulated.beyond_threshold().items():
        if beyond:
            yield Finding("note", BEYOND, name, "", beyond, share=beyond / total)
