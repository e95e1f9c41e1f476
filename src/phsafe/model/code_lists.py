"""Code lists as text, as written in catalogs: codes and ranges of codes of one column, such as ``20-24, 34-36``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache

from phsafe.model.conditions import Code
from phsafe.model.schema import Column

#: The shortest run of codes that is written as a range.
SHORTEST_RANGE = 3


def codes_text(column: Column, codes: Collection[Code]) -> str:
    """Write codes of a column in the order of its domain, with runs as ranges.

    >>> from phsafe.model.schema import PERSONS
    >>> codes_text(PERSONS["QAGE"], {0, 1, 2, 3, 64, 65}), codes_text(PERSONS["RELSHIP"], {"36", "25", "26", "27"})
    ('0-3, 64, 65', '25-27, 36')
    """
    positions = _positions(column)
    runs: list[list[str]] = []
    before = None
    for code in sorted(map(str, codes), key=positions.__getitem__):
        if before is not None and positions[code] == positions[before] + 1:
            runs[-1].append(code)
        else:
            runs.append([code])
        before = code
    parts = [[f"{run[0]}-{run[-1]}"] if len(run) >= SHORTEST_RANGE else run for run in runs]
    return ", ".join(part for run in parts for part in run)


@lru_cache
def domain_text(column: Column) -> str:
    """All codes of a column."""
    return codes_text(column, column.codes)


def parse_codes(column: Column, text: str) -> frozenset[Code]:
    """Read codes of a column, which must be in the order of its domain.

    Raises:
        ValueError: A code isn't one of the column's, or is out of order.

    >>> from phsafe.model.schema import PERSONS
    >>> sorted(parse_codes(PERSONS["QAGE"], "0-2, 5"))
    [0, 1, 2, 5]
    """
    return frozenset(_codes(column, text))


def _codes(column: Column, text: str) -> Iterator[Code]:
    positions = _positions(column)
    end = -1
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        start, before = positions.get(first, -1), end
        end = positions.get(last, -1) if dash else start
        # In order, so that no text asks for more codes than the column has.
        if not before < start <= end:
            raise ValueError(
                f"expected codes of {column.name} among {domain_text(column)}, in this order, got {text[:60]!r}"
            )
        yield from column.codes[start : end + 1]


@lru_cache
def _positions(column: Column) -> Mapping[str, int]:
    """The position of each code in the column's domain."""
    return {str(code): i for i, code in enumerate(column.codes)}
