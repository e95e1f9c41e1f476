"""Rules across tables: keys that match, and units that agree with the people in them.

Units, geo and the members' numbers are put side by side, which gives a row for each MAFID with all that the rules need
(`households`). To count offenders, MAFIDs that are alike are taken together first (`compositions`).
"""

from __future__ import annotations

import ibis
import numpy as np
from ibis.expr.types import BooleanValue, IntegerValue, Table

from phsafe.conditions import where
from phsafe.schema import FAMILY, GEO, GROUP_QUARTERS, HOUSEHOLDER, HOUSING_UNIT, OWN_CHILDREN, UNITS
from phsafe.source.tables import Tables
from phsafe.tabulation.coding import Coding, numbered
from phsafe.tabulation.people import passes
from phsafe.validation.packing import LIMIT, Facts, Fields, known
from phsafe.validation.rules import Condition, Rule, Weight

ADULT = 18
#: Everyone in the family but the householder and a spouse.
RELATIVES = tuple(code for code in FAMILY if code >= "25")
#: The columns of units that rules look at. RTYPE weighs most, so that the largest integer has the largest RTYPE.
UNIT_FACTS = Facts(tuple(UNITS[name] for name in ("HHT", "HHT2", "CPLT", "NPF", "FINAL_POP", "RTYPE")))
GEO_FACTS = Facts((GEO["RTYPE"],))
#: What a person can be in its household.
RELATIONS = {
    "in_quarters": where(RTYPE=5),
    "in_housing": where(RTYPE=3),
    "householders": where(RELSHIP=HOUSEHOLDER),
    "relatives": where(RELSHIP=RELATIVES),
    "own_minors": where(RELSHIP=OWN_CHILDREN, QAGE=range(ADULT)),
    "opposite_spouses": where(RELSHIP="21"),
    "opposite_partners": where(RELSHIP="22"),
    "same_spouses": where(RELSHIP="23"),
    "same_partners": where(RELSHIP="24"),
}
#: All of it in one small number.
RELATION = Coding.of(RELATIONS.values())
FIELDS = Fields(tuple(RELATIONS))
#: How often a MAFID stands in each table, and what its persons are.
COUNTS = ("units", "geos", "persons", *FIELDS.names, *FIELDS.words)
#: What MAFIDs that are counted together have in common.
COMPOSITION = ("unit_facts", "geo_facts", "units", "geos", "persons", *FIELDS.words)


def households(tables: Tables, units_twice: Table, geo_twice: Table, members: Table) -> Table:
    """One row for each MAFID in any table: how often it stands where, its unit's columns, its members by relation."""
    facts = {column.name: known(tables.units, column) for column in UNIT_FACTS.columns}
    units = tables.units.select("MAFID", unit_rtype=facts.pop("RTYPE"), **facts)
    geo = tables.geo.select("MAFID", geo_rtype=known(tables.geo, GEO["RTYPE"]))
    return _side_by_side(units, units_twice, geo, geo_twice, members)


def compositions(tables: Tables, units_twice: Table, geo_twice: Table, packed: Table, giants: Table) -> Table:
    """The rows of `households`, packed, each once and with how often it is there (n). Giants are left out of both."""
    units = tables.units.select("MAFID", unit_facts=UNIT_FACTS.pack(tables.units))
    geo = tables.geo.select("MAFID", geo_facts=GEO_FACTS.pack(tables.geo))
    units, geo = units.anti_join(giants, "MAFID"), geo.anti_join(giants, "MAFID")
    rows = _side_by_side(units, units_twice, geo, geo_twice, _whole(packed))
    return rows.group_by(COMPOSITION).agg(n=rows.count().cast("int64"))


def matched_compositions(matched: Table, packed: Table) -> Table:
    """The same of units and geo rows that are side by side already, and their members."""
    rows, one = matched.left_join(_whole(packed), "MAFID"), ibis.literal(1, "int64")
    members = {name: rows[name].fill_null(0) for name in ("persons", *FIELDS.words)}
    rows = rows.select("unit_facts", "geo_facts", **members)
    found = rows.group_by(rows.columns).agg(n=rows.count().cast("int64")).mutate(units=one, geos=one)
    return found.select(*COMPOSITION, "n")


def unpacked(composed: Table) -> Table:
    """Compositions with the columns that rules look at."""
    facts = UNIT_FACTS.unpack(composed.unit_facts)
    return composed.select(
        "n", "units", "geos", "persons",
        **FIELDS.unpack(composed), **{name: facts[name] for name in facts if name != "RTYPE"},
        unit_rtype=facts["RTYPE"], geo_rtype=GEO_FACTS.unpack(composed.geo_facts)["RTYPE"],
    )  # fmt: skip


