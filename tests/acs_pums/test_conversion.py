"""The `phsafe pums` command: a table or JSON on standard output, everything else on standard error."""

import json


def test_it_summarises_the_conversion(survey, phsafe_command, tmp_path):
    done = phsafe_command("pums", tmp_path / "out", *survey.write(tmp_path))
    assert done.code == 0
    assert "ACS PUMS 2021, each record once" in done.out
    assert [word for word in done.out.split() if word.isdecimal()] == ["1", "3", "1", "1"]
    assert "marked as public by the file PUBLIC" in done.err
    assert "tenure" not in done.err
    assert (tmp_path / "out" / "PUBLIC").exists()


def test_without_a_housing_file_it_warns_about_tenure(survey, phsafe_command, tmp_path):
    done = phsafe_command("pums", tmp_path / "out", survey.write(tmp_path)[0])
    assert done.code == 0
    assert "unknown" in done.out
    assert "TEN is 0 for every unit" in done.err
    assert "Set the budgets of PH7 and PH8_denom to 0" in done.err


def test_standard_output_holds_only_the_json(survey, phsafe_command, tmp_path):
    done = phsafe_command("pums", tmp_path / "out", *survey.write(tmp_path), "--expand", "--json")
    counts = {"HOUSEHOLDS": 7, "PEOPLE_IN_HOUSEHOLDS": 21, "VACANT_UNITS": 7, "PEOPLE_IN_GROUP_QUARTERS": 9}
    assert json.loads(done.out) == {
        "folder": str(tmp_path / "out"), "years": [2021], "expanded": True, "has_housing": True,
        "states": [{"STATE": "44", **counts}],
    }  # fmt: skip


def test_a_refusal_prints_one_line_for_each_reason(survey, phsafe_command, tmp_path):
    done = phsafe_command("pums", tmp_path / "out", survey.write(tmp_path)[1])
    assert done.code == 1
    assert done.out == ""
    assert "name the person file" in done.err
    assert not (tmp_path / "out").exists()
