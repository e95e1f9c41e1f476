"""Files as views of DuckDB's; those of Parquet can be narrowed to the rows of a range of keys."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from phsafe.engine.ranges import WHOLE, KeyRange, RowGroup, row_groups


@dataclass(frozen=True, eq=False)
class View:
    """Parquet files under a name of ours. `key` is the column that parts are cut by."""

    name: str
    files: Sequence[Path]
    key: str

    @cached_property
    def groups(self) -> list[RowGroup] | None:
        """The pieces of the files, if these say between which keys each lies."""
        return row_groups(self.files, self.key)

    @cached_property
    def rows(self) -> int:
        """How many rows the pieces have."""
        return sum(group.rows for group in self.groups or ())

    def definition(self, keys: KeyRange) -> str:
        """The statement that makes the view. No more files are named than the range needs."""
        files = list(self.files)
        if keys != WHOLE and self.groups is not None:
            needed = {group.path for group in self.groups if keys.overlaps(group.low, group.high)}
            files = [file for file in files if file in needed] or files[:1]
        limits = [f'"{self.key}" >= {keys.low}'] if keys.low is not None else []
        limits += [f'"{self.key}" < {keys.high}'] if keys.high is not None else []
        names = ", ".join(quoted(literal_path(file)) for file in files)
        where = f" WHERE {' AND '.join(limits)}" if limits else ""
        # Paths are quoted above; the other names and numbers are ours.
        rows = f"SELECT * FROM read_parquet([{names}], hive_partitioning=false){where}"  # noqa: S608
        return f'CREATE OR REPLACE TEMP VIEW "{self.name}" AS {rows}'

    def sampled_quantiles(self, shares: Sequence[float]) -> str:
        """The query for keys that cut the rows in about these shares."""
        sample = f'SELECT "{self.key}" AS key FROM "{self.name}" USING SAMPLE reservoir(100000 ROWS)'  # noqa: S608
        return f"SELECT quantile_disc(key, {list(shares)}) FROM ({sample})"  # noqa: S608


def text_view(name: str, files: Sequence[str], columns: Sequence[str], form: Mapping[str, str | bool]) -> str:
    """The statement that makes a view of text files in a given form: DuckDB guesses at nothing."""
    names = ", ".join(map(quoted, files))
    types = ", ".join(f"{quoted(column)}: 'VARCHAR'" for column in columns)
    settings = dict(form) | {"auto_detect": False, "null_padding": False, "hive_partitioning": False}
    given = ", ".join(
        f"{setting}={quoted(value) if isinstance(value, str) else value}"
        for setting, value in settings.items()
    )
    rows = f"SELECT * FROM read_csv([{names}], columns={{{types}}}, {given})"  # noqa: S608
    return f'CREATE TEMP VIEW "{name}" AS {rows}'


def literal_path(path: Path) -> str:
    """A path that DuckDB takes letter by letter: it would read * ? [ as a pattern."""
    text = os.fspath(path)
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
