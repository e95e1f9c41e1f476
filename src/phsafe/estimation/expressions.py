"""Expressions of published cells, such as ``PH3[WY, *, 2] + PH3[CO, *, 2]``: parsed here, never evaluated as code."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from phsafe.errors import PHSafeError

#: A longer expression must be a mistake.
MAX_LENGTH = 10_000
#: Parentheses and signs nested deeper than this must be a mistake.
MAX_DEPTH = 100
TOKEN = re.compile(
    r"\s*(?:(?P<cell>[A-Za-z]\w*\s*\[[^\[\]]*\])|(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)|(?P<sign>[-+*/()]))"
)
SIGNS: Mapping[str, Callable[[object, object], object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip
T = TypeVar("T")
L = TypeVar("L")


@dataclass(frozen=True)
class CellName:
    """A published cell as it is written: ``TABLE[region, iteration, line]``."""

    table: str
    region: str
    iteration: str
    line: str

    def __str__(self) -> str:
        return f"{self.table}[{self.region}, {self.iteration}, {self.line}]"


@dataclass(frozen=True)
class Term(Generic[L]):
    """A part of an expression: a cell (or what stands for cells), a number, or an operation on two parts."""

    value: L | float | None = None
    sign: str = ""
    parts: tuple[Term[L], ...] = ()

    def cells(self) -> Iterator[L]:
        """Yield the cells of the expression."""
        if self.value is not None and not isinstance(self.value, float):
            yield self.value
        for part in self.parts:
            yield from part.cells()

    def evaluate(self, cell: Callable[[L], T], number: Callable[[float], T]) -> T:
        """Evaluate the expression with any type that supports the four operations."""
        if isinstance(self.value, float):
            return number(self.value)
        if self.value is not None:
            return cell(self.value)
        left, right = (part.evaluate(cell, number) for part in self.parts)
        return SIGNS[self.sign](left, right)  # type: ignore[return-value]


@dataclass(frozen=True)
class Degree:
    """How many counts a part of an expression multiplies: 1 for a count, 0 for an average; None for a number."""

    value: int | None

    def __add__(self, other: Degree) -> Degree:
        if self.value is not None and other.value is not None and self.value != other.value:
            raise PHSafeError(
                "expression: expected sums and differences of counts, or of averages and ratios, got a mixture of both"
            )
        return other if self.value is None else self

    __sub__ = __add__

    def __mul__(self, other: Degree) -> Degree:
        return self._times(other, 1)

    def __truediv__(self, other: Degree) -> Degree:
        return self._times(other, -1)

    def _times(self, other: Degree, power: int) -> Degree:
        if self.value is None and other.value is None:
            return self
        return Degree((self.value or 0) + power * (other.value or 0))


def parse(text: str) -> Term[CellName]:
    """Parse an expression of cells, numbers, ``+ - * /`` and parentheses.

    Raises:
        PHSafeError: It is not such an expression, or has no cell.

    >>> [str(cell) for cell in parse("(PH3[WY, *, 2] - PH3[CO, 2]) / 2").cells()]
    ['PH3[WY, *, 2]', 'PH3[CO, *, 2]']
    """
    if len(text) > MAX_LENGTH:
        raise PHSafeError(f"expression: expected at most {MAX_LENGTH} characters, got {len(text)}")
    parser = _Parser(_tokens(text))
    term = parser.sum()
    if parser.tokens:
        raise _unexpected(parser.tokens[0])
    if not any(term.cells()):
        raise PHSafeError("expression: expected at least one cell, such as PH3[WY, *, 2], got none")
    return term


def _tokens(text: str) -> list[tuple[str, str]]:
    found, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is None:
            raise _unexpected(("", text[place:].strip()))
        assert match.lastgroup is not None
        found.append((match.lastgroup, match[match.lastgroup]))
        place = match.end()
    return found


def _unexpected(token: tuple[str, str] | None) -> PHSafeError:
    got = f"'{token[1]:.40}'" if token else "the end of the expression"
    return PHSafeError(
        f"expression: expected cells such as PH3[WY, *, 2] and numbers, joined by + - * / and parentheses, got {got}"
    )


class _Parser:
    """A recursive-descent parser: sums of products of cells, numbers and parentheses."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens = tokens
        self.depth = 0

    def sum(self) -> Term[CellName]:
        return self._chain("+-", self._product)

    def _product(self) -> Term[CellName]:
        return self._chain("*/", self._factor)

    def _chain(self, signs: str, part: Callable[[], Term[CellName]]) -> Term[CellName]:
        term = part()
        while self.tokens and self.tokens[0][0] == "sign" and self.tokens[0][1] in signs:
            sign = self.tokens.pop(0)[1]
            term = Term(sign=sign, parts=(term, part()))
        return term

    def _factor(self) -> Term[CellName]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise PHSafeError(f"expression: expected at most {MAX_DEPTH} nested parentheses and signs, got more")
        kind, text = self.tokens.pop(0) if self.tokens else ("", "")
        term: Term[CellName]
        if kind == "cell":
            term = Term(_cell(text))
        elif kind == "number":
            term = Term(float(text))
        elif text == "-":
            term = Term(sign="*", parts=(Term(-1.0), self._factor()))
        elif text == "(":
            term = self.sum()
            if not self.tokens or self.tokens.pop(0)[1] != ")":
                raise PHSafeError("expression: expected a closing parenthesis for every opening one, got too few")
        else:
            raise _unexpected((kind, text) if text else None)
        self.depth -= 1
        return term


def _cell(text: str) -> CellName:
    table, inside = text.rstrip("]").split("[", 1)
    parts = [part.strip() for part in inside.split(",")]
    if len(parts) == 2:
        parts.insert(1, "*")
    if len(parts) < 3 or not all(parts):
        raise PHSafeError(f"{text}: expected TABLE[region, iteration, line] or TABLE[region, line]")
    # The label of an iteration may contain commas.
    return CellName(table.strip(), parts[0], ", ".join(parts[1:-1]), parts[-1])
