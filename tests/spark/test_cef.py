"""The Census Edited File on Spark: the same tables as on DuckDB, and the same refusals."""

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
