"""Conditions on one row: the only language in which universes, cells and iterations can be written.

A condition names columns and, for each, the codes it allows. It can be decided by looking at a single
row, and at nothing else; a filter or cell map that compares rows, counts them, or calls code cannot be
written down. That is what the privacy argument needs (claim C2 of docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

Code = int | str


@dataclass(frozen=True)
class Where:
    """A conjunction: every named column holds one of its allowed codes. No terms: every row passes.

    >>> minors = where(RTYPE=3, QAGE=range(0, 18))
    >>> minors.allows({"RTYPE": 3, "QAGE": 17}), minors.allows({"RTYPE": 3, "QAGE": 18})
    (True, False)
    >>> (minors & where(RELSHIP=["25"])).columns
    ('QAGE', 'RELSHIP', 'RTYPE')
    """

    terms: tuple[tuple[str, frozenset[Code]], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.terms]
        if names != sorted(set(names)):
            raise ValueError(f"expected every column once, in order, got {', '.join(names)}")
        for name, codes in self.terms:
            if type(codes) is not frozenset:
                raise TypeError(f"{name}: expected a frozen set of codes, got {type(codes).__name__}")
            kinds = {type(code) for code in codes}
            if kinds not in (set(), {int}, {str}):
                found = ", ".join(sorted(kind.__name__ for kind in kinds))
                raise TypeError(f"{name}: expected whole numbers or texts as codes, got {found}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the condition looks at, in alphabetical order."""
        return tuple(name for name, _ in self.terms)

    def codes(self, column: str) -> frozenset[Code] | None:
        """The codes allowed in `column`, or None where any is."""
        return dict(self.terms).get(column)

    def on(self, columns: Collection[str]) -> Where:
        """The terms on some columns."""
        return Where(tuple(term for term in self.terms if term[0] in columns))

    def allows(self, row: Mapping[str, object]) -> bool:
        """Whether one row passes."""
        return all(row[name] in codes for name, codes in self.terms)

    def overlaps(self, other: Where) -> bool:
        """Whether some row could pass both: no column keeps them apart."""
        return all(codes for _, codes in (self & other).terms)

    def __and__(self, other: Where) -> Where:
        merged = dict(self.terms)
        for name, codes in other.terms:
            merged[name] = merged[name] & codes if name in merged else codes
        return Where(tuple(sorted(merged.items())))


def where(**columns: Code | Iterable[Code]) -> Where:
    """Build a condition from columns and their allowed codes.

    Codes are plain integers or plain texts; anything else (a function, an expression, a float, a mix) is refused.
    """
    terms = []
    for name, allowed in sorted(columns.items()):
        if isinstance(allowed, int | str):
            codes: frozenset[Code] = frozenset([allowed])
        elif isinstance(allowed, Iterable):
            codes = frozenset(allowed)
        else:
            raise TypeError(f"{name}: expected a code or a collection of codes, got {type(allowed).__name__}")
        if not codes:
            raise ValueError(f"{name}: expected at least one code, got none")
        terms.append((name, codes))
    return Where(tuple(terms))
