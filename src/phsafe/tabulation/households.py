"""One row for each household: its unit's code, its region, and how many persons of each kind it has.

Persons, units and geo are stacked and grouped by MAFID once. That one pass is the join, finds repeated unit MAFIDs
(more than one row of units or geo: the household is dropped, claim C1.3 of docs/privacy.md) and counts every
universe of every household, so that truncation needs to look only where a household is too large.
"""

from __future__ import annotations

from math import prod

import ibis
from ibis import _
from ibis.expr.types import IntegerValue, Table

from phsafe.errors import ConfigError, DataError
from phsafe.levels import digits
from phsafe.source.tables import Tables
from phsafe.tabulation.coding import decide
from phsafe.tabulation.packing import LIMIT, Packing
from phsafe.tabulation.plan import Plan

HOUSING_UNIT = 2


def kind_columns(plan: Plan) -> list[str]:
    """The columns that hold the number of persons of each kind."""
    return [f"kind{i}" for i in range(len(plan.kinds))]


class Fields:
    """The fields of a household's packed counts: a unit, a geo row, a row that spoils it, and kinds of persons."""

    UNIT, GEO, SPOILED, FIRST_KIND = range(4)
    #: A person of no universe: in no field.
    NOBODY = -1

    def __init__(self, plan: Plan) -> None:
        self.kinds = range(self.FIRST_KIND, self.FIRST_KIND + len(plan.kinds))
        self.packing = Packing(self.FIRST_KIND + len(plan.kinds))


def stacked(tables: Tables, plan: Plan) -> Table:
    """All rows that count as MAFID, field and value: a unit's code, or a region beyond the unit's bits."""
    units, geo = tables.units, tables.geo
    _check_geography(geo, plan)
    is_housing = (units.RTYPE == HOUSING_UNIT).fill_null(False)
    is_inside = ((geo.RTYPE == HOUSING_UNIT) & geo.TABBLKST.isin(plan.config.states)).fill_null(False)
    rows = units.select(
        "MAFID",
        field=is_housing.ifelse(_tiny(Fields.UNIT), _tiny(Fields.SPOILED)),
        value=is_housing.ifelse(plan.units.expression(units), _long(0)),
    ).union(
        geo.select(
            "MAFID",
            field=is_inside.ifelse(_tiny(Fields.GEO), _tiny(Fields.SPOILED)),
            value=is_inside.ifelse(_region(geo, plan) << _long(_unit_bits(plan)), _long(0)),
        )
    )
    if plan.kinds:
        kinds = {code: Fields.FIRST_KIND + i for i, codes in enumerate(plan.kinds) for code in codes.tolist()}
        # A filter on the outcome would make DuckDB work out the whole tree a second time; this one is on columns.
        people = tables.persons
        for name, codes in plan.anybody.items():
            people = people.filter(people[name].isin(codes))
        persons = decide(people, plan.kind_coding, kinds, Fields.NOBODY, keep="MAFID")
        rows = rows.union(persons.select("MAFID", field=persons.outcome.cast("int8"), value=_long(0)))
    return rows.filter(rows.MAFID.notnull())


def packed(tables: Tables, plan: Plan) -> Table:
    """MAFID, value, word0, …, rows: every household in one row, its counts packed (0 where they would run over)."""
    rows = stacked(tables, plan)
    weights = Fields(plan).packing.weights(rows.field)
    weighted = rows.select("MAFID", "value", **weights)
    return weighted.group_by("MAFID").agg(
        value=_.value.bit_or(),
        **{word: (_.count() < LIMIT).ifelse(weighted[word].sum(), _long(0)) for word in weights},
        rows=_.count().cast("int64"),
    )


def small(table: Table, plan: Plan) -> Table:
    """The packed households whose counts fit their fields, and that count: one unit, one geo row, nothing else."""
    packing = Fields(plan).packing
    return table.filter(
        table["rows"] < LIMIT,
        packing.unpack(table, Fields.UNIT) == 1,
        packing.unpack(table, Fields.GEO) == 1,
        packing.unpack(table, Fields.SPOILED) == 0,
    )


def compositions(table: Table, plan: Plan) -> Table:
    """How many households share a value and all counts (n): far fewer rows than households."""
    return table.group_by("value", *Fields(plan).packing.words).agg(n=_.count().cast("int64"))


def unpacked(table: Table, plan: Plan, *keep: str) -> Table:
    """The unit, region and kinds of packed rows, beside the columns to keep."""
    fields = Fields(plan)
    kinds = {
        name: fields.packing.unpack(table, field)
        for name, field in zip(kind_columns(plan), fields.kinds, strict=True)
    }
    return table.select(*keep, **_place(table, plan), **kinds)


def giants(tables: Tables, plan: Plan, keys: Table) -> Table:
    """MAFID, unit, region, kind0, …: households of too many rows for packed counts, counted field by field."""
    fields = Fields(plan)
    rows = stacked(tables, plan).semi_join(keys, "MAFID")
    names = {Fields.UNIT: "units", Fields.GEO: "geos", Fields.SPOILED: "spoiled"}
    names |= dict(zip(fields.kinds, kind_columns(plan), strict=True))
    grouped = rows.group_by("MAFID").agg(
        value=rows.value.bit_or(),
        **{name: rows.count(where=rows.field == field).cast("int64") for field, name in names.items()},
    )
    counted = grouped.filter((_.units == 1) & (_.geos == 1) & (_.spoiled == 0))
    return counted.select("MAFID", *kind_columns(plan), **_place(counted, plan))


def _check_geography(geo: Table, plan: Plan) -> None:
    """Refuse levels that the data or 63 bits have no room for, before a record is looked at."""
    missing = [name for name in plan.geo_columns if name not in geo.columns]
    if missing:
        raise DataError([f"geo: column {name} is missing, and a level needs it" for name in missing])
    if _unit_bits(plan) + prod(radix for _, radix in region_radices(plan)).bit_length() > 63:
        raise ConfigError(f"expected levels that need fewer geo columns, got {', '.join(plan.geo_columns)}")


def _place(table: Table, plan: Plan) -> dict[str, IntegerValue]:
    bits = _unit_bits(plan)
    return {
        "unit": table.value & _long((1 << bits) - 1),
        "region": (table.value >> _long(bits)).cast("int64"),
    }


def _unit_bits(plan: Plan) -> int:
    return plan.units.size.bit_length()


def _region(geo: Table, plan: Plan) -> IntegerValue:
    """A region's packed digits."""
    total, stride = _long(0), 1
    for column, radix in region_radices(plan):
        if column == "TABBLKST":
            number = geo[column].cases(
                *((state, _long(int(state))) for state in plan.config.states), else_=_long(0)
            )
        else:
            # A text that is not digits gets the one number that no region has, so it only leaves that geography.
            is_code = geo[column].re_search(f"^[0-9]{{{digits(column)}}}$")
            number = ibis.cases((is_code, geo[column].try_cast("int64")), else_=_long(radix - 1))
        total, stride = total + number * _long(stride), stride * radix
    return total


def region_radices(plan: Plan) -> list[tuple[str, int]]:
    """The columns packed in a region, least significant first, each with one number more than its digits allow."""
    return [(column, 10 ** digits(column) + 1) for column in plan.geo_columns]


def _long(number: int) -> IntegerValue:
    return ibis.literal(number, "int64")


def _tiny(number: int) -> IntegerValue:
    return ibis.literal(number, "int8")
