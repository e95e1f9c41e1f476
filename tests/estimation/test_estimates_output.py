"""Writing finished tables: files, workbook and diagnostics, and what the command refuses."""

import json
from dataclasses import replace

import openpyxl
import polars as pl
import pytest
import typer
from typer.testing import CliRunner

import phsafe
from phsafe.cli.estimate import estimate as command
from phsafe.errors import PHSafeError
from phsafe.estimation import estimate, estimate_frames
from phsafe.model.spec import Catalog
from phsafe.releases.manifest import MANIFEST
from phsafe.releases.release_folder import Release

TABLES = [f"PH{i}" for i in range(1, 9)]
COLUMNS = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL", "LABEL", "ESTIMATE", "LOWER_90", "UPPER_90"]


@pytest.fixture(scope="module")
def estimates(three_states, noisy):
    config, counts = three_states
    return estimate_frames(config, noisy(config, counts), "independent")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small, make_config):
    """A real release of the small test data."""
    path = tmp_path_factory.mktemp("release") / "release"
    ledger = path.parent / "ledger.sqlite"
    release = phsafe.release(
        make_config(states=("44", "56")), small, path, ledger=ledger, new_ledger=True, skip_validation=True
    )
    return release.path


def run(*arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_csv_files_match_the_tables(estimates, tmp_path):
    out = estimates.write(tmp_path / "out")
    names = {path.name for path in out.iterdir()}
    assert names == {*(f"{name}.csv" for name in TABLES), "tables.xlsx", "diagnostics.json"}
    for name in TABLES:
        frame = pl.read_csv(out / f"{name}.csv", separator="|", schema_overrides={"REGION_ID": pl.String})
        assert frame.columns == COLUMNS
        assert frame.equals(estimates.tables[name])
    document = json.loads((out / "diagnostics.json").read_text())
    assert document["method"] == "independent"
    assert 0 <= document["noise_test"]["p_value"] <= 1
    with pytest.raises(PHSafeError, match="expected a folder that doesn't exist yet"):
        estimates.write(out)
    with pytest.raises(PHSafeError, match="format: expected one of csv, parquet, got xml"):
        estimates.write(tmp_path / "other", "xml")
    assert not (tmp_path / "other").exists()


def test_parquet_files_match_the_tables(estimates, tmp_path):
    out = estimates.write(tmp_path / "out", "parquet")
    assert pl.read_parquet(out / "PH3.parquet").equals(estimates.tables["PH3"])


def test_workbook_matches_the_tables(estimates, tmp_path):
    book = openpyxl.load_workbook(estimates.write(tmp_path / "out") / "tables.xlsx")
    assert book.sheetnames == TABLES
    sheet = book["PH7"]
    rows = list(sheet.iter_rows(min_row=6, values_only=True))
    frame = estimates.tables["PH7"]
    assert len(rows) == len(frame) // 4
    first = frame.head(4).select("ESTIMATE", "LOWER_90", "UPPER_90").to_numpy().ravel().tolist()
    assert rows[0] == ("Hawaii, Rhode Island and Wyoming together", "*  Total population", *first)
    assert rows[-1][:2] == ("Wyoming", "I  White alone, not Hispanic or Latino")


def test_strings_are_never_written_as_formulas(estimates, tmp_path):
    config = estimates.config
    hostile = [
        replace(table, title='=HYPERLINK("x")', shell=tuple(replace(line, label="=1+1") for line in table.shell))
        for table in config.catalog.tables
    ]
    catalog = Catalog(tuple(hostile), config.catalog.levels)
    other = replace(estimates, config=replace(config, catalog=catalog))
    book = openpyxl.load_workbook(other.write(tmp_path / "out") / "tables.xlsx")
    types = {cell.data_type for sheet in book for row in sheet.iter_rows() for cell in row}
    assert "f" not in types and "s" in types


def test_command_estimates_a_real_release(folder, tmp_path):
    result = run(folder, tmp_path / "out", "--method", "joint")
    assert result.exit_code == 0, result.output
    assert pl.read_csv(tmp_path / "out" / "PH7.csv", separator="|")["ESTIMATE"].min() >= 0
    assert estimate(Release.open(folder), "joint").tables["PH1"].columns == COLUMNS


def test_command_reports_all_reasons_for_refusal(folder, tmp_path):
    def reasons(*arguments):
        result = run(*arguments)
        assert isinstance(result.exception, PHSafeError)
        return result.exception.reasons

    assert "expected a release folder" in reasons(tmp_path, tmp_path / "out")[0]
    assert "got guess" in reasons(folder, tmp_path / "out", "--method", "guess")[0]
    both = reasons(tmp_path, tmp_path, "--format", "xml")
    assert len(both) == 3  # no release, OUT exists, unknown format: all reported together
    edited = tmp_path / "edited"
    edited.mkdir()
    for file in folder.rglob("*"):
        if file.is_file():
            copy = edited / file.relative_to(folder)
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(file.read_bytes())
    counts = edited / "PH7" / "ph7.csv"
    lines = counts.read_text().splitlines()
    fields = lines[1].split("|")
    lines[1] = "|".join([*fields[:4], str(int(fields[4]) + 1), *fields[5:]])
    counts.write_text("\n".join(lines) + "\n")
    assert any("ph7.csv" in reason for reason in reasons(edited, tmp_path / "out"))
    assert run(edited, tmp_path / "forced", "--force").exit_code == 0
    counts.unlink()
    assert any("ph7.csv" in reason for reason in reasons(edited, tmp_path / "out", "--force"))
    (edited / MANIFEST).write_text("{")
    assert "expected JSON" in reasons(edited, tmp_path / "out")[0]
    assert not (tmp_path / "out").exists()
