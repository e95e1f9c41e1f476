"""One row for each household that counts: its MAFID and its place, which is its unit's code and its region.

A MAFID that stands more than once in units or in geo is no household, in any tabulation (claim C1.3 of
docs/privacy.md). There should be none; they are found first, so that a plain join makes the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import ibis
from ibis import selectors as s
from ibis.expr.types import BooleanValue, IntegerValue, Table

from phsafe.engine import Engine
from phsafe.errors import ConfigError, DataError
from phsafe.levels import digits
from phsafe.schema import HOUSING_UNIT
from phsafe.source.tables import Tables
from phsafe.tabulation.cells import region_radices, regions
from phsafe.tabulation.coding import list_of, position_of
from phsafe.tabulation.plan import Plan


class MoreColumns(Protocol):
    """What else somebody wants to know of persons, and of units and geo rows that are put side by side."""

    def of_persons(self, persons: Table) -> Mapping[str, IntegerValue]:
        """Columns for each person, in one byte or two."""

    def of_units(self, units: Table) -> Mapping[str, IntegerValue]:
        """Columns for each unit."""

    def of_geo(self, geo: Table) -> Mapping[str, IntegerValue]:
        """Columns for each geo row."""


def repeated(table: Table, engine: Engine) -> Table:
    """The MAFIDs that stand more than once in a table."""
    return engine.frequent(table.select("MAFID"), 1)


def matched(
    tables: Tables, plan: Plan, units_twice: Table, geo_twice: Table, more: MoreColumns | None
) -> Table:
    """Units and their geo rows side by side: every MAFID that stands once in both, with its place.

    What is no housing unit in the state filter has no place. It is left out if nobody wants to know more: the rest is
    what `households` would give.
    """
    # Codes first, joins then: what travels through a join is a few small numbers.
    units, geo = tables.units, tables.geo
    region, state = _region(geo, plan)
    unit = _narrow(plan.units.expression(units), plan).name("unit")
    region = _narrow(region, plan).name("region")
    units = _inside(units, units.RTYPE == HOUSING_UNIT, unit, more.of_units(units) if more else None)
    geo = _inside(geo, (geo.RTYPE == HOUSING_UNIT) & (state > 0), region, more.of_geo(geo) if more else None)
    both = units.anti_join(units_twice, "MAFID").inner_join(geo.anti_join(geo_twice, "MAFID"), "MAFID")
    place = _narrow(both.unit + both.region * plan.units.size, plan)
    return both.select(~s.cols("unit", "region"), place=place)


def _inside(
    table: Table, condition: BooleanValue, number: IntegerValue, more: Mapping[str, IntegerValue] | None
) -> Table:
    """MAFID and a number of the rows that pass a condition; or, with more columns, of all rows, null for the others."""
    if more is None:
        return table.filter(condition).select("MAFID", number)
    # Where it is added to, the number is still looked up once for each entry of a dictionary; a CASE would look at
    # every row.
    or_null = condition.ifelse(ibis.literal(0, number.type()), ibis.null(number.type()))
    return table.select("MAFID", (number + or_null).cast(number.type()).name(number.get_name()), **more)


def _narrow(number: IntegerValue, plan: Plan) -> IntegerValue:
    """A number as small as places are. Ibis has to know: it would leave a later cast to 64 bits out."""
    return number.cast("int32" if _size(plan) < 2**31 else "int64")


def households(matched_units: Table) -> Table:
    """MAFID and place of every housing unit in the state filter."""
    return matched_units.filter(matched_units.place.notnull()).select("MAFID", "place")


def check_geography(geo: Table, plan: Plan) -> None:
    """Refuse levels that the data or 63 bits have no room for, before a record is looked at."""
    missing = [name for name in plan.geo_columns if name not in geo.columns]
    if missing:
        raise DataError([f"geo: column {name} is missing, and a level needs it" for name in missing])
    if _size(plan) * plan.persons.size >= 2**63:
        raise ConfigError(
            "expected levels with fewer geo columns, or tables with fewer codes, so that places and persons can be "
            f"told apart by numbers of 63 bits, got {', '.join(plan.geo_columns)}"
        )


def _size(plan: Plan) -> int:
    """How many places there can be."""
    return plan.units.size * regions(plan)


def _region(geo: Table, plan: Plan) -> tuple[IntegerValue, IntegerValue]:
    """The region's packed digits, and the state's number in the state filter (0 or null outside)."""
    state = position_of(list_of(plan.config.states), geo.TABBLKST)
    total, stride = state.cast("int64"), 1 + len(plan.config.states)
    for column, radix in region_radices(plan)[1:]:
        # A text that is not digits gets the one number that no region has, so it only leaves that geography.
        is_code = geo[column].re_search(f"^[0-9]{{{digits(column)}}}$")
        number = ibis.cases((is_code, geo[column].try_cast("int64")), else_=ibis.literal(radix - 1, "int64"))
        total, stride = total + number * ibis.literal(stride, "int64"), stride * radix
    return total, state
