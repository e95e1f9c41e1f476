"""What counting part by part needs: queries that are written once, and sums that parts add to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

import polars as pl

from phsafe.engine.writing import WRITING

T = TypeVar("T")


class Sum:
    """Counts of several parts, added up by all columns but the counts. Parts may come from any thread."""

    def __init__(self, *counts: str) -> None:
        self._counts = counts
        self._frames: list[pl.DataFrame] = []
        self._lock = threading.Lock()

    def add(self, frame: pl.DataFrame) -> None:
        """Add the counts of a part."""
        with self._lock:
            self._frames.append(frame)
            # Adding up takes as long as the sum so far, so it waits until as much has come again.
            if sum(map(len, self._frames[1:])) > max(len(self._frames[0]), 100_000):
                self._frames = [self._added()]

    def total(self) -> pl.DataFrame:
        """The sum."""
        with self._lock:
            return self._added()

    def _added(self) -> pl.DataFrame:
        frame = pl.concat(self._frames)
        keys = [column for column in frame.columns if column not in self._counts]
        return frame.group_by(keys).sum() if keys else frame.sum()


class Once:
    """Calls that are made once: the same arguments give the same expression again."""

    def __init__(self) -> None:
        self._made: dict[tuple[object, ...], tuple[Any, tuple[Any, ...]]] = {}

    def __call__(self, make: Callable[..., T], *arguments: Any) -> T:  # noqa: ANN401
        """What `make` gave, or gives, for these very arguments."""
        key = (make, *map(id, arguments))
        with WRITING:
            if key not in self._made:
                # The arguments are kept beside the result, so that no other object can get their identity.
                self._made[key] = (make(*arguments), arguments)
            made: T = self._made[key][0]
        return made
