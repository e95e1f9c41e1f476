"""The one error that users meet: every reason at once, in words, never a value of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class PHSafeError(Exception):
    r"""The input or the budget says no. `reasons` holds one clear sentence for each problem.

    >>> str(PHSafeError(["a: expected 1, got 2", "b is missing"]))
    'a: expected 1, got 2\nb is missing'
    """

    def __init__(self, reasons: str | Iterable[str]) -> None:
        self.reasons = (reasons,) if isinstance(reasons, str) else tuple(reasons)
        super().__init__("\n".join(self.reasons))

    def __reduce__(self) -> tuple[type[PHSafeError], tuple[tuple[str, ...]]]:
        return type(self), (self.reasons,)


class ConfigError(PHSafeError):
    """A config that can't be used."""


class DataError(PHSafeError):
    """Input files that can't be used."""


class OutputError(PHSafeError):
    """An output that can't be written, or a folder that is not what it should be."""


class Reasons:
    """Gathers the problems of several checks, so that people see all of them at once.

    >>> reasons = Reasons()
    >>> def refuse(): raise PHSafeError("no")
    >>> reasons.check(refuse), reasons.check(len, "ab")
    (None, 2)
    >>> reasons.settle()
    Traceback (most recent call last):
    phsafe.errors.PHSafeError: no
    """

    def __init__(self) -> None:
        self._reasons: list[str] = []

    def check(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The function's result, or None where it refuses; its reasons are kept."""
        try:
            return function(*args, **kwargs)
        except PHSafeError as error:
            self._reasons += error.reasons
            return None

    def settle(self) -> None:
        """Raise everything that was gathered."""
        if self._reasons:
            raise PHSafeError(self._reasons)
