"""No part of the input is lost without notice: each file is read or refused by name, on both engines."""

import shutil

import polars as pl
import pytest

import phsafe
from phsafe import tabulate
from phsafe.errors import DataError
from phsafe.pipeline.scan import open_source
from phsafe.readers import load

pytestmark = pytest.mark.needs("java")


@pytest.fixture
def parts(small_frames, tmp_path):
    """The small dataset with California in a part of its own, which has the given name."""

    def write(name: str):
        folder = tmp_path / "data"
        keys = small_frames["geo"].filter(TABBLKST="06")["MAFID"].to_list()
        for table, frame in small_frames.items():
            inside = pl.col("MAFID").is_in(keys)
            place = folder / table / (name if table == "persons" else "06.parquet")
            place.parent.mkdir(parents=True, exist_ok=True)
            frame.filter(inside).write_parquet(place)
            frame.filter(~inside).write_parquet(folder / table / "others.parquet")
        return folder

    return write


@pytest.fixture(params=["duckdb", "spark"])
def options(request):
    return None if request.param == "duckdb" else request.getfixturevalue("spark_options")


READ = ["06.parquet", "06.PARQUET", "06.parq", "state=06/x.parquet", "a=1/b=2/x.parquet", "06 (1).parquet"]
#: Folder names that look like columns of the table with wrong values.
LIKE_COLUMNS = ["RTYPE=5/x.parquet", "MAFID=1/QAGE=3/x.parquet", "SHOE=42/x.parquet"]
REFUSED = [
    "_06.parquet", ".06.parquet", "06.parquet.tmp", "06", "06.csv", "06.parquet.gz", "late/06.parquet",
    "_late/06.parquet", ".late/06.parquet", "_temporary/0/06.parquet", "state=06/_x.parquet", "_x=1/06.parquet",
    "_SUCCESS.parquet", "_metadata/06.parquet", "_SUCCESS", "06.parquet._COPYING_", "_delta_log/06.parquet",
]  # fmt: skip


@pytest.mark.parametrize("name", [*READ, *LIKE_COLUMNS])
def test_a_part_is_read_and_folder_names_are_no_columns(us, small, parts, options, name):
    data = parts(name)
    assert tabulate(us, data, options=options).equals(tabulate(us, small))
    with open_source(data, options) as source:
        assert source.tables().extra == {}


@pytest.mark.parametrize("name", REFUSED)
def test_a_part_is_refused_by_name(us, parts, options, name):
    data = parts(name)
    with pytest.raises(DataError) as caught:
        tabulate(us, data, options=options, allow_empty_states=True, skip_validation=True)
    assert f"{data}/persons/{name}: expected" in str(caught.value)


@pytest.mark.parametrize("name", REFUSED)
def test_spark_finds_hidden_names_that_only_its_workers_see(us, parts, spark, name, monkeypatch):
    """As on a cluster's own file system."""
    monkeypatch.setattr("phsafe.readers.spark_tables._local_names", lambda folder: [])
    data = parts(name)
    with pytest.raises(DataError) as caught:
        load(data, spark)
    hidden = any(word[0] in "_." or word.endswith("_COPYING_") for word in name.split("/"))
    assert ("name that Spark skips" in str(caught.value)) == hidden
    assert hidden or f"persons/{name}: expected only Parquet files" in str(caught.value)


MARKERS = ["_SUCCESS", "_committed_123", "_started_123", ".06.parquet.crc", "._SUCCESS.crc"]


def test_markers_of_writers_are_ignored(us, small, parts, options):
    data = parts("state=06/x.parquet")
    for folder in (data, data / "persons", data / "persons" / "state=06"):
        for name in MARKERS:
            (folder / name).write_text("")
    assert tabulate(us, data, options=options).equals(tabulate(us, small))


#: A file or folder beside the tables that may be a part of one.
STRAYS = [
    "persons.PARQUET", "Persons.csv", "persons-06.parquet", "persons.csv.bak", "06.parquet", "06.parquet.tmp",
    "state=06/persons.parquet", "late/06.parquet", "_persons.csv", ".units.csv", "_late/units.csv", "units_2/x.csv",
]  # fmt: skip


@pytest.mark.parametrize("name", STRAYS)
def test_what_may_be_a_part_beside_the_tables_is_refused_by_name(us, small, tmp_path, options, name):
    data = shutil.copytree(small, tmp_path / "data")
    (data / name).parent.mkdir(exist_ok=True)
    (data / name).write_text("RTYPE,MAFID\n")
    with pytest.raises(DataError) as caught:
        tabulate(us, data, options=options)
    assert f"{data}/{name}: expected" in str(caught.value)


def test_other_files_beside_the_tables_are_ignored(us, small, tmp_path, options):
    data = shutil.copytree(small, tmp_path / "data")
    for name in ("PUBLIC", "README.md", "_SUCCESS", "geography.txt", "communities.csv"):
        (data / name).write_text("x")
    assert tabulate(us, data, options=options).equals(tabulate(us, small))


@pytest.mark.parametrize("second", ["persons/06.parquet", "persons.parquet", "persons.csv.gz"])
def test_a_table_in_two_forms_is_refused(us, small, small_frames, tmp_path, options, second):
    data = shutil.copytree(small, tmp_path / "data")
    (data / second).parent.mkdir(exist_ok=True)
    small_frames["persons"].write_parquet(data / second)
    with pytest.raises(DataError, match=rf"got persons\.csv and {second.split('/')[0]}"):
        tabulate(us, data, options=options)


def test_rules_apply_to_the_same_rows_on_both_engines(us, small_frames, tmp_path, options):
    """A damaged state outside of the filter, and control totals."""
    frames = dict(small_frames)
    keys = frames["geo"].filter(TABBLKST="06")["MAFID"].to_list()
    inside = pl.col("MAFID").is_in(keys)
    frames["geo"] = frames["geo"].with_columns(TABBLKST=pl.when(inside).then(pl.lit("72")).otherwise("TABBLKST"))
    frames["persons"] = frames["persons"].with_columns(RELSHIP=pl.when(inside).then(pl.lit("99")).otherwise("RELSHIP"))
    frames["units"] = frames["units"].with_columns(HHRACE=pl.when(inside).then(None).otherwise("HHRACE"))
    config = phsafe.Config.load(us)
    found = phsafe.validate(config, frames, options=options)
    assert {(f.rule, f.rows) for f in found.of("error")} == {("every state of the filter has housing units", 1)}
    assert found.states["06"] == {"persons": 0, "units": 0, "housing_units": 0, "households": 0}
    allowed = phsafe.validate(config, frames, options=options, allow_empty_states=True)
    assert allowed.ok
    assert allowed.states == phsafe.validate(config, frames, allow_empty_states=True).states
