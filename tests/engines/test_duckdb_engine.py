import gzip
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import DataError, PHSafeError
from phsafe.readers import delimited
from phsafe.readers import local_tables as local_engine
from phsafe.readers.duckdb_errors import MalformedTextError, translated

MARKER = "S3CRET"
GOOD = "".join(f"{i},x{i}\n" for i in range(3000)).encode()


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


def read(engine, path, header=("A", "B"), gzip=False):
    """The number of rows, of values of A, and of distinct values of B."""
    rows = pl.DataFrame(engine.fetch(engine.read_csv(path, list(header), gzip=gzip)))
    return rows.height, rows["A"].count(), rows["B"].drop_nulls().n_unique()


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (f"{MARKER}\n".encode(), 3002),
        (f"1,2,{MARKER}\n".encode(), 3002),
        (f"1,{MARKER}".encode() + b"\xff\xfe\n", 3002),
        (f'1,"{MARKER}\n'.encode(), 3002),
        (f'1,"{MARKER}"x"\n'.encode(), 3002),
        (f"1,{MARKER}\r\n".encode(), None),
        (b"1," + MARKER.encode() * 1_000_000 + b"\n", 3002),
        (f'1,"\n  file = {MARKER}\nCSV Error on Line: 7\n","3"\n'.encode(), 3002),
        (b"Line: 424242\n", 3002),
    ],
    ids=["few", "many", "utf8", "open quote", "quote", "line end", "long", "impostor", "number"],
)
def test_bad_lines_are_located_and_never_quoted(engine, tmp_path, record, line):
    path = tmp_path / "persons.csv"
    path.write_bytes(b"A,B\n" + GOOD + record + GOOD)
    with pytest.raises(MalformedTextError) as caught:
        read(engine, path)
    place = f"{path}, line {line}: " if line else f"{path}: "
    assert str(caught.value.located()).startswith(f"{place}expected CSV in UTF-8")
    assert str(caught.value).startswith(f"{path}: expected CSV in UTF-8")
    assert MARKER not in str(caught.value)
    assert "424242" not in str(caught.value)
    assert caught.value.__context__ is None, "DuckDB's text, which quotes records, is not kept"
    assert caught.value.__cause__ is None


def test_a_bad_line_in_a_later_batch_is_located_and_never_quoted(engine, tmp_path, monkeypatch):
    """Later batches are fetched through Arrow, whose errors contain DuckDB's text."""
    monkeypatch.setattr(local_engine, "TASK_ROWS", 1000)
    path = tmp_path / "persons.csv"
    path.write_bytes(b"A,B\n" + GOOD * 100 + f"{MARKER}\n".encode() + GOOD)
    batches = engine.read_csv(path, ["A", "B"], gzip=False).batches()
    assert 0 < next(batches).num_rows < 300_000
    with pytest.raises(MalformedTextError) as caught:
        list(batches)
    assert str(caught.value.located()).startswith(f"{path}, line 300002: expected CSV in UTF-8")
    assert MARKER not in str(caught.value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None


@pytest.mark.parametrize("error_type", [duckdb.Error, OSError, pa.ArrowInvalid])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "Out of Memory Error: could not allocate block",
            "raise the memory limit or name another temporary folder",
        ),
        ("IO Error: Could not write file: No space left on device", "the disk of /place is full"),
        (
            f"Invalid Input Error: CSV Error on Line: 7\nOriginal Line: {MARKER}\n  file = /a.csv",
            "/a.csv: expected CSV in UTF-8",
        ),
        (f"Invalid Input Error: Invalid unicode in CSV: {MARKER}", "a CSV file: expected CSV in UTF-8"),
        (
            f"Conversion Error: {MARKER}: No space left on device, Out of Memory Error",
            "the input files: can't be ",
        ),
        (f"{MARKER}: Out of Memory Error: x", "the input files: can't be read or counted"),
    ],
)
def test_errors_are_translated(error_type, text, words):
    message = str(translated(error_type(text), Path("/place/temp"), ["/a.csv", "/b.csv"]))
    assert words in message
    assert MARKER not in message


