"""Reading on Spark: the same input is read or refused as on DuckDB, and no record is ever quoted."""

import gzip
import logging

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from phsafe import tabulate
from phsafe.counting.encode import ColumnEncoder
from phsafe.counting.records import RecordFormat
from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import DataError
from phsafe.model.schema import PERSONS
from phsafe.readers import load
from phsafe.readers.column_check import plain_type

pytestmark = pytest.mark.needs("java")
MARKER = "S3CRET"
GOOD = "".join(f"{i},x{i}\n" for i in range(300)).encode()


def rows(engine, path):
    """All records of a CSV file, sorted."""
    from phsafe.readers import delimited

    if engine.storage is None:
        table = delimited.read(path, engine)
    else:
        address = engine.storage.address(path)
        header = delimited.header(address, engine.storage.first_line(address))
        table = engine.read_csv(address, header, gzip=path.suffix == ".gz")
    return sorted(engine.fetch(table).to_pylist(), key=str)


READ = {
    "plain": b"A,B\n1,x\n2,y\n",
    "mark": b"\xef\xbb\xbfA,B\n1,x\n",
    "crlf": b"A,B\r\n1,x\r\n2,y\r\n",
    "blank lines": b"A,B\n1,x\n\n\n",
    "no last line end": b"A,B\n1,x",
    "no rows": b"A,B\n",
    "no rows, no end": b"A,B",
    "quotes": b'"A","B"\n"1","a,b"\n2,"a ""b"""\n"""",""""""\n',
    "empty fields": b'A,B\n1,\n,2\n"",""\n',
    "zeros and spaces": b"A,B\n007, 0 \n\t, \n",
    "special characters": "A,B\n'a,|\n\\,\\n\né,\u2028\u0085x\n#,;\n".encode(),
    "only the header's names": b"A,B\n1,A\nA,1\n",
}


@pytest.mark.parametrize("form", READ)
def test_csv_is_read_as_on_duckdb(spark, duck, tmp_path, form):
    (tmp_path / "x.csv").write_bytes(READ[form])
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(READ[form]))
    expected = rows(duck, tmp_path / "x.csv")
    assert rows(spark, tmp_path / "x.csv") == expected
    assert rows(spark, tmp_path / "x.csv.gz") == expected


REFUSED = {
    "few": f"{MARKER}\n".encode(),
    "many": f"1,2,{MARKER}\n".encode(),
    "utf8": f"1,{MARKER}".encode() + b"\xff\xfe\n",
    "open quote": f'1,"{MARKER}\n'.encode(),
    "quote": f'1,"{MARKER}"x"\n'.encode(),
    "quote inside": f'1,{MARKER}"x\n'.encode(),
    "crlf among lf": f"1,{MARKER}\r\n".encode(),
    "cr among lf": f"1,{MARKER}\r".encode(),
    "line end in a value": f'1,"{MARKER}\nx"\n'.encode(),
    "null character": f"1,{MARKER}\x00\n".encode(),
    "header again": f"A,B\n1,{MARKER}\n".encode(),
}


@pytest.mark.parametrize("form", REFUSED)
def test_bad_lines_are_refused_and_never_quoted(spark, tmp_path, form, capfd, caplog):
    path = tmp_path / "persons.csv"
    path.write_bytes(b"A,B\n" + GOOD + REFUSED[form] + GOOD)
    with caplog.at_level(logging.DEBUG), pytest.raises(DataError) as caught:
        rows(spark, path)
    assert str(caught.value).startswith(f"file://{path}: expected CSV in UTF-8")
    printed = capfd.readouterr()
    assert MARKER not in f"{caught.value}{printed.out}{printed.err}{caplog.text}"
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected a header line"),
        (f"{MARKER},{MARKER}\n".encode(), "every column name once"),
        (MARKER.encode() + b"\xff,B\n", "UTF-8"),
        (f'"{MARKER}\n'.encode(), "UTF-8"),
        (f"A,B\r1,{MARKER}\r".encode(), "UTF-8"),
    ],
)
def test_headers_that_are_none(spark, tmp_path, content, words):
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(DataError, match=words) as caught:
        rows(spark, tmp_path / "x.csv")
    assert MARKER not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["a*b", "[ab]", "a?b", "a{b,c}", "a b", "%20", "a#b", "é", "A=5", "a:b", "a\\b", "a'b"]
)
def test_special_characters_in_paths_are_literal(spark, tmp_path, name):
    for folder, value in ((tmp_path / name, "right"), (tmp_path / "axb", "wrong"), (tmp_path / "b", "wrong")):
        folder.mkdir(exist_ok=True)
        (folder / "p.csv").write_text(f"A,B\n3,{value}\n")
        pl.DataFrame({"A": ["3"], "B": [value]}).write_parquet(folder / "p.parquet")
    right = [{"A": "3", "B": "right"}]
    assert rows(spark, tmp_path / name / "p.csv") == right
    assert spark.fetch(spark.read_parquet([tmp_path / name / "p.parquet"])).to_pylist() == right
    assert set(spark.storage.files(spark.storage.address(tmp_path / name))) == {"p.csv", "p.parquet"}


