"""Conditions on a single row: the only way to write universes, cells and iterations.

A condition names columns and the codes each may hold. Evaluating it needs one row and nothing else: a filter or
cell map that compares rows, counts them or calls code can't be expressed. The privacy argument depends on this
(claim C2 of docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

Code = int | str


@dataclass(frozen=True)
class Where:
    """A conjunction of terms: each named column must hold one of its allowed codes. Without terms, every row passes.

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
            raise ValueError(f"expected distinct columns in alphabetical order, got {', '.join(names)}")
        for name, codes in self.terms:
            if type(codes) is not frozenset:
                raise TypeError(f"{name}: expected a frozenset of codes, got {type(codes).__name__}")
            types = {type(code) for code in codes}
            if types not in (set(), {int}, {str}):
                found = ", ".join(sorted(code_type.__name__ for code_type in types))
                raise TypeError(f"{name}: expected codes that are all integers or all strings, got {found}")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the condition reads, in alphabetical order."""
        return tuple(name for name, _ in self.terms)

    def codes(self, column: str) -> frozenset[Code] | None:
        """The codes allowed in `column`, or None if the condition doesn't restrict it."""
        return dict(self.terms).get(column)

    def on(self, columns: Collection[str]) -> Where:
        """The condition restricted to its terms on the given columns."""
        return Where(tuple(term for term in self.terms if term[0] in columns))

    def allows(self, row: Mapping[str, object]) -> bool:
        """Whether a row satisfies the condition."""
        return all(row[name] in codes for name, codes in self.terms)

    def overlaps(self, other: Where) -> bool:
        """Whether a row could satisfy both conditions, that is, no column has disjoint codes in the two."""
        mine = dict(self.terms)
        possible = all(codes for _, codes in (*self.terms, *other.terms))
        return possible and not any(name in mine and mine[name].isdisjoint(codes) for name, codes in other.terms)

    def implies(self, other: Where) -> bool:
        """Whether every row that satisfies this condition also satisfies the other.

        >>> where(QAGE=5).implies(where(QAGE=range(18))), where(QAGE=20).implies(where(QAGE=range(18)))
        (True, False)
        """
        mine = dict(self.terms)
        return all(name in mine and mine[name] <= codes for name, codes in other.terms)

    def __and__(self, other: Where) -> Where:
        merged = dict(self.terms)
        for name, codes in other.terms:
            merged[name] = merged[name] & codes if name in merged else codes
        return Where(tuple(sorted(merged.items())))


def where(**columns: Code | Iterable[Code]) -> Where:
    """Build a condition from columns and their allowed codes.

    Args:
        **columns: Column name → one code or a collection of codes. All codes of a column are integers or all are
            strings; a function, an expression, a float or a mix of types is refused.
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
