import gzip

import pytest

from phsafe.engines import EngineOptions, open_engine
from phsafe.errors import DataError
from phsafe.readers import delimited

MARKER = "S3CRET"


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


def rows(engine, tmp_path, content, name="x.csv"):
    (tmp_path / name).write_bytes(content)
    return engine.fetch(delimited.read(tmp_path / name, engine)).to_pylist()


@pytest.mark.parametrize(
    "content",
    [
        b"A,B\n1,x\n",
        b"\xef\xbb\xbfA,B\n1,x\n",
        b"A,B\r\n1,x\r\n",
        b'"A","B"\n"1","x"\n',
        b"A,B\n1,x",
        gzip.compress(b"A,B\n1,x\n", mtime=0),
        gzip.compress(b"A,B\n", mtime=0) + gzip.compress(b"1,x\n", mtime=0),
    ],
    ids=["plain", "mark", "crlf", "quotes", "no end", "gzip", "two gzip members"],
)
def test_forms(engine, tmp_path, content):
    assert rows(engine, tmp_path, content) == [{"A": "1", "B": "x"}]


def test_leading_zeros_stay(engine, tmp_path):
    assert rows(engine, tmp_path, b"A,B\n007,00\n") == [{"A": "007", "B": "00"}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "expected a header line"),
        (b"\n", "expected a header line"),
        (f"{MARKER},{MARKER}\n".encode(), "every column name once"),
        (f"{MARKER},\n".encode(), "every column name once"),
        (f"{MARKER},{MARKER.lower()}\n".encode(), "every column name once"),
        (MARKER.encode() + b"\xff,B\n", "UTF-8"),
        (f"{MARKER},B\n".encode("utf-16"), "UTF-8"),
        (f'"{MARKER}\n'.encode(), "UTF-8"),
        (bytes(range(256)) * 100, "UTF-8"),
        (MARKER.encode() * 50_000, "header line"),
        (b"\x1f\x8b" + MARKER.encode(), "corrupt"),
        (b"\x1f\x8b", "corrupt"),
        (gzip.compress(f"A,{MARKER}\n".encode(), mtime=0)[:12], "corrupt"),
    ],
)
def test_bad_headers_are_refused_and_never_quoted(engine, tmp_path, content, words):
    with pytest.raises(DataError) as caught:
        rows(engine, tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path / 'x.csv'}: ")
    assert words in str(caught.value)
    assert MARKER not in str(caught.value)


def test_a_folder_instead_of_a_file_is_refused(engine, tmp_path):
    with pytest.raises(DataError, match="can't read the file"):
        delimited.read(tmp_path, engine)
