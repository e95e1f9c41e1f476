"""The canonical tables: what every reader makes and everything after it reads."""

from __future__ import annotations

from dataclasses import dataclass

from ibis.expr.types import Table

from phsafe.schema import GEO, PERSONS, UNITS, Layout


@dataclass(frozen=True)
class Tables:
    """Persons, units and geo as Ibis tables with the layout's names and types; values that don't parse are null."""

    persons: Table
    units: Table
    geo: Table

    def __iter__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
        yield from ((PERSONS, self.persons), (UNITS, self.units), (GEO, self.geo))

    def of(self, layout: Layout) -> Table:
        """The table of a layout."""
        table: Table = getattr(self, layout.name)
        return table
