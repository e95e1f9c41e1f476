"""What an engine does: it opens tables, and hands their rows to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

from phsafe.counting.counted import Counted
from phsafe.counting.kernel import Kernel
from phsafe.readers.options import TableReader


class Engine(TableReader, Protocol):
    """What the rest of the program needs of an engine."""

    def scan(self, tables: Mapping[str, Any], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """Hand every row of persons, units and geo to the kernel once, and add up what it counts.

        All rows of a key are in one partition, and each partition is in key order. `progress` is told the share of the
        work that is done.
        """

    def close(self) -> None:
        """Release everything, temporary files included."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
