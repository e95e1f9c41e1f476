"""Step 3, rules: validation of households, such as duplicate keys and codes that disagree. Only numbers are reported.

A value that `encode` has reported as missing or outside its domain violates no further rule.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from phsafe.counting.households import Households
from phsafe.counting.records import Array, RecordFormat, Rows, gather
from phsafe.counting.tallies import Counted, Rule
from phsafe.model.conditions import where
from phsafe.model.schema import FAMILY, HOUSEHOLDER, OWN_CHILDREN, UNITS

#: RELSHIP codes of family members other than the householder and the spouse.
RELATIVES = tuple(code for code in FAMILY if code >= "25")
#: Groups of household members that the rules refer to.
MEMBERS = {
    "in_quarters": where(RTYPE=5),
    "in_housing": where(RTYPE=3),
    "householders": where(RELSHIP=HOUSEHOLDER),
    "opposite_spouses": where(RELSHIP="21"),
    "opposite_partners": where(RELSHIP="22"),
    "same_spouses": where(RELSHIP="23"),
    "same_partners": where(RELSHIP="24"),
    "relatives": where(RELSHIP=RELATIVES),
    "own_minors": where(RELSHIP=OWN_CHILDREN, QAGE=range(18)),
}
#: The family size for each code of NPF, and the positions of RTYPE 2 and 4 in their domain.
FAMILY_SIZES = np.array([-1, *UNITS["NPF"].codes])
HOUSING, QUARTERS = 0, 1


def _error(name: str, table: str, column: str = "MAFID") -> Rule:
    return Rule(name, "error", table, column)


def _warning(name: str, column: str, table: str = "units") -> Rule:
    return Rule(name, "warning", table, column)


HOUSEHOLDER_RACE, HOUSEHOLDER_ETHNICITY = (
    _error("an occupied housing unit records the householder's race and ethnicity", "units", column)
    for column in ("HHRACE", "HHSPAN")
)
UNIQUE_UNIT = _error("MAFID is unique in units", "units")
UNIQUE_GEO = _error("MAFID is unique in geo", "geo")
PERSON_IN_UNITS = _error("every person's MAFID is in units", "persons")
UNIT_IN_GEO = _error("every unit's MAFID is in geo", "units")
GEO_IN_UNITS = _error("every geo row's MAFID is in units", "geo")
RTYPES_AGREE = _warning("units and geo agree on RTYPE", "RTYPE", "geo")
PERSON_RTYPE = _warning("a person's RTYPE is consistent with the unit's", "RTYPE", "persons")
POPULATION = _warning("FINAL_POP equals the number of persons", "FINAL_POP")
ONE_HOUSEHOLDER = _warning("an occupied unit has exactly one householder", "RELSHIP")
FAMILY_SIZE = _warning("NPF equals the number of persons in the family", "NPF")
HHT_FITS = _warning("HHT is consistent with the household's members", "HHT")
HHT2_FITS = _warning("HHT2 is consistent with the household's members", "HHT2")
SEX_AGREES = _warning("HHT and HHT2 agree on the householder's sex", "HHT2")
CPLT_FITS = _warning("CPLT is consistent with the household's members", "CPLT")
UNIT_RULES = (HOUSEHOLDER_RACE, HOUSEHOLDER_ETHNICITY)
HOUSEHOLD_RULES = (
    UNIQUE_UNIT, UNIQUE_GEO, PERSON_IN_UNITS, UNIT_IN_GEO, GEO_IN_UNITS, RTYPES_AGREE, PERSON_RTYPE, POPULATION,
    ONE_HOUSEHOLDER, FAMILY_SIZE, HHT_FITS, HHT2_FITS, SEX_AGREES, CPLT_FITS,
)  # fmt: skip


def check_units(units: Rows, record_format: RecordFormat, counted: Counted) -> None:
    """Count the occupied housing units without the householder's race or ethnicity."""
    for rule, none in ((HOUSEHOLDER_RACE, "00"), (HOUSEHOLDER_ETHNICITY, 0)):
        field = record_format[rule.column]
        candidates = np.flatnonzero(field.codes(units.record) == field.code(none))
        records = units.record[candidates]
        is_housing = record_format["RTYPE"].codes(records) == HOUSING + 1
        occupied = is_housing & (record_format["HHT"].codes(records) > record_format["HHT"].code("0"))
        counted.note(rule, units.key[candidates[occupied]])


