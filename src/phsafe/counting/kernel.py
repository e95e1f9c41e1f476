"""The kernel: from a partition of persons, units and geo in key order to counts, rule violations and dropped persons.

It runs five steps, each in its own module: encode → households → rules → truncate → vectorize. The result is a sum over
households in which each household's contribution depends on its own rows alone (claim C1 of docs/privacy.md). As long
as all rows of a household are in one partition, partitions can be counted anywhere, in any order, and added up. The
kernel depends only on NumPy and Arrow, and every count goes through it, with any engine and any options.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from phsafe.counting.encode import TableEncoder, note_columns
from phsafe.counting.households import Households, OrderError, group, without
from phsafe.counting.records import Array, Lookup, RecordFormat, Rows, gather
from phsafe.counting.rules import check_households, check_units, count_states
from phsafe.counting.tallies import Counted
from phsafe.counting.truncate import UniverseCut, ValueDigests, dropped

if TYPE_CHECKING:
    from phsafe.model.spec import Kind

#: The number of rows of the largest table in a batch; few enough that temporary arrays stay in the processor's cache.
BATCH_ROWS = 2**17
#: The code of a housing unit in the RTYPE column of units and of geo.
HOUSING = 1
#: The tally of persons in countable households, by class; the suffixes of the tallies of a tabulation's dropped
#: persons, and of its persons counted without their unit.
PERSONS, DROPPED, BLIND = "persons", " dropped", " blind"
NO_ROWS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class TabulationCode:
    """How a row gets its code in a tabulation: the sum of what its region, unit and person contribute.

    `size` is the number of codes. A contribution of `size` means "not counted", because it makes every sum too large.
    """

    name: str
    kind: Kind
    size: int
    per_region: int
    by_unit: Array
    by_person: Array
    #: The position of the universe that is truncated; None if all units are counted.
    universe: int | None
    #: Whether persons are also counted from persons and public geography alone.
    blind: bool


@dataclass(frozen=True)
class Kernel:
    """Everything needed to count, as lookup tables; compiled from a config by `phsafe.counting.plan`."""

    formats: Mapping[str, RecordFormat]
    encoders: Mapping[str, TableEncoder]
    person_class: Lookup
    person_classes: int
    unit_class: Lookup
    region: Lookup
    regions: int
    in_filter: Array
    members: Mapping[str, Array]
    cuts: tuple[UniverseCut, ...]
    digests: ValueDigests
    tabulations: tuple[TabulationCode, ...]
    #: Whether to check the rules as well. Counts don't depend on it.
    validates: bool
    examples: int

    def empty(self) -> Counted:
        """A result in which nothing has been counted yet."""
        sizes = {code.name: code.size for code in self.tabulations} | {PERSONS: self.person_classes}
        sizes |= {code.name + DROPPED: code.size for code in self.tabulations if code.kind == "persons"}
        sizes |= {code.name + BLIND: code.size for code in self.tabulations if code.blind}
        return Counted(sizes, len(self.cuts), self.examples)

    def encode(self, table: str, batches: Iterable[pa.RecordBatch], counted: Counted) -> Rows:
        """Pack rows of a table, in the order of the source."""
        return self.concat(table, [self.encoders[table].encode(batch, counted) for batch in batches])

    def concat(self, table: str, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts of a table."""
        return Rows.concat(parts, self.formats[table].dtype)

    def count(self, rows: Mapping[str, Rows], counted: Counted) -> Counted:
        """Count a partition, batch by batch.

        Args:
            rows: All rows of the partition's households by table, in key order; otherwise `OrderError` is raised.
            counted: The result to add to, which is also returned.

        """
        for batch in _batches(rows):
            self._count(batch, counted)
        return counted

    def _count(self, rows: Mapping[str, Rows], counted: Counted) -> None:
        h = group(**rows)
        # A household without exactly one row in geo, or with an unknown state, has the state 0.
        state = self.formats["geo"]["TABBLKST"].codes(h.geo) * (h.geos == 1)
        located = self._located(state)
        countable = self._countable(h, located)
        if self.validates:
            counted.households += len(h.key)
            hht = self.formats["units"]["HHT"]
            count_states(h, state, countable, hht.codes(h.unit) > hht.code("0"), counted)
        outside = (state > 0) & ~located
        if outside.any():  # They are left out before any rule is checked, as in 2020.
            rows = without(outside, h, rows)
            h, located, countable = group(**rows), located[~outside], countable[~outside]
        person_class = self.person_class(rows["persons"].record)
        dropped_rows = dropped(rows["persons"], person_class, located, h, self.cuts, self.digests)
        if self.validates:
            self._check(h, rows, person_class, counted)
            in_housing = [np.count_nonzero(countable[h.of_person[beyond]]) for beyond in dropped_rows]
            counted.beyond += np.array(in_housing, np.int64)
            uncounted = (~countable).astype(np.int64) * self.person_classes
            counted.tallies[PERSONS].count(gather(uncounted, h.of_person) + person_class)
        self._vectorize(h, person_class, located, countable, dropped_rows, counted)

    def _located(self, state: Array) -> Array:
        """Whether a household has one geo row, in the filter: public (claims C14, C17)."""
        return gather(self.in_filter, state)

    def _countable(self, h: Households, located: Array) -> Array:
        """Whether a located household is a housing unit with one row in units (claim C1.3)."""
        unit, geo = self.formats["units"]["RTYPE"].codes(h.unit), self.formats["geo"]["RTYPE"].codes(h.geo)
        return located & (h.units == 1) & (unit == HOUSING) & (geo == HOUSING)

    def _check(self, h: Households, tables: Mapping[str, Rows], person_class: Array, counted: Counted) -> None:
        """Step 3: count the rows that violate each rule."""
        for name, rows in tables.items():
            note_columns(name, rows, counted)
        check_units(tables["units"], self.formats["units"], counted)
        members = {name: h.sums(gather(group, person_class)) for name, group in self.members.items()}
        check_households(h, self.formats, members, counted)

    def _vectorize(
        self, h: Households, person_class: Array, located: Array, countable: Array,
        dropped_rows: list[Array], counted: Counted,
    ) -> None:  # fmt: skip
        """Step 5: count the code of every row in each tabulation (claims C14, C15 and C17)."""
        public_region, unit_class = self.region(h.geo), self.unit_class(h.unit)
        region = np.where(countable, public_region, self.regions)  # Makes every sum too large to be a code.
        for code in self.tabulations:
            rows = NO_ROWS if code.universe is None else dropped_rows[code.universe]
            if code.kind == "dropped":  # From persons and public geography alone (claim C14).
                codes = public_region[h.of_person[rows]] * code.per_region + code.by_person[person_class[rows]]
            elif code.kind == "oversized":  # Each household once (claim C15).
                oversized = np.unique(h.of_person[rows])
                codes = region[oversized] * code.per_region + code.by_unit[unit_class[oversized]]
            else:
                codes = gather(code.by_unit, unit_class)
                codes += region * code.per_region
            if code.kind == "persons":
                codes = gather(codes, h.of_person)
                codes += gather(code.by_person, person_class)
                counted.tallies[code.name + DROPPED].count(codes[rows])
            counted.tallies[code.name].count(codes)
            if code.blind:  # Depends on neither the unit nor truncation (claim C17).
                public = np.where(located, public_region, self.regions) * code.per_region
                codes = gather(public, h.of_person) + gather(code.by_person, person_class)
                counted.tallies[code.name + BLIND].count(codes)


def _batches(tables: Mapping[str, Rows]) -> Iterator[dict[str, Rows]]:
    """Split the rows of a partition into batches, without splitting the rows of any key."""
    cuts = max(tables.values(), key=len).key[BATCH_ROWS::BATCH_ROWS]
    ends = [np.array([0, *np.searchsorted(rows.key, cuts), len(rows)]) for rows in tables.values()]
    if any(bool((bounds[1:] < bounds[:-1]).any()) for bounds in (cuts, *ends)):
        raise OrderError("expected rows in key order across batches")
    for spans in zip(*(pairwise(bounds.tolist()) for bounds in ends), strict=True):
        yield {name: rows.between(*span) for (name, rows), span in zip(tables.items(), spans, strict=True)}
