"""The real 2018 person files of three states: plain counts, households derived by hand, and every later step."""

import csv
import io
import json
import zipfile
from collections import Counter
from decimal import Decimal

import polars as pl
import pytest

import phsafe
from phsafe.model import exact_numbers

STATES = {"ri": "44", "vt": "50", "wy": "56"}
NAMES = ("persons", "units", "geo")


@pytest.fixture(scope="session")
def files(request):
    folder = request.config.rootpath / "tests" / "data" / "acs2018"
    return [folder / f"csv_p{name}.zip" for name in STATES]


@pytest.fixture(scope="session")
def records(files):
    """The rows of the files, read with the standard library only."""
    rows = []
    for file in files:
        with zipfile.ZipFile(file) as archive, archive.open(archive.namelist()[0]) as member:
            rows += csv.DictReader(io.TextIOWrapper(member, "utf-8"))
    return rows


@pytest.fixture(scope="session")
def conversion(files, tmp_path_factory):
    return phsafe.pums(tmp_path_factory.mktemp("acs") / "data", files)


@pytest.fixture(scope="session")
def tables(conversion):
    return {name: pl.read_parquet(conversion.folder / name / "*.parquet") for name in NAMES}


@pytest.fixture(scope="session")
def config(us, tmp_path_factory):
    """The 2020 parameters without the tables that need tenure, as the command advises."""
    document = json.loads(us.read_text(), parse_float=Decimal)
    for name in ("PH7", "PH8_denom"):
        document["privacy_budget"][name] = dict.fromkeys(document["privacy_budget"][name], 0)
    document["state_filter"] = list(STATES.values())
    path = tmp_path_factory.mktemp("config") / "acs.json"
    path.write_text(exact_numbers.dumps(document))
    return path


def test_counts_match_a_plain_count(conversion, tables, records):
    assert conversion.years == (2018,)
    assert not conversion.has_housing
    assert tables["persons"].height == len(records)
    assert tables["units"].height == tables["geo"].height == len({(r["ST"], r["SERIALNO"]) for r in records})
    in_quarters = Counter(r["ST"] for r in records if r["RELP"] in {"16", "17"})
    households = Counter(r["ST"] for r in records if r["RELP"] == "00")
    people = Counter(r["ST"] for r in records)
    for row in conversion.states.iter_rows(named=True):
        state = row["STATE"]
        assert row["HOUSEHOLDS"] == households[state]
        assert row["PEOPLE_IN_GROUP_QUARTERS"] == in_quarters[state]
        assert row["PEOPLE_IN_HOUSEHOLDS"] == people[state] - in_quarters[state]
        assert row["VACANT_UNITS"] == 0
    assert conversion.states["STATE"].to_list() == sorted(STATES.values())


#: State, SERIALNO → unit (RTYPE, FINAL_POP, NPF, HHSPAN, HHRACE, HHT, HHT2, CPLT), and its people in order of SPORDER
#: (QAGE, CENHISP, CENRACE, RELSHIP). Derived by hand from the rows of the file.
BY_HAND = {
    ("44", "2018HU0022303"): (  # two married women
        (2, 2, 2, 1, "01", "1", "02", "2"),
        [(56, 1, "01", "20"), (52, 1, "01", "23")],
    ),
    ("44", "2018HU0125149"): (  # two men, unmarried partners
        (2, 2, 0, 1, "01", "5", "04", "4"),
        [(71, 1, "01", "20"), (48, 1, "01", "24")],
    ),
    ("44", "2018HU0018338"): (  # a woman, her two children, her partner
        (2, 4, 3, 1, "01", "3", "03", "3"),
        [(42, 1, "01", "20"), (10, 1, "01", "25"), (4, 1, "01", "25"), (52, 1, "01", "22")],
    ),
    ("44", "2018HU0220906"): (  # a Hispanic woman, her partner (a woman), another nonrelative
        (2, 3, 0, 2, "01", "7", "04", "4"),
        [(23, 2, "01", "20"), (25, 1, "01", "24"), (53, 1, "01", "36")],
    ),
    ("44", "2018HU0015037"): (  # a woman, her grown daughter, two grandchildren
        (2, 4, 4, 1, "02", "3", "07", "5"),
        [(44, 1, "02", "20"), (25, 1, "02", "25"), (8, 1, "02", "30"), (3, 1, "02", "30")],
    ),
    ("44", "2018HU0045285"): (  # a man and his daughter
        (2, 2, 2, 1, "01", "2", "10", "5"),
        [(32, 1, "01", "20"), (3, 1, "01", "25")],
    ),
    ("44", "2018HU0049108"): (  # two sisters and two foster children
        (2, 4, 2, 1, "01", "3", "07", "5"),
        [(32, 1, "01", "20"), (35, 1, "01", "28"), (13, 1, "07", "35"), (10, 1, "07", "35")],
    ),
    ("44", "2018HU0616153"): (  # a man, two grown sons, his partner, a roomer, a housemate, two others
        (2, 8, 3, 1, "01", "2", "04", "3"),
        [
            (53, 1, "01", "20"), (19, 1, "01", "25"), (22, 1, "01", "26"), (48, 1, "01", "36"),
            (52, 1, "01", "34"), (48, 1, "01", "22"), (27, 1, "01", "36"), (24, 1, "01", "36"),
        ],
    ),
    ("44", "2018HU0074309"): (  # three housemates
        (2, 3, 0, 1, "01", "5", "12", "5"),
        [(28, 1, "01", "20"), (32, 1, "04", "34"), (26, 1, "01", "34")],
    ),
    ("44", "2018HU0007844"): ((2, 1, 0, 2, "01", "6", "05", "5"), [(50, 2, "01", "20")]),
    ("44", "2018HU0275966"): ((2, 1, 0, 1, "01", "4", "09", "5"), [(17, 1, "01", "20")]),
    ("44", "2018GQ0000588"): ((4, 1, 0, 0, "00", "0", "00", "0"), [(87, 1, "01", "37")]),
    ("44", "2018GQ0000031"): ((4, 1, 0, 0, "00", "0", "00", "0"), [(19, 1, "04", "38")]),
    ("44", "2018GQ0015362"): ((4, 1, 0, 0, "00", "0", "00", "0"), [(39, 1, "14", "37")]),
    ("44", "2018GQ0042256"): ((4, 1, 0, 0, "00", "0", "00", "0"), [(17, 2, "22", "37")]),
}  # fmt: skip