def check_households(
    h: Households, formats: Mapping[str, RecordFormat], m: Mapping[str, Array], counted: Counted
) -> None:
    """Count the rows that violate each rule about households; `m` has the size of each group of `MEMBERS` in them."""

    def unit(column: str) -> Array:
        """The position of each household's value in its domain; -1 if unknown."""
        return formats["units"][column].codes(h.unit) - 1

    geo_rtype = formats["geo"]["RTYPE"].codes(h.geo) - 1
    one, rtype = h.units == 1, unit("RTYPE").astype(np.int8)
    housing, misplaced = one & (rtype == HOUSING), m["in_quarters"] * (rtype == HOUSING)
    misplaced += m["in_housing"] * (rtype == QUARTERS)
    hht, hht2, cplt = (unit(name).astype(np.int8) for name in ("HHT", "HHT2", "CPLT"))
    present = {name: number > 0 for name, number in m.items()}
    vacant, alone, otherwise = h.persons == 0, h.persons == 1, np.ones(len(h.key), dtype=bool)
    married = present["opposite_spouses"] | present["same_spouses"]
    partners, minors = present["opposite_partners"] | present["same_partners"], present["own_minors"]
    others_in_family = m["opposite_spouses"] + m["same_spouses"] + m["relatives"]
    family = (m["householders"] + others_in_family) * (others_in_family > 0)
    npf, population = gather(FAMILY_SIZES, unit("NPF") + 1), unit("FINAL_POP")
    rows_of = h.rows | {"persons": np.where(h.units == 0, h.persons, misplaced)}
    violating = {
        UNIQUE_UNIT: h.units > 1,
        UNIQUE_GEO: h.geos > 1,
        PERSON_IN_UNITS: (h.units == 0) & ~vacant,
        UNIT_IN_GEO: (h.geos == 0) & (h.units > 0),
        GEO_IN_UNITS: (h.units == 0) & (h.geos > 0),
        RTYPES_AGREE: one & (h.geos == 1) & (rtype != geo_rtype) & (rtype >= 0) & (geo_rtype >= 0),
        PERSON_RTYPE: misplaced > 0,
        POPULATION: one & (population >= 0) & (population != h.persons),
        ONE_HOUSEHOLDER: housing & ((hht > 0) | present["in_housing"]) & (m["householders"] != 1),
        FAMILY_SIZE: housing & (npf >= 0) & (npf != family),
        HHT_FITS: housing & _misfits(
            hht, (vacant, [0]), (married, [1]), (present["relatives"], [2, 3]), (alone, [4, 6]), (otherwise, [5, 7])
        ),
        HHT2_FITS: housing & _misfits(
            hht2, (vacant, [0]), (married & minors, [1]), (married, [2]), (partners & minors, [3]), (partners, [4]),
            (alone, [5, 9]), (minors, [6, 10]), (present["relatives"], [7, 11]), (otherwise, [8, 12]),
        ),
        SEX_AGREES: housing & (
            _among(hht, 2, 4, 5) & _among(hht2, 5, 6, 7, 8) | _among(hht, 3, 6, 7) & _among(hht2, 9, 10, 11, 12)
        ),
        CPLT_FITS: housing & _misfits(
            cplt, (vacant, [0]), (present["opposite_spouses"], [1]), (present["same_spouses"], [2]),
            (present["opposite_partners"], [3]), (present["same_partners"], [4]), (otherwise, [5]),
        ),
    }  # fmt: skip
    for rule, wrong in violating.items():
        counted.note(rule, h.key[wrong], int(rows_of[rule.table][wrong].sum()))


def count_states(h: Households, state: Array, housing: Array, occupied: Array, counted: Counted) -> None:
    """Count the rows of each state, for those who prepare the data: is all or part of a state missing? Confidential."""
    columns = (h.persons, h.units, housing, housing & occupied)
    if len(state) and bool((state == state[0]).all()):  # As in most batches of sorted files.
        counted.by_state[state[0]] += [int(rows.sum()) for rows in columns]
        return
    for column, rows in enumerate(columns):
        # The sums are whole numbers far below 2**53, so floating point holds them exactly.
        counted.by_state[:, column] += np.bincount(state, rows, len(counted.by_state)).astype(np.int64)


def _misfits(codes: Array, *cases: tuple[Array, list[int]]) -> Array:
    """Whether each known code differs from what it should be: the codes allowed by the first case that applies."""
    wrong, undecided = np.zeros(len(codes), dtype=bool), codes >= 0
    for applies, allowed in cases:
        wrong |= undecided & applies & ~_among(codes, *allowed)
        undecided &= ~applies
    return wrong


def _among(codes: Array, *allowed: int) -> Array:
    return np.logical_or.reduce([codes == code for code in allowed])
