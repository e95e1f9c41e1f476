"""CSV as strict lines. Spark's own reader takes a short, long or badly quoted line for something else.

Every line is held against one pattern first. Only lines that have exactly one meaning are ever read, and a line that
has none is never part of a message. A value can't contain a line end, so that files can be read in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: A value without quotes, or in quotes with quotes doubled. Possessive, so that nothing is ever tried twice.
_VALUE = r"""(?:[^",\r\n\x00]*+|"[^"\r\n\x00]*+(?:""[^"\r\n\x00]*+)*+")"""
_READ = "map('mode', 'FAILFAST', 'sep', ',', 'quote', '\"', 'escape', '\"', 'nullValue', '', 'emptyValue', '')"
#: More than a header can have.
_LONGEST = 200_000


def first_line(session: Any, file: str) -> bytes:  # noqa: ANN401
    """The first line of a file up to its LF, as bytes; nothing of an empty file."""
    lines = session.read.text(file, lineSep="\n")
    start = lines.selectExpr(
        f"CAST(substring(value, 1, {_LONGEST}) AS BINARY) AS line", "_metadata.file_block_start AS block"
    )
    found = start.filter("block = 0").limit(1).toArrow()
    return bytes(found["line"][0].as_py()) if found.num_rows else b""


def lines(session: Any, files: str | list[str], first: bytes) -> Any:  # noqa: ANN401
    """The lines of files, as `value`, ended as the first one is; other line ends stay in them."""
    return session.read.text(files, lineSep="\r\n" if first.endswith(b"\r") else "\n")


def is_clean(session: Any, view: str, first: bytes, columns: int) -> bool:  # noqa: ANN401
    """Whether every line but the first is a record of so many columns, and the first stands there once."""
    counted = session.sql(
        f"SELECT count_if(value = :header) AS headers, count_if(value <> :header AND value <> '' "  # noqa: S608
        f"AND NOT (is_valid_utf8(value) AND value RLIKE :record)) AS bad FROM {view}",
        args={"header": _text(first), "record": rf"\A{_VALUE}(?:,{_VALUE}){{{columns - 1}}}\z"},
    ).toArrow()
    return bool(counted["headers"][0].as_py() == 1 and counted["bad"][0].as_py() == 0)


def rows(session: Any, view: str, first: bytes, names: Sequence[str]) -> Any:  # noqa: ANN401
    """The records among clean lines, every column as text; nothing between two commas is null."""
    columns = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in names)
    return session.sql(
        f"SELECT record.* FROM (SELECT from_csv(value, :columns, {_READ}) AS record FROM {view} "  # noqa: S608
        "WHERE value <> :header AND value <> '')",
        args={"columns": columns, "header": _text(first)},
    )


def _text(first: bytes) -> str:
    return first.decode("utf-8").removesuffix("\r")
