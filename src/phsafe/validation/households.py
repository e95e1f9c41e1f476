"""Rules across tables: keys that match, and units that agree with the people in them.

One grouping by MAFID over persons, units and geo gives a row for each household with all that the rules need.
"""

from __future__ import annotations

import ibis
from ibis import _
from ibis.expr.types import BooleanValue, IntegerValue, Table

from phsafe.schema import FAMILY, HOUSEHOLDER, OWN_CHILDREN
from phsafe.source.tables import Tables
from phsafe.validation.rules import Rule

ADULT = 18
#: Everyone in the family but the householder and a spouse.
RELATIVES = tuple(code for code in FAMILY if code >= "25")
UNIT_COLUMNS = {"unit_rtype": "RTYPE", "FINAL_POP": "FINAL_POP", "NPF": "NPF"}
UNIT_CODES = ("HHT", "HHT2", "CPLT")


def households(tables: Tables) -> Table:
    """One row for each MAFID in any table: how often it stands where, its unit's columns, its members by relation."""
    members = _members(tables.persons)
    zero, no_number, no_text = ibis.literal(0, "int64"), ibis.null("int64"), ibis.null("string")
    empty = (
        {"units": zero, "geos": zero, "geo_rtype": no_number}
        | dict.fromkeys(UNIT_COLUMNS, no_number)
        | dict.fromkeys(UNIT_CODES, no_text)
        | dict.fromkeys(members, zero)
    )
    units = tables.units.select(
        "MAFID", **(empty | _unit_values(tables.units) | {"units": ibis.literal(1, "int64")})
    )
    geo = tables.geo.select(
        "MAFID", **(empty | {"geos": ibis.literal(1, "int64"), "geo_rtype": tables.geo.RTYPE.cast("int64")})
    )
    persons = tables.persons.select("MAFID", **(empty | members))
    stacked = units.union(geo, persons).filter(_.MAFID.notnull())
    sums = ("units", "geos", *members)
    return stacked.group_by("MAFID").agg(
        **{name: stacked[name].sum().cast("int64") for name in sums},
        **{name: stacked[name].max() for name in empty if name not in sums},
    )


def _unit_values(units: Table) -> dict[str, ibis.expr.types.Value]:
    numbers = {name: units[column].cast("int64") for name, column in UNIT_COLUMNS.items()}
    return numbers | {name: units[name] for name in UNIT_CODES}


def _members(persons: Table) -> dict[str, IntegerValue]:
    """How each person counts in its household."""
    relation = persons.RELSHIP
    own_minor = relation.isin(OWN_CHILDREN) & (persons.QAGE < ADULT)
    flags = {
        "persons": ibis.literal(True),
        "in_quarters": persons.RTYPE == 5,
        "in_housing": persons.RTYPE == 3,
        "householders": relation == HOUSEHOLDER,
        "opposite_spouses": relation == "21",
        "same_spouses": relation == "23",
        "opposite_partners": relation == "22",
        "same_partners": relation == "24",
        "relatives": relation.isin(RELATIVES),
        "own_minors": own_minor,
    }
    return {name: flag.fill_null(False).cast("int64") for name, flag in flags.items()}


