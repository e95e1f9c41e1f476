"""One row for each household that counts: its MAFID and its place, which is its unit's code and its region.

A MAFID that stands more than once in units or in geo is no household, in any tabulation (claim C1.3 of
docs/privacy.md). There should be none; they are found first, so that a plain join makes the rest.
"""

from __future__ import annotations

from math import prod

import ibis
from ibis.expr.types import Table

from phsafe.engine import Engine
from phsafe.errors import ConfigError, DataError
from phsafe.levels import digits
from phsafe.source.tables import Tables
from phsafe.tabulation.cells import region_radices
from phsafe.tabulation.coding import position_of
from phsafe.tabulation.plan import Plan

HOUSING_UNIT = 2


def repeated(table: Table, engine: Engine) -> Table:
    """The MAFIDs that stand more than once in a table."""
    return engine.frequent(table.select("MAFID"), 1)


def households(tables: Tables, plan: Plan, units_twice: Table, geo_twice: Table) -> Table:
    """MAFID and place of every housing unit in the state filter, without the repeated ones."""
    # Codes first, joins then: what travels through a join is one small number.
    housing = tables.units.filter(tables.units.RTYPE == HOUSING_UNIT)
    units = housing.select("MAFID", unit=plan.units.expression(housing))
    geo = _regions(tables.geo.filter(tables.geo.RTYPE == HOUSING_UNIT), plan)
    inside = geo.filter(geo.state > 0).select("MAFID", "region")
    joined = units.anti_join(units_twice, "MAFID").inner_join(inside.anti_join(geo_twice, "MAFID"), "MAFID")
    place = joined.unit + joined.region * plan.units.size
    return joined.select("MAFID", place=place.cast("int32") if _size(plan) < 2**31 else place)


def check_geography(geo: Table, plan: Plan) -> None:
    """Refuse levels that the data or 63 bits have no room for, before a record is looked at."""
    missing = [name for name in plan.geo_columns if name not in geo.columns]
    if missing:
        raise DataError([f"geo: column {name} is missing, and a level needs it" for name in missing])
    if _size(plan) >= 2**63:
        raise ConfigError(f"expected levels that need fewer geo columns, got {', '.join(plan.geo_columns)}")


def _size(plan: Plan) -> int:
    """How many places there can be."""
    return plan.units.size * prod(radix for _, radix in region_radices(plan))


def _regions(geo: Table, plan: Plan) -> Table:
    """MAFID, the state's number in the state filter (0 or null outside), and the region's packed digits."""
    geo = geo.mutate(state=position_of(ibis.array(list(plan.config.states)), geo.TABBLKST))
    total, stride = geo.state.cast("int64"), 1 + len(plan.config.states)
    for column, radix in region_radices(plan)[1:]:
        # A text that is not digits gets the one number that no region has, so it only leaves that geography.
        is_code = geo[column].re_search(f"^[0-9]{{{digits(column)}}}$")
        number = ibis.cases((is_code, geo[column].try_cast("int64")), else_=ibis.literal(radix - 1, "int64"))
        total, stride = total + number * ibis.literal(stride, "int64"), stride * radix
    return geo.select("MAFID", "state", region=total)
