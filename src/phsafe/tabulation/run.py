"""Filter, truncate and join, map, count (algorithms 1, 2, 3 and 4 of the paper), for all tabulations in one go.

The truncated count of a universe is the count of all its persons less the count of those that truncation drops.
Both sums run over the same households, so the result is the paper's (claim C1 of docs/privacy.md); but only the few
households above a threshold are ever ordered.

A large input is counted part by part: all rows of a MAFID are in one part, so the counts of the parts add up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import polars as pl
import pyarrow as pa
from ibis.expr.types import Table

from phsafe.config import Config
from phsafe.engine import Engine
from phsafe.grid import Counts
from phsafe.progress import Progress, silent
from phsafe.schema import KEY, PERSONS
from phsafe.source.tables import Tables
from phsafe.spec import Tabulation
from phsafe.tabulation import cells, people, truncation
from phsafe.tabulation.cells import Rows
from phsafe.tabulation.coding import Coding
from phsafe.tabulation.households import MoreColumns, check_geography, households, matched, repeated
from phsafe.tabulation.parts import Once, Sum
from phsafe.tabulation.plan import Plan


@dataclass(frozen=True)
class Tabulated:
    """The counted rows of a run: what every vector of the grid is made from. Exact, so confidential.

    `homes` counts households by kind, `joined` persons before truncation, `dropped` those that truncation drops from
    each universe, and `beyond` says how many these are.
    """

    plan: Plan
    homes: pl.DataFrame
    joined: pl.DataFrame
    dropped: Sequence[pl.DataFrame]
    beyond: Sequence[int]

    def counts(self, *, truncate: bool = True) -> Counts:
        """One vector for each measurement of the config.

        More can't be dropped from a household than it has; a negative count would be a fault of ours.
        """
        counts: dict[tuple[str, str], cells.Vector] = {}
        for tabulation in self.plan.tabulations:
            rows = [self._all(tabulation), *(self._taken(tabulation) if truncate else ())]
            found = cells.count(self.plan, tabulation, self.plan.config.levels_of(tabulation), rows)
            counts |= {(tabulation.name, key): vector for key, vector in found.items()}
        if any(vector.min(initial=0) < 0 for vector in counts.values()):
            raise AssertionError("a count came out below zero")
        return counts

    def unclassified(self) -> dict[str, int]:
        """For each tabulation, how many rows of its universe fit none of its cells."""
        return {t.name: cells.unclassified(self.plan, t, self._all(t)) for t in self.plan.tabulations}

    def beyond_threshold(self) -> dict[str, tuple[int, int]]:
        """For each person tabulation, how many persons its universe has and how many are beyond the threshold."""
        totals = {u: self._persons.total(u.persons) for u in self.plan.universes}
        beyond = dict(zip(self.plan.universes, self.beyond, strict=True))
        universes = {t.name: self.plan.universe(t) for t in self.plan.person_tabulations}
        return {name: (totals[u], beyond[u]) for name, u in universes.items()}

    @cached_property
    def _units(self) -> Rows:
        return Rows.of(self.plan, Coding(()), self.homes)

    @cached_property
    def _persons(self) -> Rows:
        return Rows.of(self.plan, self.plan.persons, self.joined)

    @cached_property
    def _drops(self) -> list[Rows]:
        return [
            Rows.of(self.plan, self.plan.persons, frame.with_columns(n=-pl.col("n")))
            for frame in self.dropped
        ]

    def _all(self, tabulation: Tabulation) -> Rows:
        return self._persons if tabulation.counts_persons else self._units

    def _taken(self, tabulation: Tabulation) -> Iterator[Rows]:
        if tabulation.counts_persons:
            yield self._drops[self.plan.universes.index(self.plan.universe(tabulation))]


@dataclass(frozen=True)
class Part:
    """The tables of the input, the MAFIDs of a part that stand more than once, and its units with their geo rows."""

    tables: Tables
    units_twice: Table
    geo_twice: Table
    matched: Table


class Look(MoreColumns, Protocol):
    """Something else to find out about each part while it is at hand."""

    def members(self, engine: Engine, people: Table) -> AbstractContextManager[Table]:
        """While the context lasts, a table with MAFID and `persons`, of people with the columns that were asked for.

        Truncation relies on it: a number may be too large, and never too small.
        """

    def look(self, engine: Engine, part: Part, members: Table) -> None:
        """Look at a part."""


def tabulate_tables(
    tables: Tables,
    config: Config,
    engine: Engine,
    *,
    truncate: bool = True,
    look: Look | None = None,
    progress: Progress = silent,
) -> Tabulated:
    """Count every tabulation of a config over canonical tables."""
    plan = Plan(config)
    check_geography(tables.geo, plan)
    counting = _Counting(tables, plan, engine, truncate=truncate)
    progress("counting", 0.0)
    engine.each_part(
        [table for _, table in tables],
        lambda engine: counting.count_part(engine, look),
        lambda done: progress("counting", done),
    )
    progress("counted", 1.0)
    return counting.result()


class _Counting:
    """The queries of a run, each written once and run over every part; and the sums of what they gave."""

    def __init__(self, tables: Tables, plan: Plan, engine: Engine, *, truncate: bool) -> None:
        self._tables, self._plan, self._engine, self._truncate = tables, plan, engine, truncate
        # The order of 2020 looks at whole records; without truncation it is enough to know who is in a universe.
        self._columns = PERSONS.names if truncate else (KEY, *plan.universe_columns)
        self._sums: dict[str, Sum] = {}
        self._once = Once()

    def count_part(self, engine: Engine, look: Look | None) -> None:
        """Count one part, and what truncation drops of it."""
        once, plan, tables = self._once, self._plan, self._tables
        with ExitStack() as kept, ExitStack() as shared:

            def keep(expression: Table, where: ExitStack = kept) -> Table:
                return where.enter_context(engine.materialized(expression))

            twice = [keep(once(repeated, table, self._engine)) for table in (tables.units, tables.geo)]
            units, sizes = once(matched, tables, plan, *twice, look), None
            persons = once(people.coded, tables.persons, plan, look)
            if look is not None:
                # Nothing needs more memory than people by household, so that is done while there is nothing else.
                persons = kept.enter_context(engine.gathered(persons, KEY))
                sizes = shared.enter_context(look.members(engine, persons))
                units = keep(units, shared)
                look.look(engine, once(Part, tables, *twice, units), sizes)
            if not plan.tabulations:
                return
            homes = keep(units if look is None else once(households, units))
            self._add("homes", engine.fetch(once(people.homes, homes)))
            if not plan.universes:
                return
            if sizes is None:
                numerous = keep(once(truncation.numerous, tables.persons, homes, plan, self._engine))
            else:
                numerous = keep(once(truncation.larger, sizes, homes, plan))
            shared.close()  # The largest tables of a part: from here on, households are enough.
            self._add("joined", engine.fetch(once(people.joined, persons, homes, plan)))
            records = keep(once(truncation.persons_of, numerous, tables.persons, self._columns))
            crowded = keep(once(truncation.crowded, records, homes, plan, self._engine))
            members = keep(once(truncation.members, records, crowded))
            oversized = keep(once(truncation.oversized, members, plan))
            self._add("beyond", engine.fetch(once(truncation.beyond, oversized, plan)))
            if self._truncate:
                keyed = keep(once(truncation.keyed, members, oversized))
                self._add("dropped", engine.fetch(once(truncation.dropped, keyed, plan)))

    def _add(self, name: str, found: pa.Table) -> None:
        frame = pl.DataFrame(found)
        counts = [column for column in frame.columns if column != "kind"]
        self._sums.setdefault(name, Sum(*counts)).add(frame)

    def result(self) -> Tabulated:
        """All that was counted."""
        empty = pl.DataFrame(schema={"kind": pl.Int64, "n": pl.Int64})
        universes = range(len(self._plan.universes))
        return Tabulated(
            self._plan,
            self._total("homes", empty),
            self._total("joined", empty),
            [self._dropped(i, empty) for i in universes],
            [self._sums["beyond"].total()[f"beyond{i}"].item() for i in universes],
        )

    def _dropped(self, universe: int, empty: pl.DataFrame) -> pl.DataFrame:
        if "dropped" not in self._sums:
            return empty
        found = self._total("dropped", empty).select("kind", n=f"n{universe}")
        return found.filter(pl.col("n") > 0)

    def _total(self, name: str, empty: pl.DataFrame) -> pl.DataFrame:
        return self._sums[name].total() if name in self._sums else empty
