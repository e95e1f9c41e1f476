"""Every code of the newer files and of RELP, the 63 sets of races, and columns renamed over the years."""

from itertools import combinations, product

import polars as pl
import pytest

import phsafe
from phsafe.model.schema import RELSHIP_LABELS

UNIT = ("RTYPE", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT")
#: Flags of the six major races; either flag of the fifth is enough.
FLAGS = (("RACWHT",), ("RACBLK",), ("RACAIAN",), ("RACASN",), ("RACNH", "RACPI"), ("RACSOR",))


def test_2021_files_with_every_code(new_survey, convert, us_document):
    """Codes come from the housing file, and a blank means "not in universe"."""
    survey = new_survey()
    # Serial numbers with GQ sort before those with HU.
    survey.home(("37", 40), unit_type="2")
    survey.home(("38", 19), unit_type="3")
    survey.home(("20", 40), ("21", 41), ("25", 10), TEN="1", HHT="1", HHT2="01", CPLT="1", NPF="3")
    survey.home(("20", 40), ("23", 41), TEN="2", HHT="1", HHT2="02", CPLT="2", NPF="2")
    survey.home(("20", 40), ("22", 41), ("26", 3), TEN="3", HHT="2", HHT2="03", CPLT="3", NPF="2")
    survey.home(("20", 40), ("24", 41), TEN="4", HHT="5", HHT2="04", CPLT="4")
    survey.home(("20", 80), TEN="2", HHT="6", HHT2="05")
    survey.home(("20", 33), ("27", 4), ("28", 35), TEN="3", HHT="3", HHT2="06", NPF="3")
    survey.home(("20", 50), ("29", 80), ("30", 2), ("31", 77), TEN="1", HHT="3", HHT2="07", NPF="4")
    survey.home(("20", 22), ("34", 23), TEN="3", HHT="7", HHT2="08")
    survey.home(("20", 70), TEN="2", HHT="4", HHT2="09")
    survey.home(("20", 45), ("25", 17), ("35", 9), ("36", 40), TEN="1", HHT="2", HHT2="10", NPF="2")
    survey.home(("20", 45), ("32", 30), ("33", 60), TEN="1", HHT="2", HHT2="11", NPF="3")
    survey.home(("20", 22), ("36", 23), TEN="3", HHT="5", HHT2="12")
    survey.home()
    conversion, tables = convert(survey)
    assert conversion.has_housing
    assert tables["units"].select(UNIT).rows() == [
        (4, 1, 0, 0, "00", "0", "0", "00", "0"),
        (4, 1, 0, 0, "00", "0", "0", "00", "0"),
        (2, 3, 3, 1, "01", "1", "1", "01", "1"),
        (2, 2, 2, 1, "01", "2", "1", "02", "2"),
        (2, 3, 2, 1, "01", "3", "2", "03", "3"),
        (2, 2, 0, 1, "01", "4", "5", "04", "4"),
        (2, 1, 0, 1, "01", "2", "6", "05", "5"),
        (2, 3, 3, 1, "01", "3", "3", "06", "5"),
        (2, 4, 4, 1, "01", "1", "3", "07", "5"),
        (2, 2, 0, 1, "01", "3", "7", "08", "5"),
        (2, 1, 0, 1, "01", "2", "4", "09", "5"),
        (2, 4, 2, 1, "01", "1", "2", "10", "5"),
        (2, 3, 3, 1, "01", "1", "2", "11", "5"),
        (2, 2, 0, 1, "01", "3", "5", "12", "5"),
        (2, 0, 0, 0, "00", "0", "0", "00", "0"),
    ]
    persons = tables["persons"]
    assert set(persons["RELSHIP"]) == set(RELSHIP_LABELS)
    assert persons.select("RELSHIP", "QAGE").rows() == [(row["RELSHIPP"], int(row["AGEP"])) for row in survey.persons]
    assert persons["RTYPE"].to_list() == [5, 5] + [3] * (persons.height - 2)
    assert set(tables["geo"]["TABBLKST"]) == {"44"}
    # All tables can be produced, including those with tenure, without warnings.
    assert phsafe.validate(us_document | {"state_filter": ["44"]}, conversion.folder).findings == ()


def test_the_63_combinations_of_race_flags(new_survey, convert):
    """In the usual order: one race, then two, … all six; the householder's race is the unit's."""
    survey = new_survey()
    expected = []
    sets = (races for size in range(1, 7) for races in combinations(range(6), size))
    for code, races in enumerate(sets, start=1):
        for fifth in ("RACNH", "RACPI", "both") if 4 in races else ("none",):
            on = {flag for race in races for flag in FLAGS[race] if race != 4 or fifth in {flag, "both"}}
            flags = {flag: str(int(flag in on)) for flags in FLAGS for flag in flags}
            survey.home({"RELSHIPP": "20", **flags}, TEN="1", HHT="4", HHT2="09")
            expected.append(f"{code:02d}")
    _, tables = convert(survey)
    assert set(expected) == {f"{code:02d}" for code in range(1, 64)}
    assert tables["persons"]["CENRACE"].to_list() == expected
    assert tables["units"]["HHRACE"].to_list() == expected


def test_hispanic_origins_are_one_ethnicity(new_survey, convert):
    survey = new_survey()
    for origin in range(1, 25):
        survey.home({"RELSHIPP": "20", "HISP": f"{origin:02d}"}, TEN="1", HHT="4", HHT2="09")
    _, tables = convert(survey)
    assert tables["persons"]["CENHISP"].to_list() == [1] + [2] * 23
    assert tables["units"]["HHSPAN"].to_list() == [1] + [2] * 23


def test_relp_maps_to_relship(new_survey, convert, tmp_path):
    """Every RELP code; a spouse or partner of the householder's sex becomes a same-sex one."""
    survey = new_survey(year=2018)
    relship = {
        "01": "21", "02": "25", "03": "26", "04": "27", "05": "28", "06": "29", "07": "30", "08": "31", "09": "32",
        "10": "33", "11": "36", "12": "34", "13": "22", "14": "35", "15": "36",
    }  # fmt: skip
    for quarters in ("16", "17"):
        survey.home({"RELP": quarters}, unit_type="2")
    for relp, sexes in product(relship, ("12", "21", "11", "22")):
        survey.home({"RELP": "00", "SEX": sexes[0]}, {"RELP": relp, "SEX": sexes[1]})
    for row in survey.persons:
        row["AGEP"] = "30"
    _, tables = convert(survey.write(tmp_path)[:1])
    same = {"01": "23", "13": "24"}
    expected = [
        (same.get(relp, code) if sexes[0] == sexes[1] else code)
        for (relp, code), sexes in product(relship.items(), ("12", "21", "11", "22"))
    ]
    found = tables["persons"]["RELSHIP"].to_list()
    assert found[:2] == ["37", "38"]
    assert found[3::2] == expected
    assert set(found[2::2]) == {"20"}


#: Members (RELP, age) of a man's household → NPF, HHT, HHT2, CPLT.
DERIVED = {
    "wife and child": ([("01", 30), ("02", 5)], (3, "1", "01", "1")),
    "wife and grown child": ([("01", 50), ("02", 18)], (3, "1", "02", "1")),
    "wife and grandchild": ([("01", 50), ("07", 5)], (3, "1", "02", "1")),
    "partner and adopted child": ([("13", 30), ("03", 17)], (2, "2", "03", "3")),
    "partner": ([("13", 30)], (0, "5", "04", "3")),
    "partner and parent": ([("13", 30), ("06", 70)], (2, "2", "04", "3")),
    "alone": ([], (0, "4", "09", "5")),
    "stepchild": ([("04", 0)], (2, "2", "10", "5")),
    "stepchild and roommate": ([("04", 0), ("12", 30)], (2, "2", "10", "5")),
    "sibling": ([("05", 12)], (2, "2", "11", "5")),
    "roomer": ([("11", 12)], (0, "5", "12", "5")),
    "foster child": ([("14", 12)], (0, "5", "12", "5")),
}


#: The codes of a woman's household that differ from a man's.
OF_WOMEN = {"2": "3", "4": "6", "5": "7", "09": "05", "10": "06", "11": "07", "12": "08"}


@pytest.mark.parametrize(("own", "other"), ["12", "21"], ids=["man", "woman"])
def test_unit_codes_are_derived_from_the_members_of_a_relp_file(own, other, new_survey, convert, tmp_path):
    survey = new_survey(year=2018)
    for members, _ in DERIVED.values():
        others = ({"RELP": relp, "AGEP": str(age), "SEX": other} for relp, age in members)
        survey.home({"RELP": "00", "SEX": own}, *others)
    _, tables = convert(survey.write(tmp_path)[:1])
    found = tables["units"].select("NPF", "HHT", "HHT2", "CPLT").rows()
    for (name, (_, codes)), derived in zip(DERIVED.items(), found, strict=True):
        npf, hht, hht2, cplt = codes
        women = (npf, OF_WOMEN.get(hht, hht), OF_WOMEN.get(hht2, hht2), cplt)
        assert derived == (codes if own == "1" else women), name


def test_2018_housing_files_add_tenure_and_vacant_units(new_survey, convert, write_rows, tmp_path):
    """They lack HHT2 and CPLT and call TYPEHUGQ TYPE; all four unit codes are derived from the members."""
    survey = new_survey(year=2018)
    survey.home({"RELP": "16"}, unit_type="2")
    survey.home({"RELP": "00"}, {"RELP": "02", "AGEP": "3"}, TEN="3", HHT="2", NPF="2")
    survey.home()
    housing = [
        {("TYPE" if k == "TYPEHUGQ" else k): v for k, v in row.items() if k not in {"HHT2", "CPLT"}}
        for row in survey.housing
    ]
    conversion, tables = convert([survey.write(tmp_path)[0], write_rows(tmp_path / "h.csv", housing)])
    assert tables["units"].select(UNIT).rows() == [
        (4, 1, 0, 0, "00", "0", "0", "00", "0"),
        (2, 2, 2, 1, "01", "3", "2", "10", "5"),
        (2, 0, 0, 0, "00", "0", "0", "00", "0"),
    ]
    assert conversion.states.row(0) == ("44", 1, 2, 1, 1)


def test_newer_person_files_alone_are_enough(survey, convert, tmp_path):
    conversion, tables = convert(survey.write(tmp_path)[:1])
    assert not conversion.has_housing
    assert tables["units"].select(UNIT).rows() == [
        (4, 1, 0, 0, "00", "0", "0", "00", "0"),
        (2, 3, 3, 1, "01", "0", "1", "01", "1"),
    ]


def test_renamed_columns_and_dropped_leading_zeros(survey, convert, write_rows, tmp_path):
    """ST is STATE since 2023; Excel and other programs drop leading zeros."""

    def changed(rows):
        names = {"ST": "STATE", "SERIALNO": "serialno"}
        return [
            {names.get(k, k): v if k in {"SERIALNO", "RT"} else v.lstrip("0") or v[-1:] for k, v in row.items()}
            for row in rows
        ]

    for row in survey.persons + survey.housing:
        row["ST"] = "06"
    files = [
        write_rows(tmp_path / "a.csv", changed(survey.housing)),
        write_rows(tmp_path / "b.csv", changed(survey.persons)),
    ]
    _, tables = convert(files)
    assert set(tables["geo"]["TABBLKST"]) == {"06"}
    assert tables["units"]["HHT2"].to_list() == ["00", "01", "00"]
    assert tables["persons"]["CENRACE"].to_list() == ["01"] * 4


def test_several_states_and_zips_of_several_files(new_survey, convert, pack, tmp_path):
    """The order of the files makes no difference."""
    packed = {"p": {}, "h": {}}
    for state, part in (("44", "a"), ("56", "b"), ("11", "c")):
        survey = new_survey(state=state)
        survey.home(("20", 40), TEN="1", HHT="4", HHT2="09")
        person, housing = survey.write(tmp_path, part)
        packed["p"][f"psam_pus{part}.csv"] = person.read_text()
        packed["h"][f"folder/psam_hus{part}.CSV"] = housing.read_text()
    packed["p"] |= {"ACS2021_PUMS_README.pdf": "%PDF", "__MACOSX/._psam_pusa.csv": "hidden"}
    files = [pack(tmp_path / f"csv_{letter}us.zip", members) for letter, members in packed.items()]
    conversion, tables = convert(files)
    again = phsafe.pums(tmp_path / "again", files[::-1])
    assert conversion.states["STATE"].to_list() == ["11", "44", "56"]
    assert tables["geo"]["TABBLKST"].to_list() == ["11", "44", "56"]
    for name, table in tables.items():
        assert table.equals(pl.read_parquet(again.folder / name / "*.parquet"))


def test_five_year_files(new_survey, convert, write_rows, tmp_path):
    persons, housing = [], []
    for year in range(2017, 2022):
        survey = new_survey(year=year)
        survey.home(("20", 40), TEN="1", HHT="4", HHT2="09")
        persons += survey.persons
        housing += survey.housing
    files = [write_rows(tmp_path / "p.csv", persons), write_rows(tmp_path / "h.csv", housing)]
    conversion, tables = convert(files)
    assert conversion.years == (2017, 2018, 2019, 2020, 2021)
    assert tables["units"].height == 5


def test_expand_uses_unit_weights_and_person_weights_in_group_quarters(survey, convert):
    conversion, tables = convert(survey, expand=True)
    assert conversion.states.row(0) == ("44", 7, 21, 7, 9)
    units = tables["units"]
    assert units["MAFID"].to_list() == list(range(100_000_001, 100_000_001 + 9 + 7 + 7))
    assert units["FINAL_POP"].to_list() == [1] * 9 + [3] * 7 + [0] * 7
    assert tables["persons"]["RELSHIP"].to_list() == ["38"] * 9 + ["20", "21", "25"] * 7
    assert tables["geo"]["RTYPE"].to_list() == units["RTYPE"].to_list()


def test_csv_has_the_same_content(survey, convert, tmp_path):
    _, tables = convert(survey)
    conversion = phsafe.pums(tmp_path / "csv", survey.write(tmp_path), format="csv")
    assert sorted(path.name for path in conversion.folder.iterdir()) == [
        "PUBLIC",
        "geo.csv",
        "persons.csv",
        "units.csv",
    ]
    for name, table in tables.items():
        found = pl.read_csv(conversion.folder / f"{name}.csv", infer_schema=False)
        assert found.equals(table.cast(pl.String))
