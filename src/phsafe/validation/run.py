"""`phsafe validate`: every rule in a few passes over the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import polars as pl
from ibis.expr.types import IntegerValue, Table

from phsafe.config import Config
from phsafe.engine import Engine
from phsafe.progress import Progress, part, silent
from phsafe.source.tables import Tables
from phsafe.tabulation import Tabulated, tabulate_tables
from phsafe.tabulation.households import repeated
from phsafe.tabulation.parts import Once, Sum
from phsafe.tabulation.run import Part
from phsafe.validation.columns import column_rules
from phsafe.validation.households import (
    GEO_FACTS,
    UNIT_FACTS,
    compositions,
    giants_of,
    household_rules,
    households,
    matched_compositions,
    members_of,
    of_giants,
    packed_members_of,
    persons_in,
    relation,
    unpacked,
    without_giants,
)
from phsafe.validation.rules import Finding, Rule, counts_of, named, offenders_of

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
    report, _ = validate_and_tabulate(
        tables, config, engine, truncate=False, allow_unclassified=allow_unclassified, progress=progress
    )
    return report


def validate_and_tabulate(
    tables: Tables,
    config: Config,
    engine: Engine,
    *,
    truncate: bool = True,
    allow_unclassified: bool = False,
    progress: Progress = silent,
) -> tuple[Report, Tabulated]:
    """Check every rule and count every tabulation, in the same passes over the data."""
    findings = [
        Finding("warning", "only columns of the layout", name, "", number)
        for name, number in tables.extra.items()
    ]
    rows: dict[str, int] = {}
    for i, (layout, table) in enumerate(tables):
        progress(f"checking {layout.name}", i * 0.1)
        rules = named(column_rules(layout, table))
        counted = _counted(engine, table, rules)
        rows[layout.name] = counted["n"]
        findings += _broken(rules, counted)
    across = HouseholdRules()
    tabulated = tabulate_tables(
        tables, config, engine, truncate=truncate, look=across, progress=part(progress, 0.3, 1.0)
    )
    counted = across.counted(engine)
    rows["households"] = counted["n"]
    findings += _broken(across.rules, counted)
    findings += _cell_findings(tabulated, allow_unclassified)
    order = {"error": 0, "warning": 1, "note": 2}
    findings.sort(key=lambda finding: order[finding.severity])
    progress("checked", 1.0)
    return Report(tuple(findings), rows, len(tabulated.plan.tabulations)), tabulated


def _counted(engine: Engine, table: Table, rules: Mapping[str, Rule]) -> dict[str, int]:
    """How many rows break each rule on columns; and the number of rows, n."""
    filters = {name: rule for name, rule in rules.items() if rule.quickly is None and engine.passes_over}
    others = {name: rule for name, rule in rules.items() if name not in filters}
    counted: dict[str, int] = engine.fetch(counts_of(table, others)).to_pylist()[0]
    found = engine.fetch(offenders_of(table, filters)).to_pylist() if filters else []
    return counted | {row["rule"]: row["n"] for row in found}


def _broken(rules: Mapping[str, Rule], counted: Mapping[str, int]) -> list[Finding]:
    return [
        Finding(rule.severity, rule.name, rule.table, rule.column, counted[name])
        for name, rule in rules.items()
        if counted[name]
    ]


class HouseholdRules:
    """The rules across tables: compositions are counted part by part, and the rules decided once for each of them."""

    def __init__(self) -> None:
        self.rules = named(household_rules())
        self._once, self._composed = Once(), Sum("n")
        self._giants: list[dict[str, int]] = []

    def of_persons(self, persons: Table) -> dict[str, IntegerValue]:
        """See `phsafe.tabulation.households.MoreColumns`."""
        return {"relation": relation(persons)}

    def of_units(self, units: Table) -> dict[str, IntegerValue]:
        """See `phsafe.tabulation.households.MoreColumns`."""
        return {"unit_facts": UNIT_FACTS.pack(units)}

    def of_geo(self, geo: Table) -> dict[str, IntegerValue]:
        """See `phsafe.tabulation.households.MoreColumns`."""
        return {"geo_facts": GEO_FACTS.pack(geo)}

    def members(self, engine: Engine, people: Table) -> AbstractContextManager[Table]:
        """See `phsafe.tabulation.run.Look`."""
        return engine.materialized(self._once(packed_members_of, people))

    def look(self, engine: Engine, part: Part, members: Table) -> None:
        """Count the compositions of one part."""
        once, every = self._once, (part.tables, part.units_twice, part.geo_twice)
        with engine.materialized(once(giants_of, members)) as giants:
            matched, packed = part.matched, members
            if self._number(engine, _keys_in, giants):
                matched, packed = once(without_giants, matched, packed, giants)
                self._giants += engine.fetch(once(self._over, *every, giants)).to_pylist()
            composed = self._all_matched(engine, part, matched, packed)
            if composed is None:
                composed = pl.DataFrame(engine.fetch(once(compositions, *every, packed, giants)))
        self._composed.add(composed)

    def _all_matched(self, engine: Engine, part: Part, matched: Table, packed: Table) -> pl.DataFrame | None:
        """The compositions of a part in which every MAFID stands once in units and once in geo; of another part, None.

        Side by side stand only MAFIDs of that kind, so equal numbers say that all are. Whether every person has a
        unit is seen from the result, which is of no use if one has none.
        """
        tables = (part.tables.units, part.tables.geo, part.matched)
        if len({self._number(engine, _keys_in, table) for table in tables}) > 1:
            return None
        composed = pl.DataFrame(engine.fetch(self._once(matched_compositions, matched, packed)))
        persons = self._number(engine, persons_in, packed)
        return composed if (composed["persons"] * composed["n"]).sum() == persons else None

    def _number(self, engine: Engine, query: Callable[[Table], Table], table: Table) -> int:
        """The one number, n, that a query finds in a table."""
        number: int = engine.fetch(self._once(query, table))["n"][0].as_py()
        return number

    def _over(self, tables: Tables, units_twice: Table, geo_twice: Table, giants: Table) -> Table:
        """The rules over households that can't be packed."""
        few = of_giants(tables, giants)
        return counts_of(households(few, units_twice, geo_twice, members_of(few.persons)), self.rules)

    def counted(self, engine: Engine) -> Counter[str]:
        """How many rows break each rule, r0, r1, …; and the number of MAFIDs, n."""
        composed = engine.read_arrow(self._composed.total().to_arrow())
        found = engine.fetch(counts_of(unpacked(composed), self.rules, "n")).to_pylist()
        return sum(map(Counter, [*found, *self._giants]), Counter())


