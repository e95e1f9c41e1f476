"""Invalid files are refused with clear reasons that contain no value of a record, and leave nothing behind."""

import pytest

import phsafe
from phsafe.errors import PHSafeError

#: A value planted in records; no message may contain it.
SECRET = "5417"


@pytest.fixture
def refused(tmp_path):
    """Convert files that must be refused; check that nothing is left behind and return the reasons."""

    def run(files, **options):
        folder = tmp_path / "outputs"
        folder.mkdir(exist_ok=True)
        with pytest.raises(PHSafeError) as caught:
            phsafe.pums(folder / "out", files, **options)
        assert list(folder.iterdir()) == []
        assert SECRET not in str(caught.value)
        return caught.value.reasons

    return run


def test_a_housing_file_without_any_person_file(survey, refused, tmp_path):
    (reason,) = refused(survey.write(tmp_path)[1:])
    assert "got only housing files" in reason


def test_a_housing_file_without_its_person_file(survey, new_survey, refused, tmp_path):
    other = new_survey(state="56")
    other.home(("20", 40), TEN="1", HHT="4", HHT2="09")
    person, housing = survey.write(tmp_path)
    other_housing = other.write(tmp_path, "other")[1]
    (reason,) = refused([person, housing, other_housing])
    assert "housing file without its person file: Wyoming (56)" in reason


def test_a_person_file_without_its_housing_file(survey, new_survey, refused, tmp_path):
    other = new_survey(state="56")
    other.home(("20", 40), TEN="1", HHT="4", HHT2="09")
    (reason,) = refused([*survey.write(tmp_path), other.write(tmp_path, "other")[0]])
    assert "person file without its housing file: Wyoming (56)" in reason


def test_mixed_years(survey, new_survey, refused, tmp_path):
    other = new_survey(year=2022, state="56")
    other.home(("20", 40), TEN="1", HHT="4", HHT2="09")
    (reason,) = refused([*survey.write(tmp_path), *other.write(tmp_path, "other")])
    assert "psam_ptest.csv covers 2021" in reason
    assert "psam_pother.csv covers 2022" in reason


def test_mixed_years_in_one_file(survey, refused, tmp_path):
    survey.persons[0]["SERIALNO"] = "2019" + survey.persons[0]["SERIALNO"][4:]
    (reason,) = refused(survey.write(tmp_path)[:1])
    assert reason == "expected records of one year or of five in a row, got a mixture: 2019 and 2021"


def test_years_before_2018(new_survey, refused, tmp_path):
    survey = new_survey(year=2017)
    survey.home({"RELP": "00"})
    (reason,) = refused(survey.write(tmp_path)[:1])
    assert reason == "expected files of 2018 or later, got 2017"


def test_mixed_old_and_new_relationship_codes(survey, new_survey, refused, tmp_path):
    old = new_survey(year=2018, state="56")
    old.home({"RELP": "00"})
    (reason,) = refused([survey.write(tmp_path)[0], old.write(tmp_path, "old")[0]])
    assert "some with RELP (to 2018) and some with RELSHIPP (from 2019)" in reason


def test_serial_numbers_without_a_year(survey, refused, tmp_path):
    survey.persons[0]["SERIALNO"] = SECRET[::-1] + "x"
    survey.persons[1]["SERIALNO"] = ""
    survey.persons[2]["SERIALNO"] = "²⁰²¹"
    (reason,) = refused(survey.write(tmp_path)[:1])
    assert "begin with a year" in reason


@pytest.mark.parametrize("weight", ["0", "", "-3", "3.7", SECRET + "0"])
def test_weights_unusable_for_expand(weight, survey, refused, tmp_path, capsys):
    """Weights matter only with `expand`."""
    survey.housing[0]["WGTP"] = weight
    files = survey.write(tmp_path)
    (reason,) = refused(files, expand=True)
    assert "units without a weight from 1 to 9,999: 1" in reason
    assert "convert without it" in reason
    assert phsafe.pums(tmp_path / "plain", files).states["HOUSEHOLDS"].sum() == 1


def test_missing_weight_columns(survey, refused, tmp_path):
    for row in survey.housing + survey.persons:
        row.pop("WGTP", None)
        row.pop("PWGTP", None)
    reasons = refused(survey.write(tmp_path), expand=True)
    assert [reason.split(": ")[1] for reason in reasons] == [
        "column PWGTP is missing, which --expand needs",
        "column WGTP is missing, which --expand needs",
    ]


def test_missing_columns_of_all_files_are_reported_together(survey, refused, tmp_path, write_rows):
    for row in survey.persons:
        del row["AGEP"], row["RACPI"], row["ST"]
    for row in survey.housing:
        del row["TEN"]
    other = write_rows(tmp_path / "other.csv", [{"A": SECRET}])
    reasons = refused([*survey.write(tmp_path), other, tmp_path / "nowhere.csv"])
    assert [reason.rpartition("/")[2] for reason in reasons] == [
        "nowhere.csv: can't read the file: No such file or directory"
    ]
    reasons = refused([*survey.write(tmp_path), other])
    assert [reason.rpartition("/")[2] for reason in reasons] == [
        "psam_ptest.csv: column STATE or ST, AGEP, RACPI is missing from this person file",
        "psam_htest.csv: column TEN is missing from this housing file",
        "other.csv: expected a PUMS person file (with SPORDER) or housing file (with NP), got another header",
    ]


