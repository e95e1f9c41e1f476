"""Step 3, rules: what a household must look like. Rows that break a rule are counted, and nothing more is said of them.

A value that `encode` reported as missing or outside its domain breaks no further rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from phsafe.conditions import Code, Where, where
from phsafe.counting.coding import Coding
from phsafe.counting.findings import Findings, Rule, Severity
from phsafe.counting.households import Households
from phsafe.counting.records import Array, RecordFormat, Rows, gather
from phsafe.schema import FAMILY, GROUP_QUARTERS, HOUSEHOLDER, HOUSING_UNIT, OWN_CHILDREN, UNITS

#: Everyone in the family except the householder and a spouse.
RELATIVES = tuple(code for code in FAMILY if code >= "25")
#: Members that rules count. The counts stand side by side in a word of 64 bits.
COUNTED: dict[str, Where] = {
    "in_quarters": where(RTYPE=5),
    "in_housing": where(RTYPE=3),
    "householders": where(RELSHIP=HOUSEHOLDER),
    "others_in_family": where(RELSHIP=["21", "23", *RELATIVES]),
}
FIELD_BITS, FLAG_BITS = 16, 10
#: Members of whom rules ask whether there are any: one bit each of a household's composition. They are counted
#: side by side too.
PRESENT: dict[str, Where] = {
    "opposite_spouse": where(RELSHIP="21"),
    "opposite_partner": where(RELSHIP="22"),
    "same_spouse": where(RELSHIP="23"),
    "same_partner": where(RELSHIP="24"),
    "relatives": where(RELSHIP=RELATIVES),
    "own_minors": where(RELSHIP=OWN_CHILDREN, QAGE=range(18)),
}
#: The columns of a unit with fewer than 256 codes that rules look at.
SMALL_COLUMNS = ("RTYPE", "HHT", "HHT2", "CPLT", "NPF")
#: The code of HHT for a unit without a household.
VACANT = 1
#: The next two bits: no person, one person, or more.
SIZE_SHIFT = len(PRESENT)
COMPOSITIONS = 1 << (SIZE_SHIFT + 2)


@dataclass(frozen=True)
class Composition:
    """Who lives in a household, as far as the codes of its unit depend on it."""

    number: int

    def has(self, *members: str) -> bool:
        """Whether there is any of these members."""
        return any(self.number >> list(PRESENT).index(name) & 1 for name in members)

    @property
    def persons(self) -> int:
        """The number of persons: 0, 1, or 2 for more."""
        return self.number >> SIZE_SHIFT

    def hht(self) -> set[str]:
        """The household types that fit."""
        if self.persons == 0:
            return {"0"}
        if self.has("opposite_spouse", "same_spouse"):
            return {"1"}
        if self.has("relatives"):
            return {"2", "3"}
        return {"4", "6"} if self.persons == 1 else {"5", "7"}

    def hht2(self) -> set[str]:
        """The household types with cohabiting couples that fit."""
        minors = self.has("own_minors")
        if self.persons == 0:
            return {"00"}
        if self.has("opposite_spouse", "same_spouse"):
            return {"01" if minors else "02"}
        if self.has("opposite_partner", "same_partner"):
            return {"03" if minors else "04"}
        if self.persons == 1:
            return {"05", "09"}
        if minors:
            return {"06", "10"}
        return {"07", "11"} if self.has("relatives") else {"08", "12"}

    def cplt(self) -> set[str]:
        """The couple type that fits."""
        if self.persons == 0:
            return {"0"}
        couples = ("opposite_spouse", "same_spouse", "opposite_partner", "same_partner")
        return {next((str(i) for i, member in enumerate(couples, 1) if self.has(member)), "5")}


def _misfits(column: str, fitting: Callable[[Composition], set[str]]) -> Array:
    """For each composition and code of a column, whether the code is known and does not fit."""
    codes = UNITS[column].codes
    rows = [[False, *(code not in fitting(Composition(n)) for code in codes)] for n in range(COMPOSITIONS)]
    return np.array(rows)


def _differing_sexes() -> Array:
    """For each code of HHT and of HHT2, whether they tell householders of different sex."""
    female, male = {"3", "6", "7"}, {"2", "4", "5"}
    female2, male2 = {"05", "06", "07", "08"}, {"09", "10", "11", "12"}
    differ = [
        [(a in male and b in female2) or (a in female and b in male2) for b in ("", *UNITS["HHT2"].codes)]
        for a in ("", *UNITS["HHT"].codes)
    ]
    return np.array(differ)


@dataclass(frozen=True)
class MemberTables:
    """For each class of persons, what one of them adds to its household: a word of `COUNTED`, and one of `PRESENT`."""

    counted: Array
    present: Array

    @classmethod
    def of(cls, persons: Coding) -> MemberTables:
        """The tables for a coding of persons that decides `COUNTED` and `PRESENT`."""

        def words(conditions: Iterable[Where], bits: int) -> Array:
            total = np.zeros(persons.size, np.uint64)
            for i, condition in enumerate(conditions):
                total += persons.mask(condition).astype(np.uint64) << np.uint64(bits * i)
            return total

        return cls(words(COUNTED.values(), FIELD_BITS), words(PRESENT.values(), FLAG_BITS))


@dataclass(frozen=True)
class Facts:
    """What the rules look at, for each household.

    Attributes:
        households: How many rows there are of each table.
        unit: The codes of the unit's columns, by column; 0 is unknown.
        geo_rtype: The code of RTYPE in geo.
        counts: How many members of each sort in `COUNTED` there are.
        composition: The number of the household's composition.

    """

    households: Households
    unit: Mapping[str, Array]
    geo_rtype: Array
    counts: Mapping[str, Array]
    composition: Array

    @classmethod
    def of(
        cls,
        households: Households,
        units: RecordFormat,
        geo: RecordFormat,
        person_class: Array,
        members: MemberTables,
    ) -> Facts:
        """Gather the facts.

        Args:
            households: The households.
            units: How unit records are packed.
            geo: How geo records are packed.
            person_class: The class of each person.
            members: What a person of each class adds to its household.

        """
        codes = {name: units[name].codes(households.unit).astype(np.uint8) for name in SMALL_COLUMNS}
        codes["FINAL_POP"] = units["FINAL_POP"].codes(households.unit)
        composition = np.minimum(households.persons, 2) << SIZE_SHIFT
        for i, count in enumerate(
            _sums(households, gather(members.present, person_class), FLAG_BITS, len(PRESENT))
        ):
            composition |= (count != 0).astype(np.int64) << i
        sums = _sums(households, gather(members.counted, person_class), FIELD_BITS, len(COUNTED))
        counts = {name: count.astype(np.int64) for name, count in zip(COUNTED, sums, strict=True)}
        return cls(households, codes, geo["RTYPE"].codes(households.geo), counts, composition)

    @property
    def one_unit(self) -> Array:
        """Whether exactly one unit row has the key."""
        return self.households.units == 1

    def is_unit(self, rtype: int) -> Array:
        """Whether the unit has an RTYPE; of several units, the one with the largest."""
        return self.unit["RTYPE"] == 1 + UNITS["RTYPE"].codes.index(rtype)

    @property
    def housing(self) -> Array:
        """Whether the unit is a housing unit, and the only one with its key."""
        return self.one_unit & self.is_unit(HOUSING_UNIT)

    def misfits(self, table: Array, column: str) -> Array:
        """Whether a housing unit's code does not fit the composition, by a table of both."""
        return self.housing & gather(table.reshape(-1), self.composition * table.shape[1] + self.unit[column])