def giants_of(packed: Table) -> Table:
    """The MAFIDs with too many persons to pack their numbers; there should be none outside large group quarters."""
    return packed.filter(packed.persons >= LIMIT).select("MAFID")


def without_giants(matched: Table, packed: Table, giants: Table) -> tuple[Table, Table]:
    """The rows of all other MAFIDs."""
    return matched.anti_join(giants, "MAFID"), packed.filter(packed.persons < LIMIT)


def persons_in(packed: Table) -> Table:
    """One row: how many persons (n) have a MAFID."""
    return packed.aggregate(n=packed.persons.sum().fill_null(0).cast("int64"))


def _whole(packed: Table) -> Table:
    """Words as whole numbers, of a table without giants."""
    return packed.mutate(**{word: packed[word].cast("int64") for word in FIELDS.words})


def of_giants(tables: Tables, giants: Table) -> Tables:
    """The rows of some MAFIDs."""
    return Tables(**{layout.name: table.semi_join(giants, "MAFID") for layout, table in tables})


def _side_by_side(units: Table, units_twice: Table, geo: Table, geo_twice: Table, members: Table) -> Table:
    homes = _beside(_once_each(units, units_twice, "units"), _once_each(geo, geo_twice, "geos"))
    return _beside(homes, members)


def _once_each(table: Table, twice: Table, number: str) -> Table:
    """One row for each MAFID, with how often it stands in the table.

    Of a MAFID that stands more than once the largest value of each column is given.
    """
    table = table.filter(table.MAFID.notnull())
    values = [name for name in table.columns if name != "MAFID"]
    single = table.anti_join(twice, "MAFID").mutate(**{number: ibis.literal(1, "int64")})
    several = table.semi_join(twice, "MAFID")
    grouped = several.group_by("MAFID").agg(
        **{name: several[name].max() for name in values}, **{number: several.count().cast("int64")}
    )
    return single.union(grouped.select(single.columns))


def _beside(left: Table, right: Table) -> Table:
    """All rows of both tables, side by side where they have the same MAFID; numbers that only one side has are 0."""
    joined = left.outer_join(right, "MAFID")
    columns = {
        name: joined[name].fill_null(0) if name in COUNTS else joined[name]
        for name in (*left.columns, *right.columns)
        if name != "MAFID"
    }
    # A view of it, since Ibis would put the next join into this one.
    return joined.select(MAFID=ibis.coalesce(joined.MAFID, joined.MAFID_right), **columns).view()


def relation(persons: Table) -> IntegerValue:
    """What each person is in its household, in one byte."""
    return RELATION.expression(persons).cast("int8")


def packed_members_of(people: Table) -> Table:
    """As `members_of`, of people with their relations, the numbers packed in words: for fewer than LIMIT persons.

    Truncation takes the number of persons from here, so everybody with a MAFID is in it (claim C1 of docs/privacy.md).
    """
    words = {word: np.zeros(RELATION.size, dtype=np.int64) for word in FIELDS.words}
    for name, condition in RELATIONS.items():
        word, weight = FIELDS.weights(name)
        words[word] += weight * RELATION.mask(np.arange(RELATION.size), condition)
    coded = people.select(
        "MAFID", **{word: numbered(people.relation, weights.tolist()) for word, weights in words.items()}
    )
    return coded.group_by("MAFID").agg(
        persons=coded.count().cast("int64"), **{word: coded[word].cast("float64").sum() for word in words}
    )


def members_of(persons: Table) -> Table:
    """How many persons each MAFID has, in all and by relation."""
    persons = persons.filter(persons.MAFID.notnull())
    counts = {
        name: persons.count(where=passes(persons, condition)).cast("int64")
        for name, condition in RELATIONS.items()
    }
    return persons.group_by("MAFID").agg(persons=persons.count().cast("int64"), **counts)


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


def _keys(name: str, table: str, breaks: Condition, weight: Weight) -> Rule:
    return Rule(name, "error", table, "MAFID", breaks, weight)


def _unit(name: str, column: str, breaks: Condition) -> Rule:
    """A rule on a unit and its members, where exactly one unit row stands for them."""
    return Rule(name, "warning", "units", column, lambda t: (t.units == 1) & breaks(t))


def _housing(t: Table) -> BooleanValue:
    return t.unit_rtype == HOUSING_UNIT


def _mismatched(t: Table) -> IntegerValue:
    """Persons whose RTYPE does not fit their unit's."""
    return ibis.cases(
        (t.unit_rtype == HOUSING_UNIT, t.in_quarters), (t.unit_rtype == GROUP_QUARTERS, t.in_housing), else_=0
    )


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
