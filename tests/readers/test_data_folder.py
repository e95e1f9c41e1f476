import os
import shutil

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from phsafe import tabulate, validate
from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import DataError, PHSafeError
from phsafe.pipeline.scan import open_source
from phsafe.readers import load

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


def geo_of(data, engine):
    """The rows of geo, with all values as text."""
    return pl.DataFrame(engine.fetch(load(data, engine).tables["geo"])).cast(pl.String)


def test_a_folder_of_csv_files(small, small_frames, engine):
    tables = load(small, engine)
    assert [*tables.tables] == ["persons", "units", "geo"]
    for name, frame in small_frames.items():
        assert tables.tables[name].schema == pa.schema([(column, pa.string()) for column in frame.columns])
        rows = pl.DataFrame(engine.fetch(tables.tables[name]))
        assert rows.sort(rows.columns).equals(frame.sort(frame.columns))
    assert dict(tables.extra) == {}


FORMS = {
    "Polars": lambda frame: frame,
    "lazy Polars": lambda frame: frame.lazy(),
    "Polars categories": lambda frame: frame.with_columns(pl.exclude("MAFID").cast(pl.Categorical)),
    "Polars categories as keys": lambda frame: frame.with_columns(pl.all().cast(pl.Categorical)),
    "Arrow": lambda frame: frame.to_arrow(),
    "Arrow batch": lambda frame: frame.to_arrow().to_batches()[0],
    "Arrow reader": lambda frame: frame.to_arrow().to_reader(),
    "Arrow categories": lambda frame: frame.with_columns(pl.all().cast(pl.Categorical)).to_arrow(),
    "pandas": lambda frame: frame.to_pandas(),
    "pandas, shuffled": lambda frame: frame.to_pandas().sample(frac=1, random_state=2),
    "lists": lambda frame: frame.to_dict(as_series=False),
}


@pytest.mark.parametrize("form", FORMS)
def test_frames_of_every_library(small_frames, engine, form):
    expected = small_frames["geo"].sort("MAFID")
    geo = geo_of(small_frames | {"geo": FORMS[form](expected)}, engine)
    assert geo.select(expected.columns).sort("MAFID").equals(expected)


@pytest.mark.parametrize("form", FORMS)
def test_frames_of_every_library_give_the_same_counts(small_frames, us, form):
    given = small_frames | {"geo": FORMS[form](small_frames["geo"])}
    assert tabulate(us, given).equals(tabulate(us, small_frames))


@pytest.mark.parametrize("frame", [None, 3, [1], "persons", object()])
def test_objects_that_are_not_frames_are_refused(small_frames, engine, frame):
    (reason,) = reasons(small_frames | {"geo": frame}, engine)
    assert reason.startswith("geo: expected an Arrow, Polars or pandas frame")


def test_a_bad_frame_is_refused_without_quoting_values(small_frames, engine):
    (reason,) = reasons(small_frames | {"geo": {"RTYPE": [1, MARKER], "MAFID": [object()]}}, engine)
    assert reason.startswith("geo: expected")


def test_every_missing_frame_is_reported(engine):
    assert len(reasons({}, engine)) == 3


def test_problems_of_all_tables_are_reported_together(folder, engine):
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
def test_a_table_in_two_forms_is_refused(folder, engine, second):
    (folder / second).mkdir()
    (reason,) = reasons(folder, engine)
    assert reason.endswith(f"got geo.csv and {second}")


def test_a_missing_folder_is_refused(folder, engine):
    assert reasons(folder / "none", engine)[0].endswith("got a path that doesn't exist")
    assert reasons(folder / "geo.csv", engine)[0].endswith("got a file")


def test_a_folder_named_like_a_file_is_refused(folder, engine):
    (folder / "geo.csv").unlink()
    (folder / "geo.csv").mkdir()
    assert "Is a directory" in reasons(folder, engine)[0]


def test_an_unreadable_file_is_refused(folder, powerless):
    (folder / "geo.csv").chmod(0)
    code = "import sys; from phsafe.pipeline.scan import open_source; open_source(sys.argv[1]).__enter__()"
    assert "geo.csv: can't read the file: Permission denied" in powerless(code, folder)


