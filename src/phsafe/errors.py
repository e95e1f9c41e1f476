"""The errors that users see, with exit codes and “did you mean”: all problems at once, never a value of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, ParamSpec, TypeVar

#: How much of a word must be right to recognise it.
CLOSE = 0.5
P = ParamSpec("P")
T = TypeVar("T")


class PHSafeError(Exception):
    """A request was refused: invalid input, an unusable output, or insufficient budget.

    The command line prints the reasons and exits with an error code; no traceback is shown. Messages never contain a
    value from a confidential record, so they are safe to log.

    Args:
        reasons: One sentence, or one sentence for each problem.

    Attributes:
        reasons: One sentence for each problem, as a tuple.

    Example:
        >>> error = PHSafeError(["a: expected 1, got 2", "b is missing"])
        >>> error.reasons
        ('a: expected 1, got 2', 'b is missing')
        >>> print(error)
        a: expected 1, got 2
        b is missing

    """

    #: The exit code of a command that raises it: refused, and nothing was charged.
    exit_code: ClassVar[int] = 1

    def __init__(self, reasons: str | Iterable[str]) -> None:
        self.reasons = (reasons,) if isinstance(reasons, str) else tuple(reasons)
        super().__init__("\n".join(self.reasons))

    def __reduce__(self) -> tuple[type[PHSafeError], tuple[tuple[str, ...]]]:
        return type(self), (self.reasons,)


class ArgumentError(PHSafeError, TypeError):
    """A Python call got an argument of the wrong type, or one that it doesn't have."""


class ConfigError(PHSafeError):
    """The config is invalid."""


class CatalogError(ConfigError, ValueError):
    """A table, a level or a whole catalog is declared inconsistently."""


class DataError(PHSafeError):
    """The input files are missing, unreadable or invalid."""


class OutputError(PHSafeError):
    """The output can't be written, or a folder isn't what the command expects."""


class ChargedError(PHSafeError):
    """A release failed after its privacy loss was charged. There is no release, and the loss stays charged."""

    exit_code = 4


class FinishedError(PHSafeError):
    """A release is charged and complete, but something after it failed."""

    exit_code = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the known word closest to a wrong one; empty if no word is.

    >>> did_you_mean("ph33", ["PH2", "PH3"]), did_you_mean("PH9", ["PH2", "PH3"]), did_you_mean("Zz", ["PH3"])
    ('; did you mean PH3?', '', '')
    """
    from difflib import SequenceMatcher  # noqa: PLC0415  (needed after a mistake only)

    matcher = SequenceMatcher(b=word.casefold())
    likeness = {}
    for name in known:
        matcher.set_seq1(name.casefold())
        # Of two words that differ in case only, the one in the case that was typed.
        likeness[name] = (matcher.ratio(), name.islower() == word.islower())
    best = [name for name, found in likeness.items() if found == max(likeness.values()) and found[0] >= CLOSE]
    return f"; did you mean {best[0]}?" if len(best) == 1 else ""


class Reasons:
    """Collects the problems found by several checks, so that users see all of them together.

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
        self._types: set[type[PHSafeError]] = set()

    def check(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Return the function's result, or None if it raises `PHSafeError`, whose reasons are kept."""
        try:
            return function(*args, **kwargs)
        except PHSafeError as error:
            self._reasons += error.reasons
            self._types.add(type(error))
            return None

    def settle(self) -> None:
        """Raise one error with all collected reasons, if there are any; of their type, if they share one."""
        if self._reasons:
            raise (self._types.pop() if len(self._types) == 1 else PHSafeError)(self._reasons)
