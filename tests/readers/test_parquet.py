import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import DataError
from phsafe.readers import parquet


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


def values(engine, path):
    return sorted(engine.fetch(parquet.read(path, engine))["A"].to_pylist())


def test_one_file_and_a_folder(engine, tmp_path):
    frame = pl.DataFrame({"A": ["1", "2"]})
    frame.write_parquet(tmp_path / "x.parquet")
    folder = tmp_path / "x"
    folder.mkdir()
    for i in range(2):
        frame[i : i + 1].write_parquet(folder / f"{i}.parquet")
    (folder / "README.txt").write_text("not a table")
    assert values(engine, tmp_path / "x.parquet") == values(engine, folder) == ["1", "2"]


def test_texts_are_one_type_however_they_are_stored(engine, tmp_path):
    for i, kind in enumerate((pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))):
        pq.write_table(pa.table({"A": pa.array([str(i)], kind)}), tmp_path / f"{i}.parquet")
    assert values(engine, tmp_path) == ["0", "1", "2"]


@pytest.mark.parametrize("other", [{"A": [1]}, {"B": ["1"]}, {"A": ["1"], "B": ["1"]}], ids=["type", "name", "more"])
def test_files_that_differ_are_named(engine, tmp_path, other):
    pl.DataFrame({"A": ["1"]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame(other).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet: expected the same columns and types as in 1\.parquet"):
        parquet.read(tmp_path, engine)


def test_every_file_that_is_none_is_named(engine, tmp_path):
    pl.DataFrame({"A": ["1"]}).write_parquet(tmp_path / "2.parquet")
    (tmp_path / "1.parquet").write_bytes(b"PAR1 S3CRET")
    (tmp_path / "3.parquet").mkdir()
    with pytest.raises(DataError) as caught:
        parquet.read(tmp_path, engine)
    assert [reason.split(": ")[0][-9:] for reason in caught.value.reasons] == ["1.parquet", "3.parquet"]
    assert "S3CRET" not in str(caught.value)


def test_an_empty_folder(engine, tmp_path):
    with pytest.raises(DataError, match="got none"):
        parquet.read(tmp_path, engine)