def _keys_in(table: Table) -> Table:
    return table.aggregate(n=table.MAFID.count().cast("int64"))


def _cell_findings(tabulated: Tabulated, allow_unclassified: bool) -> Iterator[Finding]:
    for name, number in tabulated.unclassified().items():
        if number:
            yield Finding("warning" if allow_unclassified else "error", UNCLASSIFIED, name, "", number)
    for name, (total, beyond) in tabulated.beyond_threshold().items():
        if beyond:
            yield Finding("note", BEYOND, name, "", beyond, share=beyond / total)


def offenders(tables: Tables, engine: Engine, limit: int) -> Iterator[tuple[str, str, str, list[int | None]]]:
    """For each broken rule, up to `limit` keys of its offenders: (rule, table, column, MAFIDs)."""
    for layout, table in tables:
        for rule in column_rules(layout, table):
            yield from _keys_of(rule, table, engine, limit)
    with (
        engine.materialized(repeated(tables.units, engine)) as units_twice,
        engine.materialized(repeated(tables.geo, engine)) as geo_twice,
        engine.materialized(members_of(tables.persons)) as members,
        engine.materialized(households(tables, units_twice, geo_twice, members)) as base,
    ):
        for rule in household_rules():
            yield from _keys_of(rule, base, engine, limit)


def _keys_of(
    rule: Rule, base: Table, engine: Engine, limit: int
) -> Iterator[tuple[str, str, str, list[int | None]]]:
    keys = engine.fetch(rule.offenders(base).distinct().order_by("MAFID").limit(limit))
    if keys.num_rows:
        yield rule.name, rule.table, rule.column, keys["MAFID"].to_pylist()
