import os
import shutil

import polars as pl
import pyarrow as pa
import pytest

from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import DataError, PHSafeError
from phsafe.readers import load, open_source

MARKER = "S3CRET"


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path, small):
    return shutil.copytree(small, tmp_path / "data", ignore=shutil.ignore_patterns("expected*"))


def reasons(data, engine):
    with pytest.raises(DataError) as caught:
        load(data, engine)
    assert MARKER not in str(caught.value)
    return caught.value.reasons


def test_canonical_tables(small, engine):
    tables = load(small, engine)
    assert [layout.name for layout, _ in tables] == ["persons", "units", "geo"]
    assert {name: str(kind) for name, kind in tables.persons.schema().items()} == {
        "RTYPE": "int32", "MAFID": "int32", "QAGE": "int32", "CENHISP": "int32", "CENRACE": "string",
        "RELSHIP": "string",
    }  # fmt: skip
    assert engine.fetch(tables.persons.aggregate(n=tables.persons.count())).to_pylist() == [{"n": 1785}]
    assert dict(tables.extra) == {}


def frame_forms(frame):
    yield frame
    yield frame.lazy()
    yield frame.to_arrow()
    yield frame.to_pandas()
    yield frame.sample(fraction=1, shuffle=True, seed=1).to_pandas().sample(frac=1, random_state=2)
    yield frame.to_arrow().to_batches()[0]
    yield frame.to_arrow().to_reader()
    yield frame.to_dict(as_series=False)
    yield frame.with_columns(pl.all().cast(pl.Categorical))


def test_frames_of_every_library(small_frames, engine):
    for frame in frame_forms(small_frames["geo"]):
        geo = load(small_frames | {"geo": frame}, engine).geo
        found = engine.fetch(
            geo.aggregate(n=geo.count(), mafid=geo.MAFID.sum(), states=geo.TABBLKST.nunique())
        )
        expected = small_frames["geo"]
        assert found.to_pylist() == [
            {"n": 400, "mafid": expected["MAFID"].cast(int).sum(), "states": expected["TABBLKST"].n_unique()}
        ]


@pytest.mark.parametrize("frame", [None, 3, [1], "persons", object()])
def test_what_is_no_frame(small_frames, engine, frame):
    (reason,) = reasons(small_frames | {"geo": frame}, engine)
    assert reason.startswith("geo: expected an Arrow, Polars or pandas frame")


def test_a_frame_that_fails_shows_no_value(small_frames, engine):
    (reason,) = reasons(small_frames | {"geo": {"RTYPE": [1, MARKER], "MAFID": [object()]}}, engine)
    assert reason.startswith("geo: expected")


def test_all_missing_frames(engine):
    assert len(reasons({}, engine)) == 3


def test_every_problem_at_once(folder, engine):
    (folder / "persons.csv").unlink()
    units = pl.read_csv(folder / "units.csv", infer_schema=False)
    units.drop("TEN").with_columns(pl.col("HHRACE").cast(int)).write_parquet(folder / "units.parquet")
    (folder / "units.csv").unlink()
    (folder / "geo.csv").write_bytes(MARKER.encode() + b"\xff\n")
    assert reasons(folder, engine) == (
        f"{folder}: expected persons.csv, persons.parquet or a folder persons with Parquet files, got none of them",
        "units: column TEN is missing",
        "units: expected column HHRACE as text with its leading zeros, got int64",
        f"{folder / 'geo.csv'}: expected CSV text in UTF-8 with a header line, got other bytes",
    )


@pytest.mark.parametrize("second", ["geo.parquet", "geo", "geo.csv.gz"])
def test_a_table_in_two_forms(folder, engine, second):
    (folder / second).mkdir()
    (reason,) = reasons(folder, engine)
    assert reason.endswith(f"got geo.csv and {second}")


def test_no_folder(folder, engine):
    assert reasons(folder / "none", engine)[0].endswith("got nothing there")
    assert reasons(folder / "geo.csv", engine)[0].endswith("got a file")


def test_a_folder_in_a_file_s_place(folder, engine):
    (folder / "geo.csv").unlink()
    (folder / "geo.csv").mkdir()
    assert "Is a directory" in reasons(folder, engine)[0]


def test_a_file_that_may_not_be_read(folder, powerless):
    (folder / "geo.csv").chmod(0)
    code = "import sys; from phsafe.readers import open_source; open_source(sys.argv[1]).__enter__()"
    assert "geo.csv: can't read the file: Permission denied" in powerless(code, folder)


def test_a_path_that_is_not_utf_8(folder, engine):
    odd = folder.rename(os.fsdecode(os.fsencode(folder.parent) + b"/\xff"))
    assert "expected a path in UTF-8" in reasons(odd, engine)[0]


def test_columns_in_a_path_are_not_read(folder, engine, small_frames):
    """Other readers make a column of a folder named KEY=value."""
    data = folder.parent / "TABBLKST=44" / "RTYPE=5"
    data.parent.mkdir()
    folder.rename(data)
    geo = load(data, engine).geo
    assert engine.fetch(geo.aggregate(n=geo.TABBLKST.nunique())).to_pylist() == [
        {"n": small_frames["geo"]["TABBLKST"].n_unique()}
    ]


def test_unknown_columns_are_left_out_and_counted(small_frames, engine):
    wider = small_frames["geo"].with_columns(X=pl.lit("1"), Y=pl.lit(2))
    tables = load(small_frames | {"geo": wider}, engine)
    assert "X" not in tables.geo.columns
    assert tables.extra == {"geo": 2}


def test_a_source_is_open_until_its_context_ends(folder):
    with open_source(folder) as source:
        geo = source.tables().geo
        assert source.engine.fetch(geo).num_rows
    with pytest.raises(PHSafeError):
        source.engine.fetch(geo)


def test_a_source_that_can_t_be_opened_leaves_nothing_behind(folder, tmp_path):
    (folder / "geo.csv").unlink()
    (tmp_path / "scratch").mkdir()
    source = open_source(folder, EngineOptions(temp_dir=tmp_path / "scratch"))
    with pytest.raises(DataError), source:
        pass
    assert not list((tmp_path / "scratch").iterdir())


def test_an_arrow_table_of_nothing(small_frames, engine):
    empty = pa.table({name: pa.array([], pa.string()) for name in small_frames["geo"].columns})
    geo = load(small_frames | {"geo": empty}, engine).geo
    assert engine.fetch(geo).num_rows == 0
