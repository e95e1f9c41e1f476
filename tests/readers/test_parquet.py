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
    assert values(engine, tmp_path / "x.parquet") == values(engine, folder) == ["1", "2"]


def test_all_string_types_are_the_same_type(engine, tmp_path):
    for i, dtype in enumerate((pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))):
        pq.write_table(pa.table({"A": pa.array([str(i)], dtype)}), tmp_path / f"{i}.parquet")
    assert values(engine, tmp_path) == ["0", "1", "2"]


@pytest.mark.parametrize("other", [{"A": [1]}, {"B": ["1"]}, {"A": ["1"], "B": ["1"]}], ids=["type", "name", "more"])
def test_files_with_different_columns_are_reported(engine, tmp_path, other):
    pl.DataFrame({"A": ["1"]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame(other).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match=r"2\.parquet: expected the same columns and types as in 1\.parquet"):
        parquet.read(tmp_path, engine)


def test_every_unreadable_file_is_reported(engine, tmp_path):
    pl.DataFrame({"A": ["1"]}).write_parquet(tmp_path / "2.parquet")
    (tmp_path / "1.parquet").write_bytes(b"PAR1 S3CRET")
    (tmp_path / "3.parquet").mkdir()
    with pytest.raises(DataError) as caught:
        parquet.read(tmp_path, engine)
    assert [reason.split(": ")[0][-9:] for reason in caught.value.reasons] == ["1.parquet", "3.parquet"]
    assert "S3CRET" not in str(caught.value)


def read_part(name, engine, tmp_path):
    """A table of two parts, the second of which has the given name."""
    folder = tmp_path / "persons"
    (folder / name).parent.mkdir(parents=True)
    pl.DataFrame({"A": ["1"]}).write_parquet(folder / "01.parquet")
    pl.DataFrame({"A": ["2"]}).write_parquet(folder / name)
    return values(engine, folder)


@pytest.mark.parametrize("name", ["06.parquet", "06.PARQUET", "06.parq", "state=06/x.parquet", "a=1/b=%20/x.parquet"])
def test_every_part_is_read(engine, tmp_path, name):
    assert sorted(read_part(name, engine, tmp_path)) == ["1", "2"]


@pytest.mark.parametrize(
    "name", ["_06.parquet", ".06.parquet", "06.parquet.tmp", "06", "late/06.parquet", "_temporary/06.parquet", "06.csv"]
)
def test_no_file_is_skipped(engine, tmp_path, name):
    with pytest.raises(DataError) as caught:
        read_part(name, engine, tmp_path)
    (reason,) = caught.value.reasons
    assert reason.startswith(f"{tmp_path / 'persons' / name}: expected only Parquet files named *.parquet")


def test_a_linked_folder_and_an_empty_one_are_reported(engine, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    pl.DataFrame({"A": ["2"]}).write_parquet(tmp_path / "elsewhere" / "06.parquet")
    folder = tmp_path / "persons"
    (folder / "state=02").mkdir(parents=True)
    pl.DataFrame({"A": ["1"]}).write_parquet(folder / "01.parquet")
    (folder / "state=06").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError) as caught:
        values(engine, folder)
    assert [reason.split(": ")[0][-8:] for reason in caught.value.reasons] == ["state=02", "state=06"]


def test_markers_of_writers_hold_no_records(engine, tmp_path):
    pl.DataFrame({"A": ["1"]}).write_parquet(tmp_path / "01.parquet")
    for name in ("_SUCCESS", "_metadata", "_common_metadata", ".01.parquet.crc", "._SUCCESS.crc"):
        (tmp_path / name).write_bytes(b"x")
    assert values(engine, tmp_path) == ["1"]


def test_only_the_first_ten_files_are_named(engine, tmp_path):
    for i in range(25):
        (tmp_path / f"{i:02}.tmp").touch()
    with pytest.raises(DataError) as caught:
        values(engine, tmp_path)
    assert len(caught.value.reasons) == 11 and caught.value.reasons[-1].endswith("15 more such files")


def test_an_empty_folder(engine, tmp_path):
    with pytest.raises(DataError, match="got none"):
        parquet.read(tmp_path, engine)
