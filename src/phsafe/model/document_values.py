"""The values of a JSON or TOML document, checked one by one. All problems are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from phsafe.model.table_checks import listed

T = TypeVar("T")


class DocumentValues:
    """Checks values and collects problems. A value of the wrong type is replaced by something harmless."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def fields(
        self, context: str, value: object, required: Iterable[str], optional: Iterable[str] = ()
    ) -> Mapping[str, Any]:
        """An object with these fields."""
        names = [*required, *optional]
        if not isinstance(value, Mapping):
            self.problems.append(f"{context}: expected an object with {', '.join(names)}, got {show(value)}")
            return {}
        unknown = [str(name)[:40] for name in value if name not in names]
        if unknown:
            self.problems.append(f"{context}: expected only {', '.join(names)}, got {listed(unknown)}")
        missing = [name for name in required if name not in value]
        if missing:
            self.problems.append(f"{context}: {', '.join(missing)} missing")
        return value

    def typed(self, context: str, value: object, kind: type[T], expected: str, default: T) -> T:
        """A value of exactly this type. Missing values have been reported already."""
        if type(value) is kind:
            return value
        if value is not None:
            self.problems.append(f"{context}: expected {expected}, got {show(value)}")
        return default

    def text(self, context: str, value: object) -> str:
        """A string."""
        return self.typed(context, value, str, "text", "")

    def number(self, context: str, value: object) -> int:
        """A whole number."""
        return self.typed(context, value, int, "a whole number", 0)

    def flag(self, context: str, value: object) -> bool:
        """True or false."""
        return self.typed(context, value, bool, "true or false", False)

    def items(self, context: str, value: object) -> list[Any]:
        """A list."""
        return self.typed(context, value, list, "a list", [])

    def numbers(self, context: str, value: object) -> tuple[int, ...]:
        """A list of whole numbers."""
        return tuple(self.number(context, item) for item in self.items(context, value))

    def texts(self, context: str, value: object) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(self.text(context, item) for item in self.items(context, value))

    def by_line(self, context: str, value: object, read: Callable[[str, object], T]) -> dict[int, T]:
        """An object whose keys are line numbers, which JSON and TOML write as strings."""
        found: dict[int, T] = {}
        for name, item in self.typed(context, value, dict, "an object with line numbers as keys", {}).items():
            if isinstance(name, str) and name.isascii() and name.isdigit() and name == str(int(name[:9])):
                found[int(name)] = read(f"{context} {name}", item)
            else:
                self.problems.append(f"{context}: expected line numbers as keys, got {show(name)}")
        return found


def show(value: object) -> str:
    """Format a value for a message: short, and on one line."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number of more than 60 digits"
    return "nothing" if value is None else repr(value)[:60]