def household_rules() -> list[Rule]:
    """All rules over one household, errors first."""
    return [
        _keys("MAFID stands once in units", "units", lambda t: t.units > 1, lambda t: t.units),
        _keys("MAFID stands once in geo", "geo", lambda t: t.geos > 1, lambda t: t.geos),
        _keys("a person's MAFID is in units", "persons", lambda t: t.units == 0, lambda t: t.persons),
        _keys("a unit's MAFID is in geo", "units", lambda t: t.geos == 0, lambda t: t.units),
        _keys("a geo row's MAFID is in units", "geo", lambda t: t.units == 0, lambda t: t.geos),
        Rule("the unit and its geo row have the same RTYPE", "warning", "geo", "RTYPE",
             lambda t: (t.units == 1) & (t.geos == 1) & (t.unit_rtype != t.geo_rtype)),
        Rule("a person's RTYPE fits the unit's", "warning", "persons", "RTYPE",
             lambda t: _mismatched(t) > 0, _mismatched),
        _unit("FINAL_POP is the number of persons", "FINAL_POP", lambda t: t.FINAL_POP != t.persons),
        _unit("an occupied unit has exactly one householder", "RELSHIP",
              lambda t: _housing(t) & ((t.HHT != "0") | (t.in_housing > 0)) & (t.householders != 1)),
        _unit("NPF is the number of persons in the family", "NPF", lambda t: _housing(t) & (t.NPF != _family(t))),
        _unit("HHT follows from the members", "HHT", lambda t: _housing(t) & ~_hht_fits(t)),
        _unit("HHT2 follows from the members", "HHT2", lambda t: _housing(t) & ~_hht2_fits(t)),
        _unit("HHT and HHT2 have a householder of the same sex", "HHT2", lambda t: _housing(t) & _sexes_differ(t)),
        _unit("CPLT follows from the members", "CPLT", lambda t: _housing(t) & (t.CPLT != _couple(t))),
    ]  # fmt: skip


def _keys(name, table, breaks, weight) -> Rule:  # type: ignore[no-untyped-def]  # noqa: ANN001
    return Rule(name, "error", table, "MAFID", breaks, weight)


def _unit(name, column, breaks) -> Rule:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """A rule on a unit and its members, where exactly one unit row stands for them."""
    return Rule(name, "warning", "units", column, lambda t: (t.units == 1) & breaks(t))


def _housing(t: Table) -> BooleanValue:
    return t.unit_rtype == 2


def _mismatched(t: Table) -> IntegerValue:
    """Persons whose RTYPE does not fit their unit's."""
    return ibis.cases((t.unit_rtype == 2, t.in_quarters), (t.unit_rtype == 4, t.in_housing), else_=0)


def _married(t: Table) -> BooleanValue:
    return (t.opposite_spouses + t.same_spouses) > 0


def _partnered(t: Table) -> BooleanValue:
    return (t.opposite_partners + t.same_partners) > 0


def _family(t: Table) -> IntegerValue:
    """The number of persons in the family; a householder without relatives is none."""
    others = t.opposite_spouses + t.same_spouses + t.relatives
    return (others > 0).ifelse(t.householders + others, 0)


def _hht_fits(t: Table) -> BooleanValue:
    return ibis.cases(
        (t.persons == 0, t.HHT == "0"),
        (_married(t), t.HHT == "1"),
        (t.relatives > 0, t.HHT.isin(["2", "3"])),
        (t.persons == 1, t.HHT.isin(["4", "6"])),
        else_=t.HHT.isin(["5", "7"]),
    )


def _hht2_fits(t: Table) -> BooleanValue:
    with_minors = t.own_minors > 0
    return ibis.cases(
        (t.persons == 0, t.HHT2 == "00"),
        (_married(t), t.HHT2 == with_minors.ifelse("01", "02")),
        (_partnered(t), t.HHT2 == with_minors.ifelse("03", "04")),
        (t.persons == 1, t.HHT2.isin(["05", "09"])),
        (with_minors, t.HHT2.isin(["06", "10"])),
        (t.relatives > 0, t.HHT2.isin(["07", "11"])),
        else_=t.HHT2.isin(["08", "12"]),
    )


def _sexes_differ(t: Table) -> BooleanValue:
    female, male = t.HHT.isin(["3", "6", "7"]), t.HHT.isin(["2", "4", "5"])
    return (male & t.HHT2.isin(["05", "06", "07", "08"])) | (female & t.HHT2.isin(["09", "10", "11", "12"]))


def _couple(t: Table) -> ibis.expr.types.StringValue:
    return ibis.cases(
        (t.persons == 0, "0"),
        (t.opposite_spouses > 0, "1"),
        (t.same_spouses > 0, "2"),
        (t.opposite_partners > 0, "3"),
        (t.same_partners > 0, "4"),
        else_="5",
    )
