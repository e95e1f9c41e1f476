"""The kernel: one partition of persons, units and geo in key order in; counts, findings and drops out.

Encode → households → rules → truncate → vectorize, each in a module of its own. What comes out is a sum over
households, and each household's part depends on its own rows alone (claim C1 of docs/privacy.md). So partitions, in
which all rows of a household are together, can be counted anywhere, in any order, and added up. The kernel needs NumPy
and Arrow and nothing else; it is the only path, for every engine, validated or not, truncated or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from phsafe.counting.counted import Counted
from phsafe.counting.encode import TableEncoder
from phsafe.counting.households import Households, OrderError, group
from phsafe.counting.records import Array, Lookup, RecordFormat, Rows, gather
from phsafe.counting.rules import check_households, check_units, members_of
from phsafe.counting.truncate import UniverseCut, ValueDigests, dropped

#: Rows of the largest table in a batch: its temporary arrays stay in the processor's cache.
BATCH_ROWS = 2**17
#: The code of a housing unit in RTYPE, of units and of geo.
HOUSING = 1
#: The tally of persons in countable households by class, and what is added to the name of a tabulation for its drops.
PERSONS, DROPPED = "persons", " dropped"


@dataclass(frozen=True)
class TabulationCode:
    """How a row becomes the code of a tabulation: what its region, unit and person add.

    `size` is the number of codes. It also stands for "not counted": no sum with it is a code.
    """

    name: str
    size: int
    per_region: int
    by_unit: Array
    #: The position of the universe of persons, and what each class of persons adds; None if units are counted.
    universe: int | None
    by_person: Array | None


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
    member_words: tuple[Array, ...]
    cuts: tuple[UniverseCut, ...]
    digests: ValueDigests
    tabulations: tuple[TabulationCode, ...]
    examples: int

    def nothing(self) -> Counted:
        """What was counted before the first partition."""
        sizes = {code.name: code.size for code in self.tabulations} | {PERSONS: self.person_classes}
        sizes |= {code.name + DROPPED: code.size for code in self.tabulations if code.universe is not None}
        return Counted(sizes, len(self.cuts), self.examples)

    def encode(self, table: str, batches: Iterable[pa.RecordBatch], counted: Counted) -> Rows:
        """Pack rows of a table as the source has them."""
        return self.concat(table, [self.encoders[table].encode(batch, counted) for batch in batches])

    def concat(self, table: str, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts of a table."""
        return Rows.concat(parts, self.formats[table].dtype)

    def count(self, rows: Mapping[str, Rows], counted: Counted) -> Counted:
        """Count a partition, batch by batch.

        Args:
            rows: All rows of the partition's households, by table, in key order; otherwise an `OrderError`.
            counted: What to add to. It is returned as well.

        """
        for persons, units, geo in _batches(rows["persons"], rows["units"], rows["geo"]):
            self._count(persons, units, geo, counted)
        return counted

    def _count(self, persons: Rows, units: Rows, geo: Rows, counted: Counted) -> None:
        h = group(persons, units, geo)
        counted.households += len(h.key)
        unit_format, geo_rtype = self.formats["units"], self.formats["geo"]["RTYPE"].codes(h.geo) - 1
        person_class = self.person_class(persons.record)
        check_units(units, unit_format, counted)
        members = members_of(h, person_class, self.member_words)
        check_households(h, lambda column: unit_format[column].codes(h.unit) - 1, geo_rtype, members, counted)
        countable = self._countable(h)
        cut = dropped(persons, person_class, countable, h, self.cuts, self.digests)
        counted.beyond += np.array([len(rows) for rows in cut], np.int64)
        self._vectorize(h, person_class, countable, cut, counted)

    def _countable(self, h: Households) -> Array:
        """Whether a household counts: one unit row and one geo row, housing units in the filter (claim C1.3)."""
        unit, geo = self.formats["units"]["RTYPE"].codes(h.unit), self.formats["geo"]["RTYPE"].codes(h.geo)
        in_filter = gather(self.in_filter, self.formats["geo"]["TABBLKST"].codes(h.geo))
        return (h.units == 1) & (h.geos == 1) & in_filter & (unit == HOUSING) & (geo == HOUSING)

    def _vectorize(
        self, h: Households, person_class: Array, countable: Array, cut: list[Array], counted: Counted
    ) -> None:
        """Step 5: give every counted row its code in each tabulation."""
        region, unit_class = self.region(h.geo), self.unit_class(h.unit)
        region[~countable] = self.regions  # With this region, no sum is a code.
        uncounted = (~countable).astype(np.int64) * self.person_classes
        counted.tallies[PERSONS].count(gather(uncounted, h.of_person) + person_class)
        for code in self.tabulations:
            codes = gather(code.by_unit, unit_class)
            codes += region * code.per_region
            if code.by_person is not None and code.universe is not None:
                codes = gather(codes, h.of_person)
                codes += gather(code.by_person, person_class)
                counted.tallies[code.name + DROPPED].count(codes[cut[code.universe]])
            counted.tallies[code.name].count(codes)


def _batches(*tables: Rows) -> Iterator[list[Rows]]:
    """The rows of a partition in batches; all rows of a key are in one batch."""
    cuts = max(tables, key=len).key[BATCH_ROWS::BATCH_ROWS]
    ends = [np.array([0, *np.searchsorted(rows.key, cuts), len(rows)]) for rows in tables]
    if any(bool((places[1:] < places[:-1]).any()) for places in (cuts, *ends)):
        raise OrderError("expected rows in key order across batches")
    for spans in zip(*(pairwise(places.tolist()) for places in ends), strict=True):
        yield [rows.between(*span) for rows, span in zip(tables, spans, strict=True)]
