"""Strict CSV on Spark, whose own reader silently misreads lines that are short, long or badly quoted.

Every line must first match a strict pattern; only then is anything read. Messages never quote a line. Values can't
contain line ends, so that Spark can split files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: A value without quotes, or in quotes with inner quotes doubled. Possessive quantifiers prevent backtracking.
_VALUE = r"""(?:[^",\r\n\x00]*+|"[^"\r\n\x00]*+(?:""[^"\r\n\x00]*+)*+")"""
_READ = "map('mode', 'FAILFAST', 'sep', ',', 'quote', '\"', 'escape', '\"', 'nullValue', '', 'emptyValue', '')"
#: Longer than any header.
_LONGEST = 200_000


def first_line(session: Any, file: str) -> bytes:  # noqa: ANN401
    """The first line of a file up to its LF, as bytes; empty for an empty file."""
    lines = session.read.text(file, lineSep="\n")
    start = lines.selectExpr(
        f"CAST(substring(value, 1, {_LONGEST}) AS BINARY) AS line", "_metadata.file_block_start AS block"
    )
    found = start.filter("block = 0").limit(1).toArrow()
    return bytes(found["line"][0].as_py()) if found.num_rows else b""


def lines(session: Any, files: str | list[str], first: bytes) -> Any:  # noqa: ANN401
    """The lines of files, in a column `value`, split at the line end of the first line; others are kept."""
    return session.read.text(files, lineSep="\r\n" if first.endswith(b"\r") else "\n")


def is_clean(session: Any, view: str, first: bytes, columns: int) -> bool:  # noqa: ANN401
    """Whether the header line occurs once and every other line is a record with the given number of columns."""
    counted = session.sql(
        f"SELECT count_if(value = :header) AS headers, count_if(value <> :header AND value <> '' "  # noqa: S608
        f"AND NOT (is_valid_utf8(value) AND value RLIKE :record)) AS bad FROM {view}",
        args={"header": _text(first), "record": rf"\A{_VALUE}(?:,{_VALUE}){{{columns - 1}}}\z"},
    ).toArrow()
    return bool(counted["headers"][0].as_py() == 1 and counted["bad"][0].as_py() == 0)


def rows(session: Any, view: str, first: bytes, names: Sequence[str]) -> Any:  # noqa: ANN401
    """Parse clean lines into records, every column as text; an empty value is null."""
    columns = ", ".join(f"`{name.replace('`', '``')}` STRING" for name in names)
    return session.sql(
        f"SELECT record.* FROM (SELECT from_csv(value, :columns, {_READ}) AS record FROM {view} "  # noqa: S608
        "WHERE value <> :header AND value <> '')",
        args={"columns": columns, "header": _text(first)},
    )


def _text(first: bytes) -> str:
    return first.decode("utf-8").removesuffix("\r")
