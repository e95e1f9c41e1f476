"""What rules look at, packed in a few integers, so that MAFIDs which are alike can be counted together.

The millions of households have few compositions: rules are decided once for each. Values outside their domains are
packed as unknown; the rules on columns have reported them, and no other rule looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import ibis
from ibis.expr.types import IntegerColumn, IntegerValue, Table, Value

from phsafe.schema import Column
from phsafe.tabulation.coding import Classes, among, code_at, list_of

#: A count has 13 bits, so that four fit in the 53 that a float adds up exactly. Floats, because no number of persons is
#: too large for them: engines refuse whole numbers that are, or add them up in twice the bytes.
FIELD_BITS = 13
LIMIT = 2**FIELD_BITS
FIELDS_PER_WORD = 4


@dataclass(frozen=True)
class Facts:
    """Columns of one row as digits of one integer; digit 0 is unknown. The last column weighs most."""

    columns: tuple[Column, ...]

    @property
    def _strides(self) -> list[int]:
        sizes = [_size(column) for column in self.columns]
        return [prod(sizes[:i]) for i in range(len(sizes))]

    def pack(self, table: Table) -> IntegerValue:
        """The integer of each row."""
        total = ibis.literal(0, "int64")
        for column, stride in zip(self.columns, self._strides, strict=True):
            total = total + _digit(table, column) * ibis.literal(stride, "int64")
        return total

    def unpack(self, packed: IntegerColumn) -> dict[str, Value]:
        """The columns again, null where the value was unknown (or the integer is null)."""
        found = {}
        for column, stride in zip(self.columns, self._strides, strict=True):
            digit = (packed // ibis.literal(stride, "int64")).cast("int64") % _size(column)
            if column.is_integer:
                found[column.name] = (digit + _below(column)).nullif(_below(column))
            else:
                found[column.name] = code_at(list_of([str(code) for code in column.codes]), digit)
        return found


def known(table: Table, column: Column) -> Value:
    """A row's value if it is in the domain, else null."""
    value = table[column.name].cast("int64") if column.is_integer else table[column.name]
    return (_digit(table, column) > 0).ifelse(value, ibis.null(value.type()))


def _size(column: Column) -> int:
    """How many digits a column needs, 0 included."""
    return 1 + (int(column.codes[-1]) - _below(column) if column.is_integer else len(column.codes))


def _below(column: Column) -> int:
    """The number below the domain of a column of numbers."""
    return int(column.codes[0]) - 1


def _digit(table: Table, column: Column) -> IntegerValue:
    """A number of its own for each value in the domain, from 1; 0 for others."""
    if not column.is_integer:
        return Classes(column.name, tuple(frozenset({code}) for code in column.codes)).expression(table)
    value = table[column.name]
    inside = among(value, column.codes).fill_null(False)
    return inside.ifelse(value.cast("int64") - _below(column), ibis.literal(0, "int64"))


@dataclass(frozen=True)
class Fields:
    """Counts side by side in words: below LIMIT each, or the word means nothing."""

    names: Sequence[str]

    @property
    def words(self) -> list[str]:
        """The columns that hold the words."""
        return [f"word{i}" for i in range(-(-len(self.names) // FIELDS_PER_WORD))]

    def weights(self, name: str) -> tuple[str, int]:
        """The word of a field, and what one adds to it."""
        word, place = divmod(self.names.index(name), FIELDS_PER_WORD)
        return self.words[word], 1 << (FIELD_BITS * place)

    def unpack(self, table: Table) -> dict[str, IntegerValue]:
        """The counts again."""
        found = {}
        for name in self.names:
            word, weight = self.weights(name)
            shifted = table[word] >> ibis.literal(weight.bit_length() - 1, "int64")
            found[name] = (shifted & ibis.literal(LIMIT - 1, "int64")).cast("int64")
        return found
