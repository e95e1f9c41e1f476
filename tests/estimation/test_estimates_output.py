"""Writing finished tables: files, workbook and diagnostics, and what the command refuses."""

import json
import re
import shutil
import warnings
from dataclasses import replace

import openpyxl
import polars as pl
import pytest
import typer
from csvw import CSVW
from typer.testing import CliRunner

import phsafe
from phsafe.cli.estimate import estimate as command
from phsafe.configs.publication import Publication
from phsafe.errors import PHSafeError
from phsafe.estimation import estimate, estimate_frames
from phsafe.model.spec import Catalog
from phsafe.releases.manifest import MANIFEST
from phsafe.releases.release_folder import Release

TABLES = [f"PH{i}" for i in range(1, 9)]
KEYS = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL", "LABEL"]
COLUMNS = [*KEYS, "ESTIMATE", "LOWER_90", "UPPER_90", "STD_ERROR"]


@pytest.fixture(scope="module")
def estimates(three_states, noisy):
    config, counts = three_states
    return estimate_frames(config, noisy(config, counts), "independent")


@pytest.fixture(scope="module")
def written(estimates, tmp_path_factory):
    """All files of the estimates, which tests only read."""
    return estimates.write(tmp_path_factory.mktemp("written") / "out", sdmx=True)


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
    assert names == {*(f"{name}.csv" for name in TABLES), "tables", "tables.xlsx", "diagnostics.json"}
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


def test_workbook_matches_the_tables(estimates, written):
    book = openpyxl.load_workbook(written / "tables.xlsx")
    assert book.sheetnames == ["Cover", "Notes", *TABLES]
    sheet = book["PH7"]
    rows = list(sheet.iter_rows(min_row=6, values_only=True))
    frame = estimates.tables["PH7"]
    assert len(rows) == len(frame) // 4
    first = frame.head(4).select("ESTIMATE", "LOWER_90", "UPPER_90").to_numpy().ravel().tolist()
    assert rows[0] == ("Hawaii, Rhode Island and Wyoming together", "*  Total population", *first)
    assert rows[-1][:2] == ("Wyoming", "I  White alone, not Hispanic or Latino")
    wide = frame.with_columns(wide=pl.col("UPPER_90") - pl.col("LOWER_90") > pl.col("ESTIMATE"))["wide"].to_list()
    formats = [cell.number_format for row in sheet.iter_rows(min_row=6, min_col=3) for cell in row[::3]]
    assert ["△" in text for text in formats] == wide
    assert any(wide) and not all(wide)


