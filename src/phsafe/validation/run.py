"""`phsafe validate`: every rule in a few passes over the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ibis.expr.types import Table

from phsafe.config import Config
from phsafe.engine import Engine
from phsafe.progress import Progress, part, silent
from phsafe.schema import LAYOUTS
from phsafe.source.tables import Tables
from phsafe.tabulation import Tabulated, tabulate_tables
from phsafe.validation.columns import column_rules
from phsafe.validation.households import household_rules, households
from phsafe.validation.rules import Finding, Rule, counts_of

NOT_PRIVATE = "NOT PRIVATE: counts of confidential records, for the trusted people who prepare the data."
UNCLASSIFIED = "every record of the universe fits a cell"
BEYOND = "persons beyond the truncation threshold"


@dataclass(frozen=True)
class Report:
    """What validation found. Counts only; not private all the same."""

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


def validate_tables(
    tables: Tables,
    config: Config,
    engine: Engine,
    *,
    allow_unclassified: bool = False,
    progress: Progress = silent,
) -> Report:
    """Check every rule; count what breaks it."""
    findings: list[Finding] = [
        Finding("warning", "only columns of the layout", name, "", number)
        for name, number in tables.extra.items()
    ]
    rows: dict[str, int] = {}
    for base, rules, share in _bases(tables):
        progress(f"checking {base}", share)
        table = tables.of(next(one for one in LAYOUTS if one.name == base)) if base != "households" else None
        counted = engine.fetch(counts_of(households(tables) if table is None else table, rules)).to_pylist()[
            0
        ]
        rows[base] = counted["n"]
        findings += [
            Finding(rule.severity, rule.name, rule.table, rule.column, counted[f"r{i}"])
            for i, rule in enumerate(rules)
            if counted[f"r{i}"]
        ]
    tabulated = tabulate_tables(tables, config, engine, truncate=False, progress=part(progress, 0.6, 1.0))
    findings += _cell_findings(tabulated, allow_unclassified)
    order = {"error": 0, "warning": 1, "note": 2}
    findings.sort(key=lambda finding: order[finding.severity])
    progress("checked", 1.0)
    return Report(tuple(findings), rows, len(tabulated.plan.tabulations))


def _bases(tables: Tables) -> Iterator[tuple[str, list[Rule], float]]:
    for i, (layout, table) in enumerate(tables):
        yield layout.name, column_rules(layout, table), i * 0.1
    yield "households", household_rules(), 0.3


def _cell_findings(tabulated: Tabulated, allow_unclassified: bool) -> Iterator[Finding]:
    for name, number in tabulated.unclassified().items():
        if number:
            yield Finding("warning" if allow_unclassified else "error", UNCLASSIFIED, name, "", number)
    for name, (total, beyond) in tabulated.beyond().items():
        if beyond:
            yield Finding("note", BEYOND, name, "", beyond, share=beyond / total)


def offenders(tables: Tables, engine: Engine, limit: int) -> Iterator[tuple[str, str, str, list[int | None]]]:
    """For each broken rule, up to `limit` keys of its offenders: (rule, table, column, MAFIDs)."""
    bases: dict[str, Table] = {layout.name: table for layout, table in tables} | {
        "households": households(tables)
    }
    for base, rules, _ in _bases(tables):
        for rule in rules:
            keys = engine.fetch(rule.offenders(bases[base]).distinct().order_by("MAFID").limit(limit))
            if keys.num_rows:
                yield rule.name, rule.table, rule.column, keys["MAFID"].to_pylist()
