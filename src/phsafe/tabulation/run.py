"""Filter, truncate and join, map, count (algorithms 1, 2, 3 and 4 of the paper), for all tabulations in one go.

The truncated count of a universe is the count of all its persons less the count of those that truncation drops.
Both sums run over the same households, so the result is the paper's (claim C1 of docs/privacy.md); but only the few
households above a threshold are ever ordered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import ibis
import numpy as np
import pyarrow as pa
from ibis.expr.types import Table

from phsafe.config import Config
from phsafe.engine import Engine
from phsafe.grid import Counts
from phsafe.progress import Progress, silent
from phsafe.source.tables import Tables
from phsafe.spec import Tabulation
from phsafe.tabulation import cells, households, truncation
from phsafe.tabulation.cells import Rows
from phsafe.tabulation.coding import Coding
from phsafe.tabulation.packing import LIMIT
from phsafe.tabulation.plan import Plan


class Tabulated:
    """The counted rows of a run: what every vector of the grid is made from. Exact, so confidential."""

    def __init__(self, plan: Plan, rows: dict[str, list[Rows]], sizes: list[pa.Table]) -> None:
        self.plan = plan
        self._rows = rows
        self._sizes = sizes

    def counts(self) -> Counts:
        """One vector for each measurement of the config.

        More can't be dropped from a household than it has; a negative count would be a fault of ours.
        """
        counts = {
            (m.tabulation.name, m.level.key): cells.count(
                self.plan, m.tabulation, m.level, self._rows[m.tabulation.name]
            )
            for m in self.plan.config.measurements()
        }
        if any(vector.min(initial=0) < 0 for vector in counts.values()):
            raise AssertionError("a count came out below zero")
        return counts

    def unclassified(self) -> dict[str, int]:
        """For each tabulation, how many rows of its universe fit none of its cells."""
        return {t.name: cells.unclassified(t, self._rows[t.name]) for t in self.plan.tabulations}

    def beyond(self) -> dict[str, tuple[int, int]]:
        """For each person tabulation, how many persons its universe has and how many are beyond the threshold."""
        parts = [row for table in self._sizes for row in table.to_pylist()]
        numbers = {
            universe: (sum(p[f"total{i}"] or 0 for p in parts), sum(p[f"beyond{i}"] or 0 for p in parts))
            for i, universe in enumerate(self.plan.universes)
        }
        return {t.name: numbers[self.plan.universe(t)] for t in self.plan.person_tabulations}


def tabulate_tables(
    tables: Tables, config: Config, engine: Engine, *, truncate: bool = True, progress: Progress = silent
) -> Tabulated:
    """Count every tabulation of a config over canonical tables."""
    plan = Plan(config)
    rows: dict[str, list[Rows]] = {t.name: [] for t in plan.tabulations}
    if not plan.tabulations:
        return Tabulated(plan, rows, [])
    sizes: list[pa.Table] = []
    progress("grouping persons, units and geography by household", 0.0)
    with engine.materialized(households.packed(tables, plan)) as packed:
        progress("counting", 0.6)
        for part in _parts(engine, tables, packed, plan):
            by_unit = engine.fetch(_by_unit(part.compositions, plan))
            sizes += [engine.fetch(truncation.sizes(part.compositions, plan))] if plan.universes else []
            for tabulation in plan.tabulations:
                if not tabulation.counts_persons:
                    rows[tabulation.name].append(_unit_rows(by_unit, plan))
                elif tabulation in plan.narrow:
                    rows[tabulation.name].append(_kind_rows(by_unit, plan))
            for tabulation in plan.wide:
                rows[tabulation.name].append(_wide_rows(engine, tables, part.households, plan, tabulation))
            if truncate and plan.universes:
                for tabulation, dropped in _dropped_rows(engine, tables, part.households, plan):
                    rows[tabulation.name].append(dropped)
    progress("counted", 1.0)
    return Tabulated(plan, rows, sizes)


@dataclass(frozen=True)
class _Part:
    """Some of the households: one by one, and the same grouped by composition (with their number, n)."""

    households: Table
    compositions: Table


def _parts(engine: Engine, tables: Tables, packed: Table, plan: Plan) -> Iterator[_Part]:
    """The households whose counts fit their fields; then, if there are any, those of absurd size."""
    small = households.small(packed, plan)
    yield _Part(
        households.unpacked(small, plan, "MAFID"),
        households.unpacked(households.compositions(small, plan), plan, "n"),
    )
    large = packed.filter(packed["rows"] >= LIMIT).select("MAFID")
    if engine.fetch(large.aggregate(n=large.count()))["n"][0].as_py():
        with engine.materialized(households.giants(tables, plan, large)) as giants:
            yield _Part(giants, giants.drop("MAFID").mutate(n=ibis.literal(1, "int64")))


def _by_unit(compositions: Table, plan: Plan) -> Table:
    """Households and persons of each kind, by unit code and region."""
    n = compositions.n
    return compositions.group_by("unit", "region").agg(
        n=n.sum().cast("int64"),
        **{name: (compositions[name] * n).sum().cast("int64") for name in households.kind_columns(plan)},
    )


def _vector(frame: pa.Table, column: str) -> cells.Vector:
    return np.asarray(frame[column].to_numpy(), dtype=np.int64)


def _unit_rows(by_unit: pa.Table, plan: Plan) -> Rows:
    n = _vector(by_unit, "n")
    nobody = np.zeros(len(n), dtype=np.int64)
    return Rows(plan.units, _vector(by_unit, "unit"), _vector(by_unit, "region"), n, Coding(()), nobody)


def _kind_rows(by_unit: pa.Table, plan: Plan) -> Rows:
    """One row for each unit code, region and kind; any code of a kind stands for all of it."""
    kinds, size = households.kind_columns(plan), by_unit.num_rows
    person = np.repeat([codes[0] for codes in plan.kinds], size)
    n = np.concatenate([_vector(by_unit, name) for name in kinds])
    unit, region = (np.tile(_vector(by_unit, name), len(kinds)) for name in ("unit", "region"))
    return Rows(plan.units, unit, region, n, plan.kind_coding, person)


def _wide_rows(engine: Engine, tables: Tables, table: Table, plan: Plan, tabulation: Tabulation) -> Rows:
    """Persons of one tabulation joined one by one, grouped by no more codes than it needs."""
    persons = plan.persons.narrowed(plan.person_columns(tabulation))
    units = plan.units.narrowed(plan.unit_columns(tabulation))
    people = truncation.universe_of(tables.persons, plan.universe(tabulation))
    coded = people.select("MAFID", code=persons.expression(people))
    joined = coded.inner_join(
        table.select("MAFID", "region", unit=plan.units.narrow(table.unit, units)), "MAFID"
    )
    counted = joined.group_by("code", "unit", "region").agg(n=joined.count().cast("int64"))
    return _rows(engine.fetch(counted), units, persons)


def _dropped_rows(
    engine: Engine, tables: Tables, table: Table, plan: Plan
) -> Iterator[tuple[Tabulation, Rows]]:
    """What truncation takes away from each person tabulation."""
    with (
        engine.materialized(truncation.oversized(table, plan)) as large,
        engine.materialized(truncation.members(tables.persons, large)) as members,
    ):
        for i, universe in enumerate(plan.universes):
            frame = engine.fetch(truncation.dropped(members, plan, i))
            for tabulation in plan.person_tabulations:
                if plan.universe(tabulation) == universe:
                    yield tabulation, _rows(frame, plan.units, plan.persons, sign=-1)


def _rows(frame: pa.Table, units: Coding, persons: Coding, sign: int = 1) -> Rows:
    unit, region, n, person = (_vector(frame, name) for name in ("unit", "region", "n", "code"))
    return Rows(units, unit, region, sign * n, persons, person)
