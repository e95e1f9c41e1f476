"""A small YAML writer for mappings, lists, strings and numbers, which every YAML parser reads the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from phsafe.model.exact_numbers import text


def dump(document: Mapping[str, Any]) -> str:
    r"""A document as YAML. Strings are quoted, or written as a block if they have several lines.

    >>> print(dump({"a": "x: 1", "b": ["y"], "c": {"d": Decimal("0.50"), "e": "two\nlines"}}))
    a: "x: 1"
    b:
      - "y"
    c:
      d: 0.5
      e: |
        two
        lines
    <BLANKLINE>
    """
    return "".join(f"{line}\n" for line in _mapping(document))


def _mapping(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        first, *rest = _value(value)
        yield f"{key}:{f' {first}' if first else ''}"
        yield from (f"  {line}" if line else "" for line in rest)


def _value(value: object) -> Iterator[str]:
    """The lines of a value: first what follows the key on the same line, then the lines below."""
    if isinstance(value, Mapping):
        yield ""
        yield from _mapping(value)
    elif isinstance(value, list):
        yield ""
        for item in value:
            lines = list(_mapping(item)) if isinstance(item, Mapping) else list(_value(item))
            yield from (f"{'- ' if i == 0 else '  '}{line}" for i, line in enumerate(lines))
    elif isinstance(value, str) and "\n" in value and not value[0].isspace():
        yield "|"
        yield from value.split("\n")
    elif isinstance(value, str):
        yield json.dumps(value, ensure_ascii=False)
    else:
        yield text(value) if isinstance(value, Decimal) else str(value)