def test_parquet_parts(spark, tmp_path):
    pl.DataFrame({"A": ["1"], "B": ["x"]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"B": ["y"], "A": ["2"]}).write_parquet(tmp_path / "2.parquet")
    both = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    found = spark.fetch(spark.read_parquet(both)).to_pylist()
    assert sorted(found, key=str) == [{"A": "1", "B": "x"}, {"A": "2", "B": "y"}]
    pl.DataFrame({"A": [2], "B": ["x"]}).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match="same columns and types"):
        spark.read_parquet(both)
    pl.DataFrame({"A": ["2"], "B": ["x"], "C": [1]}).write_parquet(tmp_path / "2.parquet")
    with pytest.raises(DataError, match="same columns and types"):
        spark.read_parquet(both)


def test_damaged_parquet(spark, tmp_path, capfd):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"A": [f"{MARKER}{i}" for i in range(20_000)]}).write_parquet(path)
    content = bytearray(path.read_bytes())
    content[100:-5000:7] = b"U" * len(content[100:-5000:7])
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        spark.fetch(spark.read_parquet([path]))
    assert str(caught.value).startswith(f"file://{path}: ")
    assert MARKER not in str(caught.value) + "".join(capfd.readouterr())
    path.write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="can't be read"):
        spark.read_parquet([path])


def test_parquet_text_that_is_not_utf_8_is_refused(us, spark_options, small_frames, tmp_path):
    for name, frame in small_frames.items():
        frame.write_parquet(tmp_path / f"{name}.parquet")
    persons = small_frames["persons"].to_arrow()
    values = persons["RELSHIP"].cast(pa.binary()).to_pylist()
    values[7] = b"\xff" + MARKER.encode()
    texts = pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())
    index = persons.schema.get_field_index("RELSHIP")
    pq.write_table(persons.set_column(index, "RELSHIP", texts), tmp_path / "persons.parquet")
    for options in (None, spark_options):
        with pytest.raises(DataError) as caught:
            tabulate(us, tmp_path, options=options, skip_validation=True)
        assert len(str(caught.value).splitlines()) == 1
        assert MARKER not in str(caught.value)
    assert str(caught.value) == "the input: expected text in UTF-8, got other bytes"


def test_a_repeated_column_is_refused_by_both_engines(engine, small_frames):
    persons = small_frames["persons"].to_arrow()
    twice = persons.append_column("QAGE", persons["QAGE"])
    with pytest.raises(DataError, match="expected column QAGE once, got it more than once"):
        load(small_frames | {"persons": twice}, engine)


def test_frames_of_every_type_are_read_as_on_duckdb(spark, duck):
    frame = pa.table(
        {
            "small": pa.array([1, None], pa.uint8()),
            "large": pa.array([2**63, 7], pa.uint64()),
            "text": pa.array(["01", None], pa.large_string()),
            "view": pa.array(["01", ""], pa.string_view()),
            "coded": pa.array(["a", None]).dictionary_encode(),
            "wide": pa.array([2**40, -1], pa.int64()),
        }
    )
    texts, numbers = ("text", "view", "coded"), ("small", "large", "wide")
    age, race = (ColumnEncoder(PERSONS[name], RecordFormat.of(PERSONS, ("CENHISP",))) for name in ("QAGE", "CENRACE"))
    found = {}
    for engine in (duck, spark):
        table = engine.read_arrow(frame)
        dtypes = {column.name: plain_type(column.type) for column in table.schema}
        assert all(dtypes[name] == pa.string() for name in texts)
        assert all(pa.types.is_integer(dtypes[name]) for name in numbers)
        columns = engine.fetch(table).combine_chunks().to_batches()[0]
        read = {name: age.readable(columns[name]) for name in numbers}
        read |= {name: race.readable(columns[name]) for name in texts}
        found[engine] = {name: values.to_pylist() for name, values in read.items()}
    assert found[spark] == found[duck]
    assert found[spark]["large"] == [None, 7]


