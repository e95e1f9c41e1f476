"""The household rules agree with a simple implementation of docs/reference/validation.md on random records."""

from collections import Counter

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phsafe
from phsafe.counting import kernel, rules
from phsafe.model.schema import GEO, PERSONS, UNITS
from phsafe.pipeline.validation import RULES

LAYOUTS = {"persons": PERSONS, "units": UNITS, "geo": GEO}
MAFIDS = st.sampled_from([100_000_001, 100_000_002, 100_000_003, None])
RELATIONS = ["20", "21", "22", "23", "24", "25", "27", "28", "30", "34", "37", "?", None]
#: More persons than 8 and 16 bits can count.
CROWDS = [2**bits + 7 for bits in (8, 16)]


def records(layout, most, **columns):
    """Rows with values inside and outside their domains, including missing values."""
    values = {
        column.name: st.sampled_from([*list(column.codes)[:5], 9_999_999 if column.is_integer else "?", None])
        for column in layout.columns
        if column.required and column.name != "MAFID"
    }
    row = st.fixed_dictionaries({"MAFID": MAFIDS} | values | columns)
    return st.lists(row, max_size=most)


POPULATIONS = st.fixed_dictionaries(
    {
        "persons": records(
            PERSONS, 12, RELSHIP=st.sampled_from(RELATIONS), QAGE=st.sampled_from([3, 17, 18, 40, -1, 116, None])
        ),
        "units": records(UNITS, 5, NPF=st.sampled_from([0, 2, 3, 1, None])),
        "geo": records(GEO, 5, TABBLKST=st.sampled_from(["01", "44", "72", "03", None])),
    }
)  # fmt: skip


def frames(population):
    return {
        name: pl.DataFrame(
            rows,
            {c.name: pl.Int64 if c.is_integer else pl.String for c in LAYOUTS[name].columns if c.required},
        )
        for name, rows in population.items()
    }


def known(layout, row, column):
    """The value if it is in its domain, otherwise None."""
    return row[column] if row[column] in layout[column].codes else None


def by_hand(population):
    """Rule → number of rows that violate it, household by household."""
    found = Counter()
    keys = {row["MAFID"] for rows in population.values() for row in rows} - {None}
    for key in keys:
        persons, units, geo = (
            [row for row in population[name] if row["MAFID"] == key] for name in ("persons", "units", "geo")
        )
        if [row["TABBLKST"] for row in geo] == ["72"]:
            continue  # Outside of the filter.
        for name, rows, others in (
            ("MAFID is unique in units", units, len(units) > 1),
            ("MAFID is unique in geo", geo, len(geo) > 1),
            ("every person's MAFID is in units", persons, not units),
            ("every unit's MAFID is in geo", units, not geo),
            ("every geo row's MAFID is in units", geo, not units),
        ):
            found[name] += len(rows) * others
        rtypes = [known(UNITS, unit, "RTYPE") for unit in units]
        rtype = max((r for r in rtypes if r is not None), default=None)
        wrong = {2: 5, 4: 3}.get(rtype)
        found["a person's RTYPE is consistent with the unit's"] += sum(p["RTYPE"] == wrong for p in persons if wrong)
        if len(units) == 1:
            unit_by_hand(found, units[0], geo, persons)
    return +found


def unit_by_hand(found, unit, geo, persons):
    value = {name: known(UNITS, unit, name) for name in UNITS.names}
    if len(geo) == 1 and None not in (pair := {value["RTYPE"], known(GEO, geo[0], "RTYPE")}):
        found["units and geo agree on RTYPE"] += len(pair) == 2
    if value["FINAL_POP"] is not None:
        found["FINAL_POP equals the number of persons"] += value["FINAL_POP"] != len(persons)
    if value["RTYPE"] != 2:
        return
    relations = [person["RELSHIP"] for person in persons]
    householders = relations.count("20")
    relatives = sum(r in ("25", "26", "27", "28", "29", "30", "31", "32", "33") for r in relations if r)
    spouses = relations.count("21") + relations.count("23")
    partners = relations.count("22") + relations.count("24")
    minors = any(p["RELSHIP"] in ("25", "26", "27") and p["QAGE"] is not None and 0 <= p["QAGE"] < 18 for p in persons)
    occupied = value["HHT"] not in (None, "0") or any(p["RTYPE"] == 3 for p in persons)
    found["an occupied unit has exactly one householder"] += occupied and householders != 1
    family = householders + spouses + relatives if spouses + relatives else 0
    if value["NPF"] is not None:
        found["NPF equals the number of persons in the family"] += value["NPF"] != family
    number = len(persons)
    hht = "0" if number == 0 else "1" if spouses else "23" if relatives else "46" if number == 1 else "57"
    if value["HHT"] is not None:
        found["HHT is consistent with the household's members"] += value["HHT"] not in hht
    hht2 = (
        ["00"] if number == 0
        else ["01" if minors else "02"] if spouses
        else ["03" if minors else "04"] if partners
        else ["05", "09"] if number == 1
        else ["06", "10"] if minors
        else ["07", "11"] if relatives
        else ["08", "12"]
    )  # fmt: skip
    if value["HHT2"] is not None:
        found["HHT2 is consistent with the household's members"] += value["HHT2"] not in hht2
    if value["HHT"] and value["HHT2"]:
        male = value["HHT"] in "245" and value["HHT2"] in ("05", "06", "07", "08")
        female = value["HHT"] in "367" and value["HHT2"] in ("09", "10", "11", "12")
        found["HHT and HHT2 agree on the householder's sex"] += male or female
    couple = next((str(i) for i, code in enumerate(("21", "23", "22", "24"), 1) if code in relations), "5")
    if value["CPLT"] is not None:
        found["CPLT is consistent with the household's members"] += value["CPLT"] != (couple if number else "0")


#: The rules that `by_hand` covers.
COVERED = {rule.name for rule in rules.HOUSEHOLD_RULES}


def by_kernel(population, us):
    report = phsafe.validate(us, frames(population))
    return {finding.rule: finding.rows for finding in report.findings if finding.rule in COVERED}


@settings(max_examples=60, deadline=None)
@given(POPULATIONS, st.sampled_from([1, 2, kernel.BATCH_ROWS]))
def test_the_kernel_finds_the_same_violations_as_the_hand_count(us, population, batch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "BATCH_ROWS", batch)
        assert by_kernel(population, us) == by_hand(population)


@pytest.mark.parametrize("crowd", CROWDS)
def test_very_large_households(us, crowd):
    person = {"RTYPE": 3, "QAGE": 5, "CENHISP": 1, "CENRACE": "01", "RELSHIP": "25", "MAFID": 100_000_001}
    unit = {
        "RTYPE": 2, "MAFID": 100_000_001, "FINAL_POP": crowd % 2**16, "NPF": 2, "HHSPAN": 1, "HHRACE": "01",
        "TEN": "1", "HHT": "5", "HHT2": "08", "CPLT": "5",
    }  # fmt: skip
    place = {"RTYPE": 2, "MAFID": 100_000_001, "TABBLKST": "44"}
    population = {"persons": [person] * crowd, "units": [unit], "geo": [place]}
    found = by_hand(population)
    assert by_kernel(population, us) == found
    assert {rules.FAMILY_SIZE.name, rules.HHT_FITS.name} <= set(found)


def test_every_rule_is_listed_once():
    assert len(set(RULES)) == len(RULES)
