"""One row for each household: its unit's code, its region, and how many persons of each kind it has.

Persons, units and geo are stacked and grouped by MAFID once. That one pass is the join, finds repeated unit
MAFIDs (more than one row of units or geo: the household is dropped, claim C1.3 of docs/privacy.md) and
counts every universe of every household, so that truncation needs to look only where a household is too large.
"""

from __future__ import annotations

import ibis
from ibis import _
from ibis.expr.types import IntegerValue, Table

from phsafe.errors import DataError
from phsafe.levels import digits
from phsafe.source.tables import Tables
from phsafe.tabulation.plan import Plan

HOUSING_UNIT = 2


def kind_columns(plan: Plan) -> list[str]:
    """The columns that hold the number of persons of each kind."""
    return [f"kind{i}" for i in range(len(plan.kinds))]


def households(tables: Tables, plan: Plan) -> Table:
    """MAFID, unit (packed code), region (packed digits), kind0, kind1, …: the households that count."""
    missing = [name for name in plan.geo_columns if name not in tables.geo.columns]
    if missing:
        raise DataError([f"geo: column {name} is missing, and a level needs it" for name in missing])
    kinds = kind_columns(plan)
    empty = {"unit": _null(), "region": _null(), "units": _int(0), "geos": _int(0)} | dict.fromkeys(
        kinds, _int(0)
    )
    units = tables.units.select("MAFID", **(empty | {"unit": _unit(tables.units, plan), "units": _int(1)}))
    geo = tables.geo.select("MAFID", **(empty | {"region": _region(tables.geo, plan), "geos": _int(1)}))
    stacked = units.union(geo)
    if kinds:
        coded = tables.persons.select("MAFID", code=plan.persons.expression(tables.persons))
        counts = {
            name: coded.code.isin(codes.tolist()).cast("int64")
            for name, codes in zip(kinds, plan.kinds, strict=True)
        }
        stacked = stacked.union(coded.select("MAFID", **(empty | counts)))
    grouped = stacked.filter(_.MAFID.notnull()).group_by("MAFID").agg(
        unit=_.unit.max(), region=_.region.max(), units=_.units.sum(), geos=_.geos.sum(),
        **{name: stacked[name].sum().cast("int64") for name in kinds},
    )  # fmt: skip
    counted = (_.units == 1) & (_.geos == 1) & _.unit.notnull() & _.region.notnull()
    return grouped.filter(counted).drop("units", "geos")


def _unit(units: Table, plan: Plan) -> IntegerValue:
    """A housing unit's packed code; null for group quarters."""
    return (units.RTYPE == HOUSING_UNIT).ifelse(plan.units.expression(units), _null())


def _region(geo: Table, plan: Plan) -> IntegerValue:
    """A region's packed digits; null outside the state filter and for group quarters."""
    inside = (geo.RTYPE == HOUSING_UNIT) & geo.TABBLKST.isin(plan.config.states)
    total, stride = ibis.literal(0, "int64"), 1
    for column, radix in region_radices(plan):
        # A text that is not digits gets the one number that no region has, so it only leaves that geography.
        is_code = geo[column].re_search(f"^[0-9]{{{digits(column)}}}$")
        number = ibis.cases((is_code, geo[column].try_cast("int64")), else_=ibis.literal(radix - 1, "int64"))
        total, stride = total + number * ibis.literal(stride, "int64"), stride * radix
    return inside.ifelse(total, _null())


def region_radices(plan: Plan) -> list[tuple[str, int]]:
    """The columns packed in a region, least significant first, each with one number more than its digits allow."""
    return [(column, 10 ** digits(column) + 1) for column in plan.geo_columns]


def _int(value: int) -> IntegerValue:
    return ibis.literal(value, "int64")


def _null() -> IntegerValue:
    return ibis.null("int64")