def test_tables_of_every_type_are_counted_as_on_duckdb(spark_options, us, small_frames):
    persons = small_frames["persons"].to_arrow()
    dtypes = {
        "RTYPE": pa.uint8(), "MAFID": pa.uint32(), "QAGE": pa.uint64(), "CENHISP": pa.int8(),
        "CENRACE": pa.large_string(), "RELSHIP": pa.dictionary(pa.int32(), pa.string()),
    }  # fmt: skip
    columns = {name: persons[name].cast(pa.string()).cast(pa.int64()) for name in ("RTYPE", "MAFID", "QAGE", "CENHISP")}
    columns |= {"CENRACE": persons["CENRACE"].cast(pa.string()), "RELSHIP": persons["RELSHIP"].cast(pa.string())}
    persons = pa.table({name: column.cast(dtypes[name]) for name, column in columns.items()})
    found = tabulate(us, small_frames | {"persons": persons}, options=spark_options)
    assert found.equals(tabulate(us, small_frames))


def forms(folder, frames, how):
    """Write the small dataset in one of the forms that a folder may have."""
    for name, frame in frames.items():
        if how == "csv.gz":
            (folder / f"{name}.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
        elif how == "parquet":
            frame.write_parquet(folder / f"{name}.parquet")
        elif how == "parts":
            (folder / name).mkdir()
            for i, part in enumerate(frame.iter_slices(100)):
                part.write_parquet(folder / name / f"{i}.parquet")
            (folder / name / "_SUCCESS").touch()
    return folder


@pytest.mark.parametrize("how", ["csv.gz", "parquet", "parts"])
def test_every_form_of_a_folder(engine, small_frames, tmp_path, how):
    tables = load(forms(tmp_path, small_frames, how), engine)
    counted = {name: engine.fetch(table).num_rows for name, table in tables.tables.items()}
    assert counted == {name: frame.height for name, frame in small_frames.items()}


def test_problems_of_a_folder_are_reported_together(spark, small_frames, tmp_path):
    small_frames["persons"].write_csv(tmp_path / "persons.csv")
    small_frames["persons"].write_parquet(tmp_path / "persons.parquet")
    small_frames["geo"].drop("MAFID").write_csv(tmp_path / "geo.csv")
    with pytest.raises(DataError) as caught:
        load(tmp_path, spark)
    printed = str(caught.value)
    assert "got persons.csv and persons.parquet" in printed
    assert "expected units.csv, units.parquet or a folder units" in printed
    assert "column MAFID is missing" in printed


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("file:///no/such/folder", "got none"),
        ("s3a://bucket/census", "doesn't support this file system"),
        ("odd+scheme://x/y", "doesn't support this file system"),
        ("hdfs://127.0.0.1:9/census", "can't reach"),
        ("hdfs://no-such-host.invalid:8020/census", "can't reach"),
    ],
)
def test_unreadable_addresses_are_refused(spark, address, words):
    with pytest.raises(DataError, match=words) as caught:
        load(address, spark)
    assert str(caught.value).startswith(f"{address}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_instead_of_a_folder_is_refused(spark, tmp_path):
    (tmp_path / "x").write_text("x")
    with pytest.raises(DataError, match="expected a folder"):
        load(tmp_path / "x", spark)


def test_a_folder_without_permission_is_refused(spark, tmp_path, monkeypatch):
    """Simulated, because tests may run as root, who can read anything."""
    from pyspark.errors import AnalysisException

    def refuse(*_):
        raise AnalysisException("org.apache.hadoop.security.AccessControlException: Permission denied: file x")

    monkeypatch.setattr("pyspark.sql.readwriter.DataFrameReader.load", refuse)
    with pytest.raises(DataError, match="no permission to read it") as caught:
        load(tmp_path, spark)
    assert str(caught.value).startswith(f"file://{tmp_path}: ")


def test_only_spark_reads_addresses(duck):
    with pytest.raises(DataError, match="only Spark can read this URI"):
        load("hdfs://node/census", duck)


def test_the_caller_s_session_is_restored(spark_options, small):
    session = spark_options.session
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = {row.key: row.value for row in session.sql("SET").collect()}
    views = session.sql("SHOW VIEWS").count()
    with open_engine(EngineOptions("spark", session=session)) as engine:
        assert session.conf.get("spark.sql.ansi.enabled") == "true"
        load(small, engine)
        assert session.sql("SHOW VIEWS").count() > views
    assert {row.key: row.value for row in session.sql("SET").collect()} == before
    assert session.sql("SHOW VIEWS").count() == views
    session.conf.unset("spark.sql.ansi.enabled")
    session.conf.unset("spark.sql.session.timeZone")