def test_invalid_codes_are_counted(new_survey, refused, tmp_path):
    """One household for each invalid value, so that each is counted separately."""
    persons = [
        ("AGEP", "116"), ("AGEP", "3.7"), ("AGEP", ""), ("SEX", "3"), ("HISP", "25"), ("RELSHIPP", "39"),
        ("RACBLK", "2"), ("RACWHT", "0"),
    ]  # fmt: skip
    units = [("TYPEHUGQ", "4"), ("TEN", "5"), ("HHT", "8"), ("HHT2", "13"), ("CPLT", "9"), ("NPF", "1")]
    survey = new_survey()
    for number, (column, value) in enumerate(persons + units):
        survey.home(("20", 40), ("25", 4), TEN="1", HHT="2", HHT2="10", NPF="2")
        if number < len(persons):
            survey.persons[-1][column] = value
        else:
            survey.housing[-1][column] = value
    assert sorted(refused(survey.write(tmp_path))) == [
        "persons without a valid value of AGEP, for QAGE: 3",
        "persons without a valid value of HISP, for CENHISP: 1",
        "persons without a valid value of RELSHIPP or RELP, for RELSHIP: 1",
        "persons without a valid value of SEX: 1",
        "persons without a valid value of the race flags, for CENRACE: 2",
        "units without a valid value of CPLT, for CPLT: 1",
        "units without a valid value of HHT, for HHT: 1",
        "units without a valid value of HHT2, for HHT2: 1",
        "units without a valid value of NPF, for NPF: 1",
        "units without a valid value of TEN, for TEN: 1",
        "units without a valid value of TYPEHUGQ or TYPE, for RTYPE: 1",
    ]


def test_invalid_states(survey, refused, tmp_path):
    survey.persons[0]["ST"] = "03"
    assert refused(survey.write(tmp_path)) == (
        "expected a state's code (STATE or ST) in every record, got other values",
    )


def test_a_file_named_twice(survey, refused, tmp_path):
    person, housing = survey.write(tmp_path)
    assert refused([person, housing, person, housing]) == (
        "duplicate persons: 4; was a file named twice?",
        "duplicate housing records: 3; was a file named twice?",
        "units whose number of persons (NP) differs from their number of person records: 4",
        "occupied housing units with no householder or more than one: 2",
    )


def test_files_that_do_not_match(survey, refused, tmp_path):
    """Persons without a unit, and units without their persons."""
    survey.persons[0]["SERIALNO"] = "2021HU7777777"
    survey.housing[1]["NP"] = "1"
    assert refused(survey.write(tmp_path)) == (
        "persons without a housing record: 1; are the files from the same survey?",
        "units whose number of persons (NP) differs from their number of person records: 2",
        "occupied housing units with no householder or more than one: 1",
    )


def test_more_units_than_mafids(survey, refused, tmp_path, monkeypatch):
    monkeypatch.setattr("phsafe.acs_pums.pums_checks.MAX_UNITS", 22)
    (reason,) = refused(survey.write(tmp_path), expand=True)
    assert "expected at most 22 units after --expand, got 23" in reason


#: Functions from the bytes of a person file to damaged bytes.
DAMAGE = {
    "a line too short": lambda text: text + SECRET.encode() + b",1\n",
    "a line too long": lambda text: text.rstrip(b"\n") + b",1,2,3," + SECRET.encode() + b"\n",
    "bytes that are not UTF-8": lambda text: text.replace(b"2021HU0000000", b"2021HU\xff\xfe00000"),
    "no records": lambda text: text.partition(b"\n")[0] + b"\n",
    "a header without a line end": lambda text: text.partition(b"\n")[0],
    "an empty file": lambda text: b"",
    "a header that is not UTF-8": lambda text: b"\xff\xfe" + text,
    "an overlong header": lambda text: b"A," * 100_000,
    "a duplicate column name": lambda text: text.replace(b"SPORDER", b"AGEP", 1),
    "an open quote": lambda text: text.replace(b"2021HU0000000", b'"2021HU0000000', 1),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_files_that_are_not_valid_csv(name, survey, refused, tmp_path):
    person, housing = survey.write(tmp_path)
    person.write_bytes(DAMAGE[name](person.read_bytes()))
    (reason,) = refused([person, housing])
    assert reason.startswith(f"{person}: expected ")


def test_a_folder_instead_of_a_file(survey, refused, tmp_path):
    (reason,) = refused([tmp_path])
    assert reason == f"{tmp_path}: can't read the file: Is a directory"


def test_invalid_arguments(survey, tmp_path):
    files = survey.write(tmp_path)
    for arguments, sentence in (
        ({"out": tmp_path / "a", "files": []}, "expected PUMS files to convert, got none"),
        (
            {"out": tmp_path / "a", "files": files, "format": "sas"},
            "format: expected one of csv, parquet, got sas",
        ),
        ({"out": tmp_path, "files": files}, f"{tmp_path}: expected a folder that doesn't exist yet"),
    ):
        with pytest.raises(PHSafeError, match=sentence):
            phsafe.pums(**arguments)
    assert not (tmp_path / "a").exists()


def test_an_invalid_memory_limit(survey, refused, tmp_path):
    (reason,) = refused(survey.write(tmp_path), options=phsafe.EngineOptions(memory_limit="much"))
    assert "expected a whole number and a size such as 4GB" in reason


def test_an_interrupt_leaves_nothing_behind(survey, tmp_path):
    def stop(stage, done):
        if stage == "writing units":
            raise KeyboardInterrupt

    files = survey.write(tmp_path)
    (tmp_path / "outputs").mkdir()
    (tmp_path / "temporary").mkdir()
    options = phsafe.EngineOptions(temp_dir=tmp_path / "temporary")
    with pytest.raises(KeyboardInterrupt):
        phsafe.pums(tmp_path / "outputs" / "out", files, progress=stop, options=options)
    assert list((tmp_path / "outputs").iterdir()) == list((tmp_path / "temporary").iterdir()) == []
