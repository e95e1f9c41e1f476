"""The kernel: one partition of persons, units and geo in key order in; counts, findings and drops out.

Encode → households → rules → truncate → vectorize, each in a module of its own. What comes out is a sum over
households, and each household's part depends on its own rows alone (claim C1 of docs/privacy.md). So partitions, in
which all rows of a household are together, can be counted anywhere, in any order, and added up. The kernel needs NumPy
and Arrow and nothing else; it is the only path, for every engine, validated or not, truncated or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from phsafe.counting.encode import TableEncoder
from phsafe.counting.findings import Findings
from phsafe.counting.households import Households, OrderError, group
from phsafe.counting.records import Array, Lookup, RecordFormat, Rows, gather
from phsafe.counting.rules import Facts, MemberTables, check_households, check_units
from phsafe.counting.tally import Tally
from phsafe.counting.truncate import OrderDigests, UniverseCut, dropped

#: Rows of the largest table in a batch: its temporary arrays stay in the processor's cache.
BATCH_ROWS = 2**17
#: The code of a housing unit in RTYPE, of units and of geo.
HOUSING = 1


@dataclass(frozen=True)
class TabulationCode:
    """How a row becomes the code of a tabulation.

    Attributes:
        name: The tabulation.
        size: The number of codes. It also stands for "not counted": no sum with it is a code.
        per_region: What one region more adds to a code.
        by_unit: For each class of units, what it adds.
        universe: The position of the universe of persons; None for a tabulation of units.
        by_person: For each class of persons, what it adds.

    """

    name: str
    size: int
    per_region: int
    by_unit: Array
    universe: int | None
    by_person: Array | None


class Counted:
    """What the kernel found in some partitions. It adds up.

    Attributes:
        rows: The number of rows of each table, rows without a key included.
        households: The number of different keys.
        findings: The rows that break rules.
        everybody: By tabulation, how often each code occurs before truncation.
        dropped: By person tabulation, how often each code occurs among the rows that truncation drops.
        persons: How many persons of each class live in countable households.
        beyond: By universe, how many persons of countable households truncation drops.

    """

    def __init__(self, kernel: Kernel) -> None:
        self.rows = dict.fromkeys(kernel.formats, 0)
        self.households = 0
        self.findings = Findings(kernel.examples)
        self.everybody = {code.name: Tally(code.size) for code in kernel.tabulations}
        self.dropped = {
            code.name: Tally(code.size) for code in kernel.tabulations if code.universe is not None
        }
        self.persons = Tally(kernel.person_classes)
        self.beyond = np.zeros(len(kernel.cuts), np.int64)

    def _tallies(self) -> Iterator[Tally]:
        yield from self.everybody.values()
        yield from self.dropped.values()
        yield self.persons

    def to_plain(self) -> dict[str, Any]:
        """The same in types that need no code of ours to unpickle: what travels between processes."""
        return {
            "rows": self.rows, "households": self.households, "findings": self.findings.to_plain(),
            "tallies": [tally.items() for tally in self._tallies()], "beyond": self.beyond,
        }  # fmt: skip

    def add_plain(self, plain: dict[str, Any]) -> Counted:
        """Add what another process has counted."""
        for name, number in plain["rows"].items():
            self.rows[name] += number
        self.households += plain["households"]
        self.findings += Findings.from_plain(plain["findings"])
        self.beyond += plain["beyond"]
        for tally, items in zip(self._tallies(), plain["tallies"], strict=True):
            tally.add(*items)
        return self


@dataclass(frozen=True)
class Kernel:
    """Everything that counting needs to know, as tables: `phsafe.counting.plan` compiles it from a config."""

    formats: Mapping[str, RecordFormat]
    encoders: Mapping[str, TableEncoder]
    person_class: Lookup
    person_classes: int
    unit_class: Lookup
    region: Lookup
    regions: int
    in_filter: Array
    members: MemberTables
    cuts: tuple[UniverseCut, ...]
    digests: OrderDigests
    tabulations: tuple[TabulationCode, ...]
    examples: int

    def encode(self, table: str, batches: Iterable[pa.RecordBatch], counted: Counted) -> Rows:
        """Pack rows of a table.

        Args:
            table: The table's name.
            batches: Rows as the source has them.
            counted: Where to record the number of rows, and those that break a rule on columns.

        """
        parts = []
        for batch in batches:
            rows, findings = self.encoders[table].encode(batch)
            counted.rows[table] += len(batch)
            counted.findings += findings
            parts.append(rows)
        return self.concat(table, parts)

    def concat(self, table: str, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts of a table."""
        return Rows.concat(parts, self.formats[table].dtype)

    def count(self, persons: Rows, units: Rows, geo: Rows, counted: Counted) -> None:
        """Count a partition, batch by batch.

        Args:
            persons: All person rows of the partition's households, in key order.
            units: All their unit rows, in key order.
            geo: All their geo rows, in key order.
            counted: What to add to.

        Raises:
            OrderError: Rows are not in key order.

        """
        for batch in _batches(persons, units, geo):
            self._count(*batch, counted)

    def _count(self, persons: Rows, units: Rows, geo: Rows, counted: Counted) -> None:
        households = group(persons, units, geo)
        person_class = self.person_class(persons.record)
        counted.households += len(households.key)
        formats = self.formats["units"], self.formats["geo"]
        check_units(units, formats[0], counted.findings)
        check_households(Facts.of(households, *formats, person_class, self.members), counted.findings)
        countable = self._countable(households)
        cut = dropped(persons, person_class, countable, households, self.cuts, self.digests)
        counted.beyond += np.array([len(rows) for rows in cut], np.int64)
        self._vectorize(households, person_class, countable, cut, counted)

    def _countable(self, households: Households) -> Array:
        """Whether a household counts (C1.3): one unit row and one geo row, both housing units, in the state filter."""
        unit, geo = self.formats["units"]["RTYPE"], self.formats["geo"]["RTYPE"]
        state = self.formats["geo"]["TABBLKST"].codes(households.geo)
        return (
            (households.units == 1) & (households.geos == 1) & gather(self.in_filter, state)
            & (unit.codes(households.unit) == HOUSING) & (geo.codes(households.geo) == HOUSING)
        )  # fmt: skip

    def _vectorize(
        self,
        households: Households,
        person_class: Array,
        countable: Array,
        cut: list[Array],
        counted: Counted,
    ) -> None:
        """Step 5: give every counted row its code in each tabulation."""
        region, unit_class = self.region(households.geo), self.unit_class(households.unit)
        # With this region, no sum is a code.
        region[~countable] = self.regions
        counted.persons.count(
            gather(np.where(countable, 0, self.person_classes), households.of_person) + person_class
        )
        for code in self.tabulations:
            by_household = gather(code.by_unit, unit_class)
            by_household += region * code.per_region
            if code.by_person is None or code.universe is None:
                counted.everybody[code.name].count(by_household)
                continue
            codes = gather(by_household, households.of_person)
            codes += gather(code.by_person, person_class)
            counted.everybody[code.name].count(codes)
            counted.dropped[code.name].count(codes[cut[code.universe]])


def _batches(persons: Rows, units: Rows, geo: Rows) -> Iterator[tuple[Rows, Rows, Rows]]:
    """The rows of a partition in batches; all rows of a key are in one batch."""
    tables = (persons, units, geo)
    largest = max(tables, key=len)
    cuts = largest.key[BATCH_ROWS::BATCH_ROWS]
    ends = [[*np.searchsorted(rows.key, cuts), len(rows)] for rows in tables]
    last = [0, 0, 0]
    smallest = None
    for end in zip(*ends, strict=True):
        batch = tuple(rows.between(start, stop) for rows, start, stop in zip(tables, last, end, strict=True))
        keys = [rows.key[[0, -1]] for rows in batch if len(rows)]
        if any(stop < start for start, stop in zip(last, end, strict=True)) or (
            smallest is not None and any(low <= smallest for low, _ in keys)
        ):
            raise OrderError("expected rows in key order across batches")
        smallest = max((high for _, high in keys), default=smallest)
        last = list(end)
        yield batch  # type: ignore[misc]