def _sums(households: Households, words: Array, bits: int, fields: int) -> list[Array]:
    """The sums over each household's persons of the fields of their words."""
    shifts, mask = [np.uint64(bits * i) for i in range(fields)], np.uint64((1 << bits) - 1)
    if households.sizes.max(initial=0) > mask:  # In a sum of words, fields would run into each other.
        return [households.sums(words >> shift & mask) for shift in shifts]
    total = households.sums(words)
    return [total >> shift & mask for shift in shifts]


def _mismatched(f: Facts) -> Array:
    """Persons whose RTYPE does not fit their unit's."""
    in_housing_unit = f.counts["in_quarters"] * f.is_unit(HOUSING_UNIT)
    return in_housing_unit + f.counts["in_housing"] * f.is_unit(GROUP_QUARTERS)


def _rtypes_differ(f: Facts) -> Array:
    unit, geo = f.unit["RTYPE"], f.geo_rtype
    return f.one_unit & (f.households.geos == 1) & (unit != geo) & (unit != 0) & (geo != 0)


def _not_one_householder(f: Facts) -> Array:
    occupied = (f.unit["HHT"] > VACANT) | (f.counts["in_housing"] > 0)
    return f.housing & occupied & (f.counts["householders"] != 1)


def _wrong_population(f: Facts) -> Array:
    population = f.unit["FINAL_POP"]
    return f.one_unit & (population != 0) & (population - 1 != f.households.persons)


