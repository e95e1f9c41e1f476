"""The canonical tables: what every reader makes and everything after it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ibis.expr.types import Table

from phsafe.schema import GEO, PERSONS, UNITS, Layout


@dataclass(frozen=True)
class Tables:
    """Persons, units and geo as Ibis tables with the layout's names and types; values that don't parse are null.

    `extra` says how many columns of a table the layout does not have; their names may be anything, so they are
    not kept.
    """

    persons: Table
    units: Table
    geo: Table
    extra: Mapping[str, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Layout, Table]]:
        yield from ((PERSONS, self.persons), (UNITS, self.units), (GEO, self.geo))

    def of(self, layout: Layout) -> Table:
        """The table of a layout."""
        table: Table = getattr(self, layout.name)
        return table