def test_workbook_prints_whole_regions_with_headings(estimates, written):
    """A page never splits a region or a line; every page repeats the headings, and its header has the title."""
    book = openpyxl.load_workbook(written / "tables.xlsx")
    for table in estimates.config.catalog.tables:
        sheet = book[table.name]
        assert sheet.auto_filter.ref.startswith("A5:") and sheet.freeze_panes == "C6"
        assert (sheet.print_title_rows, sheet.print_title_cols) == ("$4:$5", "$A:$B")
        assert sheet.page_setup.orientation == "landscape"
        assert table.title in sheet.oddHeader.left.text and "&P of &N" in sheet.oddFooter.right.text.replace(
            "&[Page]", "&P"
        ).replace("&[Pages]", "&N")
        starts = {one.id for one in sheet.row_breaks.brk}
        regions = [sheet.cell(row, 1).value for row in range(6, sheet.max_row + 1)]
        assert all(regions[row - 5] != regions[row - 6] for row in starts)
        assert all((one.id - 2) % 9 == 0 for one in sheet.col_breaks.brk)
        assert len(sheet.col_breaks.brk) == -(-len(table.shell) // 3) - 1


def test_every_file_says_that_people_are_left_out(estimates, written):
    """The independent method leaves out people beyond the thresholds."""
    book = openpyxl.load_workbook(written / "tables.xlsx")
    notes = {row[0]: row[1] for name in ("Cover", "Notes") for row in book[name].iter_rows(values_only=True)}
    assert "the difference of the two estimates is more than noise" in notes["Comparing"]
    assert "phsafe interval" not in notes["Comparing"] and "use the interval" in notes["△"]
    own = " Counts at most 6 people of its universe per household and leaves out the others."
    assert book["PH3"]["A2"].value == f"Universe: Population in households under 18 years.{own}"
    metadata = json.loads((written / "tables" / "csv-metadata.json").read_text())
    descriptions = {table["dc:title"]: table["dc:description"] for table in metadata["tables"]}
    codebook = pl.read_csv(written / "tables" / "codebook.csv", infer_schema=False)
    row = codebook.filter(pl.col("TABLE") == "PH3", pl.col("COLUMN").fill_null("") == "")
    for text in (notes["PH3"], descriptions["PH3"], row["MEANING"][0]):
        assert own in text
    page = (written / "tables" / "codebook.md").read_text()
    for text in (notes["Intervals"], metadata["dc:description"], page):
        assert "at most 10 people per household (6 people of the universe in PH3 and PH6) and leave out" in text
        assert "totals of all people are slightly higher." in text


def test_cover_says_who_publishes_and_how_to_cite(estimates, tmp_path):
    about = {
        "title": "Households 2030", "agency": "Bureau of Examples", "contact": "data@example.org", "date": "2031-05-01",
        "version": "2", "licence": "CC0-1.0",
    }  # fmt: skip
    config = replace(estimates.config, publication=Publication(**about))
    stated = replace(estimates, config=config, release_id="0f0e")
    out = stated.write(tmp_path / "out")
    cover = openpyxl.load_workbook(out / "tables.xlsx")["Cover"]
    shown = [cell for row in cover.iter_rows(values_only=True) for cell in row if cell]
    assert set(about.values()) <= set(shown)
    citation = "Bureau of Examples (2031). Households 2030. Version 2. Release 0f0e. Published 2031-05-01."
    assert citation in shown and stated.cite() == citation
    metadata = json.loads((out / "tables" / "csv-metadata.json").read_text())
    assert {*about.values(), citation, "0f0e"} <= {text for text in metadata.values() if isinstance(text, str)}
    assert citation in (out / "tables" / "codebook.md").read_text()
    assert problems(out / "tables" / "csv-metadata.json") == []


def test_texts_of_the_publication_are_shown_as_they_are(estimates, tmp_path):
    """Neither a formula in the workbook, nor HTML or Markdown in the codebook."""
    hostile = '=HYPERLINK("http://example.org","x")<script>alert(1)</script>*b*'
    about = Publication(title=hostile, agency=hostile, contact=hostile, licence=hostile, version=hostile)
    out = replace(estimates, config=replace(estimates.config, publication=about)).write(tmp_path / "out")
    cover = openpyxl.load_workbook(out / "tables.xlsx")["Cover"]
    shown = [cell for row in cover.iter_rows() for cell in row if cell.value and hostile in str(cell.value)]
    assert len(shown) >= 5 and {(cell.data_type, cell.hyperlink) for cell in shown} == {("s", None)}
    page = (out / "tables" / "codebook.md").read_text()
    assert "\\<script>" in page and not re.search(r"(?<!\\)<script>", page)


def problems(metadata) -> list[str]:
    """What a validator of CSV on the Web finds wrong: metadata, columns, types, codes and keys."""
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # It records its findings as warnings.
        found = CSVW(str(metadata), validate=True)
        try:
            return [] if found.is_valid else [str(warning.message) for warning in found.warnings]
        except ValueError as error:  # a repeated key
            return [str(error)]


def test_a_validator_accepts_the_metadata(written, tmp_path):
    folder = tmp_path / "tables"
    shutil.copytree(written / "tables", folder)
    metadata = folder / "csv-metadata.json"
    assert problems(metadata) == []
    document = json.loads(metadata.read_text())
    assert [table["url"] for table in document["tables"]] == [*(f"{name}.csv" for name in TABLES), "codebook.csv"]
    # A validator that accepts anything would be no test.
    text = (folder / "PH3.csv").read_text()
    header, first, rest = text.split("\n", 2)
    for wrong in (
        text.replace("STATE,", "COUNTY,", 1),
        "\n".join([header, first.replace(",1,Total:,", ",one,Total:,"), rest]),
        "\n".join([header, first, first, rest]),
        text.replace("RACE_ETHNICITY", "RACE", 1),
    ):
        assert wrong != text
        (folder / "PH3.csv").write_text(wrong)
        assert problems(metadata) != []


def test_named_tables_hold_the_published_values(estimates, written):
    folder = written / "tables"
    for name in TABLES:
        frame = pl.read_parquet(folder / f"{name}.parquet")
        plain = pl.read_csv(folder / f"{name}.csv", schema=frame.schema)
        assert plain.equals(frame) and frame.equals(estimates.table(name).select(frame.columns))
        assert frame.select(COLUMNS).equals(estimates.tables[name])
    rows = estimates.table("ph7", region="WY", iteration="H").rows(named=True)
    assert (rows[0]["REGION"], rows[0]["RACE_ETHNICITY"]) == ("Wyoming", "Hispanic or Latino")
    for row in rows:
        assert bool(row["NOTE"]) == (row["UPPER_90"] - row["LOWER_90"] > row["ESTIMATE"])


def test_a_printed_table_shows_names_and_values(estimates):
    """Polars shows the first and last four columns of a wide frame."""
    with pl.Config(tbl_cols=8, tbl_width_chars=200, tbl_rows=4):
        shown = str(estimates.table("PH3", "Wyoming"))
    for text in ("REGION ", "RACE_ETHNICITY", "LABEL", "ESTIMATE", "LOWER_90", "UPPER_90", "NOTE"):
        assert text in shown


def test_the_codebook_explains_every_code(estimates, written):
    folder = written / "tables"
    book = pl.read_csv(folder / "codebook.csv", infer_schema=False)
    meanings = {(table, column, code): meaning for table, column, code, meaning in book.rows()}
    for name in TABLES:
        frame = estimates.table(name)
        assert all(meanings["", column, ""] for column in frame.columns)
        for row in frame.rows(named=True):
            assert meanings["", "REGION_ID", row["REGION_ID"]] == row["REGION"]
            assert meanings["", "ITERATION_CODE", row["ITERATION_CODE"]] == row["RACE_ETHNICITY"]
            assert row["LABEL"].rstrip(":") in meanings[name, "CELL", str(row["CELL"])]
    assert meanings["PH3", "CELL", "5"] == "Total › Own child › In cohabiting couple family"
    assert meanings["PH3", "CELL", "8"] == "Total › Other relatives (the sum of lines 9, 10)"
    page = (folder / "codebook.md").read_text()
    assert "| 5 | Total › Own child › In cohabiting couple family |" in page and "| \\* | Total population |" in page


def test_sdmx_files_have_the_columns_and_codes_of_the_standard(estimates, written):
    for name in TABLES:
        frame = pl.read_csv(written / "sdmx" / f"{name}.csv", schema_overrides={"REF_AREA": pl.String})
        assert frame.columns[:3] == ["STRUCTURE", "STRUCTURE_ID", "ACTION"]
        assert frame.select(frame.columns[:3]).unique().row(0) == ("dataflow", f"PHSAFE:{name}(1.0)", "I")
        table = estimates.table(name)
        assert frame["OBS_VALUE"].to_list() == table["ESTIMATE"].to_list()
        assert (frame["OBS_STATUS"] == "U").to_list() == (table["NOTE"] != "").to_list()
        codes = frame.select("REGION_TYPE", "REF_AREA", "RACE_ETHNICITY").unique()
        assert all(re.fullmatch(r"[A-Za-z0-9_@$-]+", code) for row in codes.rows() for code in row)
        assert frame.select("REGION_TYPE", "REF_AREA", "RACE_ETHNICITY", "LINE").is_duplicated().sum() == 0


def test_the_same_estimates_give_the_same_bytes(estimates, written, tmp_path):
    one, other = written, estimates.write(tmp_path / "other", sdmx=True)
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert len(files) > 30
    assert [name for name in files if (one / name).read_bytes() != (other / name).read_bytes()] == []


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
    assert "the people beyond the thresholds are estimated" in result.output
    result = run(folder, tmp_path / "truncated", "--target", "truncated")
    assert "leave out the others. Given the noise, a 90 % interval contains the value without them" in " ".join(
        result.output.split()
    )
    book = openpyxl.load_workbook(tmp_path / "truncated" / "tables.xlsx")
    notes = dict(book["Notes"].iter_rows(values_only=True))
    assert "phsafe interval RELEASE --target truncated EXPRESSION" in notes["Comparing"]


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