def _wrong_family(f: Facts) -> Array:
    others = f.counts["others_in_family"]
    family = (f.counts["householders"] + others) * (others > 0)
    sizes = gather(np.array([-1, *UNITS["NPF"].codes]), f.unit["NPF"])
    return f.housing & (sizes >= 0) & (sizes != family)


def _sexes_differ(f: Facts) -> Array:
    hht, hht2 = f.unit["HHT"].astype(np.intp), f.unit["HHT2"]
    return f.housing & gather(_SEXES.reshape(-1), hht * _SEXES.shape[1] + hht2)


@dataclass(frozen=True)
class HouseholdRule:
    """A rule over households: how many rows of its table break it in each household, or whether one does."""

    rule: Rule
    broken: Callable[[Facts], Array]


def _rule(
    name: str, severity: Severity, table: str, column: str, broken: Callable[[Facts], Array]
) -> HouseholdRule:
    return HouseholdRule(Rule(name, severity, table, column), broken)


_HHT, _HHT2, _CPLT = (
    _misfits("HHT", Composition.hht), _misfits("HHT2", Composition.hht2), _misfits("CPLT", Composition.cplt)
)  # fmt: skip
_SEXES = _differing_sexes()
HOUSEHOLD_RULES = (
    _rule("MAFID stands once in units", "error", "units", "MAFID",
          lambda f: f.households.units * (f.households.units > 1)),
    _rule("MAFID stands once in geo", "error", "geo", "MAFID",
          lambda f: f.households.geos * (f.households.geos > 1)),
    _rule("a person's MAFID is in units", "error", "persons", "MAFID",
          lambda f: f.households.persons * (f.households.units == 0)),
    _rule("a unit's MAFID is in geo", "error", "units", "MAFID",
          lambda f: f.households.units * (f.households.geos == 0)),
    _rule("a geo row's MAFID is in units", "error", "geo", "MAFID",
          lambda f: f.households.geos * (f.households.units == 0)),
    _rule("the unit and its geo row have the same RTYPE", "warning", "geo", "RTYPE", _rtypes_differ),
    _rule("a person's RTYPE fits the unit's", "warning", "persons", "RTYPE", _mismatched),
    _rule("FINAL_POP is the number of persons", "warning", "units", "FINAL_POP", _wrong_population),
    _rule("an occupied unit has exactly one householder", "warning", "units", "RELSHIP", _not_one_householder),
    _rule("NPF is the number of persons in the family", "warning", "units", "NPF", _wrong_family),
    _rule("HHT follows from the members", "warning", "units", "HHT", lambda f: f.misfits(_HHT, "HHT")),
    _rule("HHT2 follows from the members", "warning", "units", "HHT2",
          lambda f: f.misfits(_HHT2, "HHT2")),
    _rule("HHT and HHT2 have a householder of the same sex", "warning", "units", "HHT2", _sexes_differ),
    _rule("CPLT follows from the members", "warning", "units", "CPLT",
          lambda f: f.misfits(_CPLT, "CPLT")),
)  # fmt: skip
#: The value that an occupied housing unit must not have in a column of the householder's.
NOBODY: dict[str, Code] = {"HHRACE": "00", "HHSPAN": 0}
HOUSEHOLDER_RULES = {
    column: Rule(
        "an occupied housing unit has its householder's race and ethnicity", "error", "units", column
    )
    for column in NOBODY
}


def check_households(facts: Facts, findings: Findings) -> None:
    """Count the rows that break each rule over households."""
    for rule in HOUSEHOLD_RULES:
        rows = rule.broken(facts)
        if rows.any():
            findings.add(rule.rule, facts.households.key[rows > 0], int(rows.sum()))


def check_units(units: Rows, record_format: RecordFormat, findings: Findings) -> None:
    """Count the occupied housing units whose householder's race or ethnicity is "nobody"."""
    for column, nobody in NOBODY.items():
        field = record_format[column]
        suspects = np.flatnonzero(field.codes(units.record) == field.code(nobody))
        records = units.record[suspects]
        occupied = (record_format["RTYPE"].codes(records) == 1) & (
            record_format["HHT"].codes(records) > VACANT
        )
        findings.add(HOUSEHOLDER_RULES[column], units.key[suspects[occupied]])
