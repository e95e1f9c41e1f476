"""Small counts side by side in one integer, so that one sum counts many things at once.

Each kind of row has a field of FIELD_BITS bits in one of a few 64-bit words. A household of fewer than LIMIT rows can't
make a field run over; larger ones (there should be none) are counted apart, field by field.
"""

from __future__ import annotations

from dataclasses import dataclass

import ibis
from ibis.expr.types import IntegerValue, Table

FIELD_BITS = 9
LIMIT = 2**FIELD_BITS
#: Seven fields leave the sign bit alone.
FIELDS_PER_WORD = 7


@dataclass(frozen=True)
class Packing:
    """Room for `fields` counts."""

    fields: int

    @property
    def words(self) -> list[str]:
        """The columns that hold the packed counts."""
        return [f"word{i}" for i in range(-(-self.fields // FIELDS_PER_WORD))]

    def weights(self, field: IntegerValue) -> dict[str, IntegerValue]:
        """What a row of a given field adds to each word."""
        weights = {}
        for i, word in enumerate(self.words):
            first = i * FIELDS_PER_WORD
            last = min(first + FIELDS_PER_WORD, self.fields)
            branches = [(j, _long(1 << (FIELD_BITS * (j - first)))) for j in range(first, last)]
            weights[word] = field.cases(*branches, else_=_long(0))
        return weights

    def unpack(self, table: Table, field: int) -> IntegerValue:
        """One count of a table that has the words."""
        word, place = divmod(field, FIELDS_PER_WORD)
        shifted = table[self.words[word]] >> _long(FIELD_BITS * place)
        return shifted.cast("int64") & _long(LIMIT - 1)

    def pack(self, counts: list[int]) -> list[int]:
        """The words of some counts, each below LIMIT.

        >>> Packing(8).pack([1, 0, 0, 0, 0, 0, 2, 3]) == [1 + (2 << 54), 3]
        True
        """
        words = [0] * len(self.words)
        for field, number in enumerate(counts):
            word, place = divmod(field, FIELDS_PER_WORD)
            words[word] += number << (FIELD_BITS * place)
        return words


def _long(number: int) -> IntegerValue:
    return ibis.literal(number, "int64")
