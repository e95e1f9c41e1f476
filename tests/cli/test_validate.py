"""`phsafe validate`: a table for people, JSON for machines, keys for those who repair the data, values for nobody."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest

from phsafe.errors import OutputError
from phsafe.model.schema import LAYOUTS
from phsafe.pipeline.validation_output import write_offenders

MARKER = "Q7Z"
KEY = 777_123_457


@pytest.fixture
def damaged(small, tmp_path):
    """The small data with a repeated unit and a person without one."""
    folder = tmp_path / "data"
    shutil.copytree(small, folder)
    units = pl.read_csv(folder / "units.csv", infer_schema=False)
    pl.concat([units, units.head(1)]).write_csv(folder / "units.csv")
    persons = pl.read_csv(folder / "persons.csv", infer_schema=False)
    lost = persons.filter(RELSHIP="20").head(1).with_columns(MAFID=pl.lit(str(KEY)))
    pl.concat([persons, lost]).write_csv(folder / "persons.csv")
    return folder


def test_warnings_alone_exit_with_0(phsafe_command, us, small):
    run = phsafe_command("validate", us, small)
    assert run.code == 0
    assert "0 errors, 5 warnings" in run.out
    assert "NOT PRIVATE" in run.out + run.err


def test_errors_exit_with_1_and_show_rule_table_column_and_rows(phsafe_command, us, damaged):
    run = phsafe_command("validate", us, damaged, "--json")
    report = json.loads(run.out)
    assert run.code == 1
    assert not report["ok"]
    errors = {(f["rule"], f["table"], f["column"], f["rows"]) for f in report["findings"] if f["severity"] == "error"}
    assert errors == {
        ("MAFID is unique in units", "units", "MAFID", 2),
        ("every person's MAFID is in units", "persons", "MAFID", 1),
    }


def test_household_keys_go_to_a_file_that_only_the_owner_can_read(phsafe_command, us, damaged, tmp_path):
    file = tmp_path / "keys.csv"
    run = phsafe_command("validate", us, damaged, "--examples", file)
    assert file.stat().st_mode & 0o777 == 0o600
    keys = pl.read_csv(file)
    assert keys.filter(rule="every person's MAFID is in units")["MAFID"].to_list() == [KEY]
    assert str(KEY) not in run.out + run.err
    again = phsafe_command("validate", us, damaged, "--examples", file)
    assert again.code == 1
    assert "doesn't exist yet" in again.err
    with pytest.raises(OutputError, match="can't write the household keys: No such file"):
        write_offenders(tmp_path / "nowhere" / "keys.csv", {})


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("command", ["validate", "tabulate", "release"])
def test_no_output_shows_a_value(phsafe_command, us, small, tmp_path, command, layout):
    """A marker in every column of a table, and a key of its own, turn up in no output of any command."""
    folder = tmp_path / "data"
    shutil.copytree(small, folder)
    frame = pl.read_csv(folder / f"{layout.name}.csv", infer_schema=False)
    marked = frame.with_row_index("row")
    for i, column in enumerate(layout.columns):
        value = str(KEY) if column.name == "MAFID" else MARKER
        marked = marked.with_columns(
            pl.when(pl.col("row") == i).then(pl.lit(value)).otherwise(column.name).alias(column.name)
        )
    marked.drop("row").write_csv(folder / f"{layout.name}.csv")
    out = [] if command == "validate" else [tmp_path / "out"]
    run = phsafe_command(command, us, folder, *out)
    assert run.code == 1
    assert MARKER not in run.out + run.err
    assert str(KEY) not in run.out + run.err
    assert "Traceback" not in run.err
    assert not (tmp_path / "out").exists()
