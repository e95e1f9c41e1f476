"""The generator's rules, recomputed from its files in plain Python as an independent reading of the code lists."""

import csv
from collections import defaultdict

import pytest

from phsafe.model.schema import LAYOUTS, PUERTO_RICO, Digits
from phsafe.model.tables import CENSUS_2020
from phsafe.synthetic import synth

RELATIVES = {"20", "21", "23", "25", "26", "27", "28", "29", "30", "31", "32", "33"}
OWN_CHILD = {"25", "26", "27"}
COUPLES = {"21": "1", "23": "2", "22": "3", "24": "4"}


def read(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = synth(tmp_path_factory.mktemp("rules") / "out", 30_000, "06,15,23,28", seed=7, format="csv")
    tables = {layout.name: read(folder, layout.name) for layout in LAYOUTS}
    members = defaultdict(list)
    for person in tables["persons"]:
        members[person["MAFID"]].append(person)
    return tables, members


def occupied(tables):
    return [unit for unit in tables["units"] if unit["RTYPE"] == "2" and unit["HHT"] != "0"]


def test_columns_are_in_layout_order_and_values_in_their_domains(data):
    tables, _ = data
    for layout in LAYOUTS:
        assert list(tables[layout.name][0]) == [column.name for column in layout.columns]
        for column in layout.columns:
            values = {row[column.name] for row in tables[layout.name]}
            if isinstance(column.domain, Digits):
                assert all(len(v) == column.domain.width and v.isdigit() for v in values), column.name
            elif column.is_integer:
                assert all(int(v) in column.domain and str(int(v)) == v for v in values), column.name
            else:
                assert values <= set(column.domain), column.name


def test_mafids_are_unique_ascending_and_the_same_in_units_and_geo(data):
    tables, members = data
    units = [int(row["MAFID"]) for row in tables["units"]]
    assert units == [int(row["MAFID"]) for row in tables["geo"]]
    assert units == list(range(100_000_001, 100_000_001 + len(units)))
    persons = [int(row["MAFID"]) for row in tables["persons"]]
    assert persons == sorted(persons)
    assert set(members) <= {row["MAFID"] for row in tables["units"]}


def test_states_are_in_order_and_have_their_regions(data):
    tables, _ = data
    regions = {(row["TABBLKST"], row["REGIONCE"], row["DIVISIONCE"]) for row in tables["geo"]}
    assert regions == {("06", "4", "9"), ("15", "4", "9"), ("23", "1", "1"), ("28", "3", "6")}
    assert all(row["TABBLK"][0] == row["TABBLKGRPCE"] for row in tables["geo"])
    states = [row["TABBLKST"] for row in tables["geo"]]
    assert states == sorted(states)


def test_unit_codes_follow_from_the_members(data):
    tables, members = data
    for unit in occupied(tables):
        people = members[unit["MAFID"]]
        roles = [person["RELSHIP"] for person in people]
        assert roles[0] == "20"
        assert roles.count("20") == 1
        householder = people[0]
        assert (unit["HHRACE"], unit["HHSPAN"]) == (householder["CENRACE"], householder["CENHISP"])
        assert int(unit["FINAL_POP"]) == len(people)
        family = sum(role in RELATIVES for role in roles)
        couples = [COUPLES[role] for role in roles if role in COUPLES]
        assert len(couples) <= 1
        couple = couples[0] if couples else "5"
        assert unit["CPLT"] == couple
        own = any(p["RELSHIP"] in OWN_CHILD and int(p["QAGE"]) < 18 for p in people)
        assert unit["HHT"] in types(couple, family, len(people))
        assert unit["NPF"] == (str(family) if family > 1 else "0")
        assert unit["HHT2"] == detailed_type(unit["HHT"], couple, family, own, len(people))
        assert unit["TEN"] in {"1", "2", "3", "4"}


def types(couple, family, people):
    """The HHT codes for a male and a female householder."""
    if couple in "12":
        return {"1"}
    if family > 1:
        return {"2", "3"}
    return {"4", "6"} if people == 1 else {"5", "7"}


def detailed_type(hht, couple, family, own, people):
    if couple in "12":
        return "01" if own else "02"
    if couple in "34":
        return "03" if own else "04"
    woman = hht in {"3", "6", "7"}
    offset = 0 if people == 1 else 1 if own else 2 if family > 1 else 3
    return f"{(5 if woman else 9) + offset:02d}"


def test_vacant_units_and_group_quarters_are_out_of_universe(data):
    tables, members = data
    nothing = {"NPF": "0", "HHSPAN": "0", "HHRACE": "00", "TEN": "0", "HHT": "0", "HHT2": "00", "CPLT": "0"}
    vacant = quarters = 0
    for unit in tables["units"]:
        people = members[unit["MAFID"]]
        if unit["RTYPE"] == "4":
            quarters += 1
            assert {p["RTYPE"] for p in people} == {"5"}
            assert len({p["RELSHIP"] for p in people} & {"37", "38"}) == 1
            assert int(unit["FINAL_POP"]) == len(people) > 0
        elif unit["HHT"] == "0":
            vacant += 1
            assert not people
            assert unit["FINAL_POP"] == "0"
        else:
            assert {p["RTYPE"] for p in people} == {"3"}
            continue
        assert {name: unit[name] for name in nothing} == nothing
    assert vacant > 2000
    assert quarters > 20
    in_quarters = sum(person["RTYPE"] == "5" for person in tables["persons"])
    assert 0.01 < in_quarters / len(tables["persons"]) < 0.05


def test_ages_within_a_household_are_consistent(data):
    tables, members = data
    for unit in occupied(tables):
        people = members[unit["MAFID"]]
        ages = defaultdict(list)
        for person in people:
            ages[person["RELSHIP"]].append(int(person["QAGE"]))
        householder = ages["20"][0]
        partner = next((ages[role][0] for role in COUPLES if ages[role]), householder)
        children = ages["25"] + ages["26"] + ages["27"]
        assert householder >= 16
        assert partner >= 16
        assert all(age <= min(householder, partner) - 13 for age in children)
        assert all(age >= householder + 13 for age in ages["29"])
        assert all(age >= partner + 13 for age in ages["31"])
        assert all(age <= householder - 26 for age in ages["30"])
        assert len(ages["29"]) <= 2
        assert len(ages["31"]) <= 2
        assert all(age >= 18 for age in ages["32"])
        assert not ages["32"] or max(children) >= 18
        assert all(age <= 20 for age in ages["35"])
        assert not ages["31"] or unit["HHT"] == "1"


def test_every_record_in_a_universe_falls_in_exactly_one_cell(data):
    tables, members = data

    def typed(row, layout):
        return {c.name: int(row[c.name]) if c.is_integer else row[c.name] for c in layout.columns}

    persons, units = LAYOUTS[0], LAYOUTS[1]
    for unit in tables["units"][:8000]:
        if unit["RTYPE"] == "4":
            continue
        home = typed(unit, units)
        people = [typed(person, persons) for person in members[unit["MAFID"]]]
        for tabulation in CENSUS_2020.tabulations:
            if tabulation.beyond is not None or not tabulation.units.allows(home):
                continue
            rows = [home]
            if tabulation.persons is not None:
                rows = [{**home, **person} for person in people if tabulation.persons.allows(person)]
            for row in rows:
                assert sum(cell.allows(row) for cell in tabulation.cells.values()) == 1, tabulation.name


def test_families_share_race_and_ethnicity(data):
    tables, members = data
    same = {"21": [], "25": [], "34": []}
    for unit in occupied(tables):
        for person in members[unit["MAFID"]]:
            if person["RELSHIP"] in same:
                same[person["RELSHIP"]].append(person["CENHISP"] == unit["HHSPAN"])
    share = {role: sum(values) / len(values) for role, values in same.items()}
    assert share["25"] > share["34"]
    assert share["25"] > 0.9
    mixed = [
        child["CENRACE"]
        for unit in occupied(tables)
        for child in members[unit["MAFID"]]
        if child["RELSHIP"] == "25" and {p["CENRACE"] for p in members[unit["MAFID"]][:2]} == {"01", "02"}
    ]
    assert "07" in mixed


def test_there_are_very_large_households(data):
    tables, members = data
    sizes = [int(unit["FINAL_POP"]) for unit in occupied(tables)]
    assert max(sizes) > 10
    minors = [sum(int(p["QAGE"]) < 18 for p in members[unit["MAFID"]]) for unit in occupied(tables)]
    assert max(minors) > 6


def test_puerto_rico_is_hispanic_and_in_its_own_region(tmp_path):
    folder = synth(tmp_path / "pr", 3000, "pr", format="csv")
    persons, geo = read(folder, "persons"), read(folder, "geo")
    assert {row["TABBLKST"] for row in geo} == {PUERTO_RICO}
    assert {row["REGIONCE"] for row in geo} == {"9"}
    assert sum(row["CENHISP"] == "2" for row in persons) / len(persons) > 0.97
