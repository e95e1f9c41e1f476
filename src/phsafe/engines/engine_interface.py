"""The engine interface: open tables, and pass their rows to the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self

from phsafe.counting.kernel import Kernel
from phsafe.counting.tallies import Counted
from phsafe.readers.interfaces import TableReader


class Engine(TableReader, Protocol):
    """What the rest of the program uses of an engine."""

    def scan(self, tables: Mapping[str, Any], kernel: Kernel, progress: Callable[[float], None]) -> Counted:
        """Pass every row of persons, units and geo to the kernel exactly once, and add up the results.

        All rows of a household key are in one partition, and each partition is in key order. `progress` is called with
        the share of the work that is done.
        """

    def close(self) -> None:
        """Release all resources, including temporary files."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
