"""The mapping from ACS codes to census codes, as DuckDB expressions.

`people` has one row for each person, `homes` one for each unit; both are keyed by (state, serial). A value that isn't a
valid code becomes null, and the checks count nulls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from phsafe.acs_pums.pums_columns import RACE_FLAGS, UNIT_CODES
from phsafe.model.schema import FAMILY, OWN_CHILDREN, RACES, RELSHIP_LABELS

#: RELP (2018 and earlier) → RELSHIP. Spouses and partners count as opposite-sex until the sexes are compared.
RELP = {
    0: "20", 1: "21", 13: "22",
    2: "25", 3: "26", 4: "27", 5: "28", 6: "29", 7: "30", 8: "31", 9: "32", 10: "33",
    11: "36", 12: "34", 14: "35", 15: "36", 16: "37", 17: "38",
}  # fmt: skip
SAME_SEX = {"21": "23", "22": "24"}
#: CPLT by the RELSHIP of the spouse or partner; all other households are 5.
COUPLES = {"21": "1", "23": "2", "22": "3", "24": "4"}
GROUP_QUARTERS = ("37", "38")
#: HISP 01 is "not Spanish/Hispanic/Latino"; 02 to 24 are origins.
HISPANIC_ORIGINS = range(2, 25)
ADULT = 18

#: Parse digits as an integer, anything else as null; a plain cast would round 3.7.
MACROS = (
    "CREATE MACRO whole(x) AS CASE WHEN regexp_full_match(x, '[0-9]{1,9}') THEN CAST(x AS INTEGER) END",
    "CREATE MACRO padded(x, width) AS lpad(CAST(whole(x) AS VARCHAR), width, '0')",
)


def people(columns: Collection[str]) -> str:
    """Query the persons of the files, with census codes; RELP files need `same_sex` as well."""
    relation = (
        f"CASE WHEN padded(relship, 2) IN {_texts(RELSHIP_LABELS)} THEN padded(relship, 2) END"
        if "relship" in columns
        else _lookup("whole(relp)", RELP)
    )
    return f"""
        SELECT padded(state, 2) AS state, serial, whole(number) AS number, whole(age) AS age,
            {_lookup("sex", {"1": 1, "2": 2})} AS sex,
            CASE WHEN whole(hispanic) = 1 THEN 1
                WHEN whole(hispanic) BETWEEN {HISPANIC_ORIGINS[0]} AND {HISPANIC_ORIGINS[-1]} THEN 2 END AS hispanic,
            {race()} AS race, {relation} AS relation,
            {"whole(weight)" if "weight" in columns else "NULL"} AS weight
        FROM read_parquet(?)"""  # noqa: S608


def race() -> str:
    """CENRACE from the race flags: a code for each of the 63 sets of the six major races."""
    bits = [f"greatest({', '.join(_flag(name) for name in flags)})" for flags in RACE_FLAGS]
    known = " AND ".join(f"{_flag(name)} IS NOT NULL" for flags in RACE_FLAGS for name in flags)
    mask = " + ".join(f"{2**position} * {bit}" for position, bit in enumerate(bits))
    codes = {sum(2 ** (race - 1) for race in races): code for code, races in RACES.items()}
    ordered = [codes[mask] for mask in range(1, 2 ** len(RACE_FLAGS))]
    # DuckDB lists count from 1; no flag at all (index 0) gives null.
    return f"CASE WHEN {known} THEN {_list(ordered)}[{mask}] END"


#: The householder of each home; an invalid home with several householders has several rows.
HEADS = "SELECT state, serial, sex, race, hispanic, weight FROM people WHERE relation = '20'"


def same_sex() -> str:
    """Recode spouses and partners in RELP files who have the householder's sex as same-sex."""
    return f"""
        UPDATE people SET relation = {_lookup("people.relation", SAME_SEX)}
        FROM heads WHERE people.state = heads.state AND people.serial = heads.serial
            AND people.sex = heads.sex AND people.relation IN {_texts(SAME_SEX)}"""  # noqa: S608


def members() -> str:
    """Summarise the members of each home."""
    return f"""
        SELECT state, serial, count(*) AS people,
            count(*) FILTER (relation IN {_texts(FAMILY)}) AS family,
            count(*) FILTER (relation = '20') AS householders,
            count(*) FILTER (relation IN {_texts(GROUP_QUARTERS)}) AS in_quarters,
            coalesce(bool_or(relation IN {_texts(OWN_CHILDREN)} AND age < {ADULT}), false) AS own_minor,
            coalesce(min({_lookup("relation", COUPLES)}), '5') AS couple,
            min(weight) AS weight
        FROM people GROUP BY state, serial"""  # noqa: S608