def test_the_right_one_of_several_files_is_named(engine, tmp_path):
    for name in ("a.csv", "b.csv", "b.csv.gz"):
        (tmp_path / name).write_bytes(b"A,B\n" + GOOD)
    (tmp_path / "b.csv").write_text(f"A,B\n{tmp_path / 'a.csv'}\n")
    with pytest.raises(DataError) as caught:
        for name in ("a.csv", "b.csv"):
            read(engine, tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path / 'b.csv'}: expected CSV")
    assert str(caught.value.located()).startswith(f"{tmp_path / 'b.csv'}, line 2:")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (GOOD.replace(b"\n", b"\r\n"), (3000, 3000, 3000)),
        (GOOD.replace(b"\n", b"\r"), (3000, 3000, 3000)),
        (GOOD + b"\n\n", (3000, 3000, 3000)),
        (GOOD[:-1], (3000, 3000, 3000)),
        (b"", (0, 0, 0)),
        (b'"1","a,b"\n2,"a ""b"""\n', (2, 2, 2)),
        (b"1,\n,2\n", (2, 1, 1)),
        (b"1,'a\n2,|\n", (2, 2, 2)),
    ],
    ids=["crlf", "cr", "blank lines", "no last line end", "no rows", "quotes", "empty fields", "special characters"],
)
def test_csv(engine, tmp_path, content, found):
    path = tmp_path / "x.csv"
    path.write_bytes((b"A,B\r\n" if b"\r\n" in content else b"A,B\r" if b"\r" in content else b"A,B\n") + content)
    assert read(engine, path) == found


@pytest.mark.parametrize("name", ["persons.csv.gz", "workspace.csv.gz"])
def test_damaged_gzip(engine, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"A,B\n" + GOOD * 100)[:-5000])
    with pytest.raises(DataError) as caught:
        read(engine, path, gzip=True)
    assert str(caught.value).startswith(str(path))


def test_a_gzip_checksum_is_verified(tmp_path):
    """One changed byte can leave a file that decompresses; only its checksum shows it."""
    path = tmp_path / "persons.csv.gz"
    packed = bytearray(gzip.compress(b"A,B\n" + b"100000007,1\n" * 1000, compresslevel=0))
    packed[packed.index(b"100000007,1", 2000)] ^= 1
    path.write_bytes(packed)
    with open_engine() as engine, pytest.raises(DataError, match="can't read the file"):
        delimited.read(path, engine)


def test_damaged_parquet(engine, tmp_path):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"A": [f"{MARKER}{i}" for i in range(20_000)]}).write_parquet(path)
    content = bytearray(path.read_bytes())
    content[100:-5000:7] = b"U" * len(content[100:-5000:7])
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        engine.fetch(engine.read_parquet([path]))
    assert str(caught.value) == f"{path}: can't be read or counted ({caught.value.args[0].rsplit('(', 1)[1]}"
    assert MARKER not in str(caught.value)


SPECIAL_NAMES = [
    "a*b", "*", "**", "a[b]c", "[!a]", "a?b", "a'b", 'a"b', "a\nb", "a{b,c}", "a;b", "~", "é", "a]b", "%20",
    "A=5", "B=x",
]  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL_NAMES)
def test_special_characters_in_paths_are_literal(engine, tmp_path, name):
    for folder, value in ((tmp_path / name, "right"), (tmp_path / "axb", "wrong"), (tmp_path / "b", "wrong")):
        folder.mkdir(exist_ok=True)
        (folder / "p.csv").write_text(f"A,B\n3,{value}\n")
        pl.DataFrame({"A": ["3"], "B": [value]}).write_parquet(folder / "p.parquet")
    right = [{"A": "3", "B": "right"}]
    csv = engine.read_csv(tmp_path / name / "p.csv", ["A", "B"], gzip=False)
    assert engine.fetch(csv).to_pylist() == right
    again = engine.query("SELECT A, B FROM {t} AS t", {"t": csv}, csv.schema)
    assert engine.fetch(again).to_pylist() == right
    lines = engine.fetch(engine.read_lines([tmp_path / name / "p.csv"]))
    assert lines["line"].to_pylist() == ["A,B", "3,right"]
    assert engine.fetch(engine.read_parquet([tmp_path / name / "p.parquet"])).to_pylist() == right


def test_a_path_that_cannot_be_escaped_is_refused(engine, tmp_path):
    """DuckDB reads a backslash before a wildcard as an escape."""
    folder = tmp_path / "a\\*b"
    folder.mkdir()
    (folder / "p.csv").write_text("A,B\n3,right\n")
    with pytest.raises(DataError, match="can't be read"):
        read(engine, folder / "p.csv")


def test_parquet_columns_are_matched_by_name(engine, tmp_path):
    pl.DataFrame({"A": ["1"], "B": ["x"]}).write_parquet(tmp_path / "1.parquet")
    pl.DataFrame({"B": ["y"], "A": ["2"]}).write_parquet(tmp_path / "2.parquet")
    table = engine.fetch(engine.read_parquet([tmp_path / "1.parquet", tmp_path / "2.parquet"]))
    assert sorted(table.to_pylist(), key=str) == [{"A": "1", "B": "x"}, {"A": "2", "B": "y"}]


def test_lines_are_read_verbatim(engine, tmp_path):
    (tmp_path / "1.txt").write_bytes('a"b,c\n\n  x  \n""\n\\N\nNULL\n|é\n'.encode())
    (tmp_path / "2.txt").write_bytes(b"last, without an end")
    lines = engine.fetch(engine.read_lines([tmp_path / "1.txt", tmp_path / "2.txt"]))["line"].to_pylist()
    assert sorted(lines) == sorted(
        ['a"b,c', "  x  ", '""', "\\N", "NULL", "|é", "last, without an end"]
    )  # fmt: skip


