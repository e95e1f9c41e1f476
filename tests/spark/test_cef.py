"""The Census Edited File on Spark: the same tables as on DuckDB, and the same refusals."""

import gzip
from itertools import cycle, islice

import polars as pl
import pytest

from phsafe.errors import DataError
from phsafe.readers import load

pytestmark = pytest.mark.needs("java")


@pytest.mark.parametrize(("pad", "end"), [("0", "\n"), (" ", "\r\n")], ids=["zeros", "blanks"])
def test_the_small_dataset_is_read_as_on_duckdb(pad, end, small_frames, write_cef, spark, duck, tmp_path):
    path = write_cef(tmp_path, small_frames, pad, end)
    found = [
        {name: sorted(engine.fetch(table).to_pylist(), key=str) for name, table in load(path, engine).tables.items()}
        for engine in (spark, duck)
    ]
    assert found[0] == found[1]
    assert len(found[0]["persons"]) == small_frames["persons"].height


#: Three-character ages that are unusual or invalid.
AGES = [
    "  7", "007", "7  ", " 7 ", "   ", "000", "  -", " -7", " +7", "7.0", "1e1", "\t7 ", "\u00a07 ", "\u30007 ", "７  ",
    "é7 ",
]  # fmt: skip


def test_unusual_numbers_are_read_as_on_duckdb(small_frames, write_cef, spark, duck, tmp_path):
    """Blanks around a number are ignored; anything else is not a number."""
    unusual = small_frames | {
        "persons": small_frames["persons"].with_columns(
            QAGE=pl.Series(islice(cycle(AGES), small_frames["persons"].height))
        ),
        "units": small_frames["units"].with_columns(
            FINAL_POP=pl.Series(islice(cycle(["99999", "2", " 5", "x"]), small_frames["units"].height)),
            HHRACE=pl.Series(islice(cycle(["  ", " 1", "é9", "01"]), small_frames["units"].height)),
        ),
    }
    path = write_cef(tmp_path, unusual)
    one, other = (
        {name: sorted(engine.fetch(table).to_pylist(), key=str) for name, table in load(path, engine).tables.items()}
        for engine in (spark, duck)
    )
    assert one == other
    ages = {person["QAGE"] for person in one["persons"]}
    assert ages == {7, 0, None}


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("units.txt", "27731\n", "units.txt: expected every line as long as the first (70)"),
        ("blocks.txt", "x|7731\n", "blocks.txt: expected as many values between pipes"),
    ],
)
def test_a_bad_line_is_refused(file, text, sentence, small_frames, write_cef, spark, tmp_path):
    path = write_cef(tmp_path, small_frames)
    with (tmp_path / file).open("a") as stream:
        stream.write(text)
    with pytest.raises(DataError) as caught:
        load(path, spark)
    assert sentence in str(caught.value)
    assert "7731" not in str(caught.value)


def test_a_missing_file_is_refused(small_frames, write_cef, spark, tmp_path):
    path = write_cef(tmp_path, small_frames)
    (tmp_path / "units.txt").unlink()
    with pytest.raises(DataError) as caught:
        load(path, spark)
    assert "units.txt: expected files that every Spark worker can see" in str(caught.value)


def rows_of(path, engine):
    return {name: sorted(engine.fetch(table).to_pylist(), key=str) for name, table in load(path, engine).tables.items()}


@pytest.mark.parametrize("entry", ["units", "units/*.gz", "units/[01].txt.gz"])
def test_globs_folders_gzip_and_padded_blocks_are_read_as_on_duckdb(
    entry, small_frames, write_cef, spark, duck, tmp_path
):
    path = write_cef(tmp_path, small_frames)
    whole = rows_of(path, duck)
    lines = (tmp_path / "units.txt").read_text().splitlines(keepends=True)
    (tmp_path / "units").mkdir()
    for i, part in enumerate((lines[:100], lines[100:])):
        (tmp_path / "units" / f"{i}.txt.gz").write_bytes(gzip.compress("".join(part).encode()))
    (tmp_path / "units" / "_SUCCESS").touch()
    blocks = (tmp_path / "blocks.txt").read_text().splitlines()
    (tmp_path / "blocks.txt").write_text(
        "\n".join([blocks[0], *(b.replace("x|", "x|0", 1) for b in blocks[1:])]) + "\n"
    )
    path.write_text(f'units = "{entry}"\npersons = "persons.txt"\ngeo = "blocks.txt"\n')
    assert rows_of(path, spark) == rows_of(path, duck) == whole


@pytest.mark.parametrize("name", ["_2.txt", ".2.txt", "2.TXT"])
@pytest.mark.parametrize("seen", [True, False], ids=["on this machine", "elsewhere"])
def test_names_that_a_glob_would_lose_are_refused(small_frames, write_cef, spark, tmp_path, monkeypatch, name, seen):
    path = write_cef(tmp_path, small_frames)
    (tmp_path / "units").mkdir()
    (tmp_path / "units.txt").rename(tmp_path / "units" / "1.txt")
    (tmp_path / "units" / name).write_text("x")
    path.write_text('units = "units/*.txt"\npersons = "persons.txt"\ngeo = "blocks.txt"\n')
    if not seen:
        monkeypatch.setattr("phsafe.readers.spark_tables._local_names", lambda folder: [])
    with pytest.raises(DataError) as caught:
        load(path, spark)
    assert "expected no name that differs from the glob only in case" in str(caught.value)
    assert name in str(caught.value) or not seen