@pytest.mark.parametrize("key", BY_HAND, ids=lambda key: key[1])
def test_selected_households_match_the_codes_derived_by_hand(key, tables, records):
    """Addresses are numbered by state and serial number."""
    mafid = 100_000_001 + sorted({(r["ST"], r["SERIALNO"]) for r in records}).index(key)
    unit, people = BY_HAND[key]
    columns = ("RTYPE", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "HHT", "HHT2", "CPLT")
    assert tables["units"].filter(MAFID=mafid).select(columns).rows() == [unit]
    assert tables["units"].filter(MAFID=mafid)["TEN"].to_list() == ["0"]
    assert tables["geo"].filter(MAFID=mafid).rows() == [(unit[0], mafid, key[0])]
    found = tables["persons"].filter(MAFID=mafid)
    assert found.select("QAGE", "CENHISP", "CENRACE", "RELSHIP").rows() == people
    assert set(found["RTYPE"]) == {unit[0] + 1}


def test_the_folder_is_marked_public_and_contains_no_serial_numbers(conversion, tables):
    assert "public" in (conversion.folder / "PUBLIC").read_text()
    for table in tables.values():
        text = table.write_csv()
        assert "2018HU" not in text
        assert "2018GQ" not in text


def test_all_later_steps_run_without_warnings(conversion, config, tmp_path, records):
    report = phsafe.validate(config, conversion.folder)
    assert report.of("error") == report.of("warning") == ()
    counts = phsafe.tabulate(config, conversion.folder, truncate=False).filter(REGION_TYPE="USA", ITERATION_CODE="*")
    total = {name: frame["COUNT"].sum() for (name,), frame in counts.group_by("TABULATION")}
    in_households = [r for r in records if r["RELP"] not in {"16", "17"}]
    assert total["PH1_num"] == total["PH2"] == len(in_households)
    assert total["PH1_denom"] == sum(r["RELP"] == "00" for r in records)
    assert total["PH3"] == sum(int(r["AGEP"]) < 18 for r in in_households)
    assert "PH7" not in total
    release = phsafe.release(
        config, conversion.folder, tmp_path / "release", ledger=tmp_path / "ledger", new_ledger=True
    )
    assert list(phsafe.estimate(release).tables) == ["PH1", "PH2", "PH3", "PH4", "PH5", "PH6"]


def test_expand_repeats_each_household_by_its_weight(files, records, tmp_path):
    """A household has its householder's weight; in group quarters each person has their own."""
    conversion = phsafe.pums(tmp_path / "data", files[2:], expand=True)
    wyoming = [r for r in records if r["ST"] == "56"]
    weights = {r["SERIALNO"]: int(r["PWGTP"]) for r in wyoming if r["RELP"] in {"00", "16", "17"}}
    units = pl.read_parquet(tmp_path / "data" / "units" / "56.parquet")
    assert units.height == sum(weights.values())
    assert units["MAFID"].to_list() == list(range(100_000_001, 100_000_001 + units.height))
    persons = pl.read_parquet(tmp_path / "data" / "persons" / "56.parquet")
    assert persons.height == sum(weights[r["SERIALNO"]] for r in wyoming)
    assert persons["MAFID"].is_sorted()
    sizes = persons.group_by("MAFID", maintain_order=True).len()["len"]
    assert sizes.to_list() == units["FINAL_POP"].to_list()
    assert conversion.states["HOUSEHOLDS"].sum() == sum(int(r["PWGTP"]) for r in wyoming if r["RELP"] == "00")
