"""Ranges of a key that split large files into parts: small enough for memory, and for the processor's caches.

Where to cut is a matter of speed alone: every row with a key lies in exactly one part, wherever the cuts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

#: Rows of all tables in a part, if files are sorted so that a part is read by itself: small tables are fast.
SORTED_ROWS = 3_300_000
#: The same where every part means reading all files again: as few parts as memory allows.
UNSORTED_ROWS = 200_000_000
#: Files count as sorted if reading all parts means reading every row no more than this many times.
READ_TWICE = 1.5


@dataclass(frozen=True)
class KeyRange:
    """Keys from `low` up to `high`, which is not in it; None is no limit. The whole range has rows without key too."""

    low: int | None = None
    high: int | None = None

    def overlaps(self, low: int, high: int) -> bool:
        """Whether keys from `low` to `high`, both included, may lie in the range."""
        return (self.high is None or low < self.high) and (self.low is None or self.low <= high)


WHOLE = KeyRange()
NOTHING = KeyRange(0, 0)


@dataclass(frozen=True)
class RowGroup:
    """A piece of a Parquet file: how many rows, and between which keys (both included)."""

    path: Path
    rows: int
    low: int
    high: int


def row_groups(paths: Sequence[Path], key: str) -> list[RowGroup] | None:
    """The pieces of some Parquet files, or None where the files don't tell the keys of each."""
    groups = []
    for path in paths:
        metadata = pq.read_metadata(path)
        names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
        for i in range(metadata.num_row_groups):
            group = metadata.row_group(i)
            statistics = group.column(names.index(key)).statistics
            if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
                return None
            groups.append(RowGroup(path, group.num_rows, statistics.min, statistics.max))
    return groups


def sorted_cuts(tables: Sequence[Sequence[RowGroup]], threads: int = 1) -> list[int] | None:
    """Where to cut tables whose files are sorted by key, or None if they are not. What is small is not cut.

    Parts are of one size, as nearly as the pieces allow, and as many for each thread if there are pieces enough.
    """
    everything = [group for table in tables for group in table]
    total = sum(group.rows for group in everything)
    full = max(1, total // SORTED_ROWS)
    for parts in (-(-full // threads) * threads, full) if full > 1 else (1,):
        # The table with the most pieces can be cut most evenly.
        cuts = _even_cuts(max(tables, key=len), parts)
        read = sum(
            g.rows for part in ranges_between(cuts) for g in everything if part.overlaps(g.low, g.high)
        )
        # What is large and has no piece to cut at may lie in any order.
        if read <= READ_TWICE * total and (cuts or full == 1):
            return cuts
    return None


def _even_cuts(pieces: Sequence[RowGroup], parts: int) -> list[int]:
    """Keys at which pieces begin that cut them in parts of one size; fewer parts where a piece is larger than that."""
    size = max(1, sum(group.rows for group in pieces)) / parts
    cuts, rows, full = [], 0, 0
    for group in sorted(pieces, key=lambda group: group.low):
        if int(rows / size) > full:
            full = int(rows / size)
            cuts.append(group.low)
        rows += group.rows
    return cuts


def unsorted_parts(tables: Sequence[Sequence[RowGroup]]) -> int:
    """How many parts tables need whose rows lie in any order."""
    return -(-sum(group.rows for table in tables for group in table) // UNSORTED_ROWS)


def ranges_between(cuts: Sequence[int]) -> list[KeyRange]:
    """The ranges that some cuts make: every key is in exactly one.

    >>> ranges_between([10, 20])
    [KeyRange(low=None, high=10), KeyRange(low=10, high=20), KeyRange(low=20, high=None)]
    >>> ranges_between([])
    [KeyRange(low=None, high=None)]
    """
    return [KeyRange(low, high) for low, high in pairwise([None, *sorted(set(cuts)), None])]