def test_a_path_that_is_not_utf_8_is_refused(folder, engine):
    renamed = folder.rename(os.fsdecode(os.fsencode(folder.parent) + b"/\xff"))
    assert "expected a path in UTF-8" in reasons(renamed, engine)[0]


def test_folder_names_do_not_become_columns(folder, engine, small_frames):
    """Other readers turn a folder named KEY=value into a column."""
    data = folder.parent / "TABBLKST=44" / "RTYPE=5"
    data.parent.mkdir()
    folder.rename(data)
    assert geo_of(data, engine).sort("MAFID").equals(small_frames["geo"].sort("MAFID"))


def test_extra_columns_are_ignored_and_counted(small_frames, engine, us):
    wider = small_frames["geo"].with_columns(X=pl.lit("1"), Y=pl.lit(2)).select(pl.all().reverse())
    given = small_frames | {"geo": wider}
    assert load(given, engine).extra == {"geo": 2}
    assert tabulate(us, given).equals(tabulate(us, small_frames))
    (extra,) = (f for f in validate(us, given).findings if f.rule == "every column is in the layout")
    assert (extra.severity, extra.table, extra.rows) == ("warning", "geo", 2)


def test_a_source_is_open_until_its_context_ends(folder):
    with open_source(folder) as source:
        geo = source.tables().tables["geo"]
        assert source.engine.fetch(geo).num_rows
    with pytest.raises(PHSafeError):
        source.engine.fetch(geo)


def test_a_source_that_cannot_be_opened_leaves_no_files(folder, tmp_path):
    (folder / "geo.csv").unlink()
    (tmp_path / "scratch").mkdir()
    source = open_source(folder, EngineOptions(temp_dir=tmp_path / "scratch"))
    with pytest.raises(DataError), source:
        pass
    assert not list((tmp_path / "scratch").iterdir())


def test_empty_tables(small_frames, engine, us):
    empty = pa.table({name: pa.array([], pa.string()) for name in small_frames["geo"].columns})
    assert geo_of(small_frames | {"geo": empty}, engine).height == 0
    empty_frames = {name: frame.head(0) for name, frame in small_frames.items()}
    assert tabulate(us, empty_frames, allow_empty_states=True)["COUNT"].sum() == 0


@pytest.mark.parametrize("dtype", [pa.string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("form", ["frame", "parquet"])
def test_text_that_is_not_utf_8_is_refused_and_never_quoted(small_frames, us, tmp_path, form, dtype):
    """Arrow doesn't check them by default, and Python's error would quote them."""
    texts = [MARKER.encode() + b"\xff"] * small_frames["geo"].height
    bad = pa.array(texts, pa.binary() if dtype == pa.string() else pa.binary_view()).view(dtype)
    for column in ("TABBLKST", "MAFID", "TABTRACTCE"):
        geo = small_frames["geo"].to_arrow()
        data = small_frames | {"geo": geo.set_column(geo.schema.names.index(column), column, bad)}
        if form == "parquet":
            data = written(data, tmp_path / column)
        with pytest.raises(DataError) as caught:
            validate(us, data)
        assert str(caught.value).startswith(f"{data / 'geo.parquet'}: can't be" if form == "parquet" else "geo: ")
        assert MARKER not in str(caught.value)


def written(frames, folder):
    folder.mkdir()
    for name, frame in frames.items():
        table = frame if isinstance(frame, pa.Table) else frame.to_arrow()
        pq.write_table(table, folder / f"{name}.parquet")
    return folder


@pytest.mark.parametrize("form", ["frame", "parquet"])
def test_a_repeated_column_is_refused(small_frames, engine, tmp_path, form):
    persons = small_frames["persons"].to_arrow()
    for column in ("RELSHIP", "MAFID"):
        data = small_frames | {"persons": persons.append_column(column, persons[column])}
        found = reasons(written(data, tmp_path / column) if form == "parquet" else data, engine)
        assert found == (f"persons: expected column {column} once, got it more than once",)
