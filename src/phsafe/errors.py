"""The one error that users meet: every reason at once, in words, never a value of a record."""

from __future__ import annotations

from collections.abc import Iterable


class PHSafeError(Exception):
    r"""The input or the budget says no. `reasons` holds one clear sentence for each problem.

    >>> str(PHSafeError(["a: expected 1, got 2", "b is missing"]))
    'a: expected 1, got 2\nb is missing'
    """

    def __init__(self, reasons: str | Iterable[str]) -> None:
        self.reasons = (reasons,) if isinstance(reasons, str) else tuple(reasons)
        super().__init__("\n".join(self.reasons))


class ConfigError(PHSafeError):
    """A config that can't be used."""


class DataError(PHSafeError):
    """Input files that can't be used."""


class OutputError(PHSafeError):
    """An output that can't be written, or a folder that is not what it should be."""