#: NPF, HHT, HHT2 and CPLT derived from the members.
_DERIVED = """
    CASE WHEN occupied AND members.family > 1 THEN members.family ELSE 0 END AS NPF,
    CASE WHEN NOT occupied THEN '0'
        WHEN members.couple IN ('1', '2') THEN '1'
        WHEN members.family > 1 THEN if(heads.sex = 2, '3', '2')
        WHEN members.people = 1 THEN if(heads.sex = 2, '6', '4')
        ELSE if(heads.sex = 2, '7', '5') END AS HHT,
    CASE WHEN NOT occupied THEN '00'
        WHEN members.couple IN ('1', '2') THEN if(members.own_minor, '01', '02')
        WHEN members.couple IN ('3', '4') THEN if(members.own_minor, '03', '04')
        WHEN members.people = 1 THEN if(heads.sex = 2, '05', '09')
        WHEN members.own_minor THEN if(heads.sex = 2, '06', '10')
        WHEN members.family > 1 THEN if(heads.sex = 2, '07', '11')
        ELSE if(heads.sex = 2, '08', '12') END AS HHT2,
    CASE WHEN occupied THEN members.couple ELSE '0' END AS CPLT"""
#: The same taken from a housing file of 2019 or later. A blank is "not in universe"; for CPLT also "no couple".
_GIVEN = """
    CASE WHEN npf IS NULL THEN 0 ELSE whole(npf) END AS NPF,
    CASE WHEN hht IS NULL THEN '0' ELSE padded(hht, 1) END AS HHT,
    CASE WHEN hht2 IS NULL THEN '00' ELSE padded(hht2, 2) END AS HHT2,
    CASE WHEN cplt IS NOT NULL THEN padded(cplt, 1) WHEN occupied THEN '5' ELSE '0' END AS CPLT"""


def homes(columns: Collection[str], *, with_housing: bool, from_members: bool) -> str:
    """Query the units, from the housing files if there are any, otherwise from the persons alone.

    Args:
        columns: The columns that all housing files have.
        with_housing: Whether there are housing files.
        from_members: Derive NPF, HHT, HHT2 and CPLT from the members instead of taking them from the housing files.

    """
    codes = _DERIVED if from_members else _GIVEN
    home_weight = "whole(housing.weight)" if with_housing and "weight" in columns else "heads.weight"
    given = f"""
        SELECT padded(state, 2) AS state, serial, whole(people) AS people,
            {_lookup("whole(unit_type)", {1: "false", 2: "true", 3: "true"}, quoted=False)} AS quarters,
            tenure, {", ".join(c if c in columns else f"NULL AS {c}" for c in ("weight", *UNIT_CODES))}
        FROM read_parquet(?)"""  # noqa: S608
    known = "SELECT state, serial, people, in_quarters > 0 AS quarters, NULL AS tenure FROM members"
    return f"""
        WITH housing AS ({given if with_housing else known})
        SELECT housing.state, housing.serial, quarters, housing.people,
            coalesce(members.people, 0) AS persons, coalesce(members.householders, 0) AS householders,
            NOT quarters AND persons > 0 AS occupied,
            CASE WHEN quarters THEN 4 WHEN NOT quarters THEN 2 END AS RTYPE,
            housing.people AS FINAL_POP,
            CASE WHEN occupied THEN heads.hispanic ELSE 0 END AS HHSPAN,
            CASE WHEN occupied THEN heads.race ELSE '00' END AS HHRACE,
            CASE WHEN tenure IS NULL THEN '0' ELSE padded(tenure, 1) END AS TEN,
            {codes},
            CASE WHEN quarters THEN members.weight ELSE {home_weight} END AS weight
        FROM housing
        LEFT JOIN members USING (state, serial)
        LEFT JOIN (SELECT DISTINCT ON (state, serial) * FROM heads) AS heads USING (state, serial)"""  # noqa: S608


#: Each home's number of copies and its first MAFID; addresses are numbered by state and serial number.
NUMBERED = """
    SELECT *, CAST({first} + sum(copies) OVER (ORDER BY state, serial) - copies AS INTEGER) AS mafid
    FROM (SELECT *, {copies} AS copies FROM homes)"""

UNITS = """
    SELECT RTYPE, {mafid} AS MAFID, FINAL_POP, NPF, HHSPAN, HHRACE, TEN, HHT, HHT2, CPLT
    FROM {homes} ORDER BY MAFID"""
GEO = "SELECT RTYPE, {mafid} AS MAFID, state AS TABBLKST FROM {homes} ORDER BY MAFID"
PERSONS = """
    SELECT RTYPE + 1 AS RTYPE, {mafid} AS MAFID, age AS QAGE, people.hispanic AS CENHISP, people.race AS CENRACE,
        people.relation AS RELSHIP
    FROM {homes} JOIN people USING (state, serial) ORDER BY MAFID, number"""


def _flag(name: str) -> str:
    return f"({_lookup(name, {'0': 0, '1': 1})})"


def _lookup(value: str, codes: Mapping[str, object] | Mapping[int, object], *, quoted: bool = True) -> str:
    """Build `CASE value WHEN … END` from a mapping; other values become null."""
    whens = " ".join(f"WHEN {_literal(key)} THEN {_literal(code) if quoted else code}" for key, code in codes.items())
    return f"CASE {value} {whens} END"


def _literal(code: object) -> str:
    return str(code) if isinstance(code, int) else f"'{code}'"


def _texts(codes: Collection[str]) -> str:
    return f"({', '.join(map(_literal, codes))})"


def _list(codes: Sequence[str]) -> str:
    return f"[{', '.join(map(_literal, codes))}]"
