"""CSV as strict lines. Spark's own reader takes a short, long or badly quoted line for something else.

Every line is held against one pattern first. Only lines that have exactly one meaning are ever read, and a line that
has none is never part of a message. A value can't contain a line end, so that files can be read in pieces.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

#: A value without quotes, or in quotes with quotes doubled. Possessive, so that nothing is ever tried twice.
_VALUE = r"""(?:[^",\r\n\x00]*+|"[^"\r\n\x00]*+(?:""[^"\r\n\x00]*+)*+")"""
_READ = (
    "map('mode', 'FAILFAST', 'sep', ',', 'quote', '\"', 'escape', '\"', 'nullValue', '', 'emptyValue', '')"
)


def first_line(session: Any, file: str) -> bytes:  # noqa: ANN401
    """The first line of a file, as bytes; nothing of an empty file."""
    rows = _beginning(session.read.text(file), "CAST(value AS BINARY) AS line")
    return bytes(rows["line"][0].as_py()) if rows.num_rows else b""


def is_clean(session: Any, file: str, header: Sequence[str]) -> bool:  # noqa: ANN401
    """Whether every line but the first is a record with the header's columns, and the header stands there once."""
    first = first_line(session, file).decode("utf-8")
    with _view(_lines(session, file, first)) as view:
        counted = session.sql(
            f"SELECT count_if(value = :first) AS headers, count_if(value <> :first AND value <> '' "  # noqa: S608
            f"AND NOT (is_valid_utf8(value) AND value RLIKE :record)) AS bad FROM {view}",
            args={"first": first, "record": _record(len(header))},
        ).toArrow()
    return bool(counted["headers"][0].as_py() == 1 and counted["bad"][0].as_py() == 0)


def rows(session: Any, file: str, header: Sequence[str]) -> Any:  # noqa: ANN401
    """The records of a clean file, every column as text; nothing between two commas is null."""
    first = first_line(session, file).decode("utf-8")
    columns = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in header)
    frame = _lines(session, file, first)
    name = f"phsafe_{uuid.uuid4().hex}"
    frame.createTempView(name)
    try:
        return session.sql(
            f"SELECT record.* FROM (SELECT from_csv(value, :columns, {_READ}) AS record FROM {name} "  # noqa: S608
            "WHERE value <> :first AND value <> '')",
            args={"columns": columns, "first": first},
        )
    finally:
        session.catalog.dropTempView(name)


def _record(columns: int) -> str:
    return rf"\A{_VALUE}(?:,{_VALUE}){{{columns - 1}}}\z"


def _lines(session: Any, file: str, first: str) -> Any:  # noqa: ANN401
    """The lines of a file between line ends of the kind that ends the first one; others stay in the lines."""
    found = _beginning(
        session.read.text(file, lineSep="\n"), f"substring(value, 1, {len(first) + 2}) AS start"
    )
    start = found["start"][0].as_py() if found.num_rows else first
    end = {first: "\n", f"{first}\r": "\r\n"}.get(start, "\r")
    return session.read.text(file, lineSep=end)


def _beginning(lines: Any, column: str) -> pa.Table:  # noqa: ANN401
    """A column of the first line, if there is one."""
    blocks = lines.selectExpr(column, "_metadata.file_block_start AS block")
    return blocks.filter("block = 0").limit(1).toArrow()


@contextmanager
def _view(frame: Any) -> Iterator[str]:  # noqa: ANN401
    """A frame under a name, for SQL."""
    name = f"phsafe_{uuid.uuid4().hex}"
    frame.createTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