def test_a_table_can_be_abandoned_and_read_again(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(local_engine, "TASK_ROWS", 1000)
    (tmp_path / "x.csv").write_bytes(b"A,B\n" + GOOD * 10)
    table = engine.read_csv(tmp_path / "x.csv", ["A", "B"], gzip=False)
    batches = table.batches()
    assert next(batches).num_rows < 30_000
    batches.close()
    assert engine.fetch(table).num_rows == engine.fetch(table).num_rows == 30_000


def test_temporary_files_are_private_and_removed(tmp_path):
    before = os.umask(0)
    try:
        with open_engine(EngineOptions(temp_dir=tmp_path)):
            (folder,) = tmp_path.iterdir()
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert list(tmp_path.iterdir()) == []


def test_options_reach_the_engine(tmp_path):
    with open_engine(EngineOptions(threads=1, memory_limit="300MB", temp_dir=tmp_path)) as engine:
        rows = dict(engine._connection.sql("SELECT name, value FROM duckdb_settings()").fetchall())
    assert rows["threads"] == "1"
    assert rows["memory_limit"].startswith("286.")
    assert Path(rows["temp_directory"]).parent == tmp_path


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "abacus"},
        {"memory_limit": "much"},
        {"memory_limit": "'; DROP"},
        {"threads": 0},
        {"threads": -1},
        {"temp_dir": Path("/nowhere/at/all")},
    ],
)
def test_invalid_options_are_refused(options, tmp_path):
    with pytest.raises(PHSafeError) as caught:
        open_engine(EngineOptions(**({"temp_dir": tmp_path} | options)))
    assert str(next(iter(options.values()))) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_opening_is_a_keyboard_interrupt(monkeypatch, tmp_path):
    def connect(**settings):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(duckdb, "connect", connect)
    with pytest.raises(KeyboardInterrupt):
        open_engine(EngineOptions(temp_dir=tmp_path))
    assert not list(tmp_path.iterdir())


def test_running_out_of_memory_is_reported(small, us, tmp_path):
    from phsafe import tabulate

    options = EngineOptions(threads=1, memory_limit="1MB", temp_dir=tmp_path)
    with pytest.raises(PHSafeError, match="raise the memory limit"):
        tabulate(us, small, options=options)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported(monkeypatch, engine, tmp_path):
    class Full:
        def cursor(self):
            return self

        def sql(self, query):
            raise duckdb.IOException("IO Error: Could not write file: No space left on device")

        def close(self):
            pass

    (tmp_path / "x.csv").write_bytes(b"A,B\n" + GOOD)
    table = engine.read_csv(tmp_path / "x.csv", ["A", "B"], gzip=False)
    monkeypatch.setattr(engine, "_connection", Full())
    with pytest.raises(PHSafeError, match="is full"):
        engine.fetch(table)


def test_a_folder_instead_of_a_csv_file_is_refused(engine, tmp_path):
    shutil.rmtree(tmp_path / "x", ignore_errors=True)
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(DataError) as caught:
        read(engine, tmp_path / "x.csv")
    assert str(tmp_path / "x.csv") in str(caught.value)


def test_a_low_limit_on_open_files_is_raised_or_refused():
    """In a separate process, because a lowered hard limit can't be raised again."""
    code = (
        "import resource, phsafe.engines as e\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, ({0}, {1}))\n"
        "try:\n"
        "    e.open_engine().close(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
        "except e.PHSafeError as error:\n"
        "    print(error)\n"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code.format(*limits)], capture_output=True, text=True, check=True
        ).stdout.strip()
        for limits in ((40, 40), (40, 100), (100, 100))
    ]
    assert printed == [
        "expected a limit of at least 64 open files, got 40; raise it (ulimit -n 1024)",
        "64",
        "100",
    ]


#: A query that ends only if it is interrupted.
ENDLESS = "SELECT sum(sqrt(a.range * b.range)) AS n FROM {line} AS l, range(1000000000) AS a, range(1000000000) AS b"


def test_an_interrupt_stops_a_query(heard, tmp_path):
    """DuckDB turns an interrupt into an error of its own."""
    (tmp_path / "line.txt").write_text("x\n")
    (tmp_path / "temp").mkdir()
    with open_engine(EngineOptions(threads=1, temp_dir=tmp_path / "temp")) as engine:
        line = engine.read_lines([tmp_path / "line.txt"])
        endless = engine.query(ENDLESS, {"line": line}, pa.schema([("n", pa.float64())]))
        timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
        timer.daemon = True
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            engine.fetch(endless)
        assert engine.fetch(line).num_rows == 1, "the engine is still usable"
    assert list((tmp_path / "temp").iterdir()) == []
