"""Records packed into integers: the narrow form in which rows travel from a reader to the kernel.

Every value becomes a *code*: its position in the domain of its column, from 1, or 0 if it is missing or outside the
domain. The codes of a record are side by side in one integer. Widths and positions come from the layout and the config,
never from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phsafe.schema import Column, Digits, Layout

Array = NDArray[Any]
#: Columns that stand side by side are looked up together, in tables of up to this many bits.
TABLE_BITS = 14


@dataclass(frozen=True)
class Field:
    """Where the code of a column stands in a packed record."""

    column: Column
    shift: int
    bits: int

    def codes(self, records: Array) -> Array:
        """The code of this column in each record."""
        return (records >> self.shift) & ((1 << self.bits) - 1)

    def code(self, value: int | str) -> int:
        """The code of a value of the domain."""
        return 1 + self.column.codes.index(value)


@dataclass(frozen=True)
class RecordFormat:
    """The fields of a packed record, from the lowest bits up."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, layout: Layout, names: Iterable[str]) -> RecordFormat:
        """Pack the named columns of a layout, in this order."""
        fields: list[Field] = []
        shift = 0
        for name in names:
            bits = domain_size(layout[name]).bit_length()
            fields.append(Field(layout[name], shift, bits))
            shift += bits
        return cls(tuple(fields))

    def __getitem__(self, name: str) -> Field:
        return next(field for field in self.fields if field.column.name == name)

    @property
    def bits(self) -> int:
        """The width of a record."""
        return sum(field.bits for field in self.fields)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest signed integer that holds a record."""
        return next(
            np.dtype(kind)
            for kind in (np.int16, np.int32, np.int64)
            if self.bits < 8 * np.dtype(kind).itemsize
        )


def domain_size(column: Column) -> int:
    """How many values a domain has; the largest code."""
    return 10**column.domain.width if isinstance(column.domain, Digits) else len(column.domain)


@dataclass(frozen=True)
class Lookup:
    """A number for each record: the sum of one table entry for each group of columns that matters."""

    tables: tuple[tuple[int, Array], ...]

    @classmethod
    def of(
        cls, record_format: RecordFormat, numbers: Callable[[Column], Array | None], dtype: type[np.generic]
    ) -> Lookup:
        """Build the tables.

        Args:
            record_format: How records are packed.
            numbers: For a column, the number that each of its codes adds, code 0 first; None where it adds nothing.
            dtype: The type of the sums.

        """
        tables: list[tuple[int, Array]] = []
        end = -1
        for field in record_format.fields:
            added = numbers(field.column)
            if added is None:
                continue
            table = np.zeros(1 << field.bits, dtype)
            table[: len(added)] = added
            if tables and end == field.shift and len(tables[-1][1]) << field.bits <= 1 << TABLE_BITS:
                shift, lower = tables.pop()
                table = (table[:, None] + lower[None, :]).reshape(-1)
                tables.append((shift, table))
            else:
                tables.append((field.shift, table))
            end = field.shift + field.bits
        return cls(tuple(tables))

    def __call__(self, records: Array) -> Array:
        """The number of each record."""
        total: Array | None = None
        for shift, table in self.tables:
            part = gather(table, (records >> shift) & (len(table) - 1))
            total = part if total is None else np.add(total, part, out=total)
        return np.zeros(len(records), np.int64) if total is None else total


def gather(table: Array, positions: Array) -> Array:
    """The entries of a table at some positions. NumPy is nine times slower at positions that have not 64 bits."""
    return table.take(positions.astype(np.intp, copy=False))


@dataclass(frozen=True)
class Rows:
    """Packed rows of one table.

    Attributes:
        key: The household key (MAFID) of each row.
        record: The packed record of each row.
        raw: For person records with an unknown code, all values as text, because truncation orders records by their
            values; null for other rows, None if there is no such row.

    """

    key: Array
    record: Array
    raw: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.key)

    def take(self, order: Array) -> Rows:
        """Some of the rows, in the given order."""
        raw = None if self.raw is None else self.raw.take(pa.array(order))
        return Rows(self.key[order], self.record[order], raw)

    def between(self, start: int, end: int) -> Rows:
        """The rows from `start` up to, but not including, `end`."""
        raw = None if self.raw is None else self.raw.slice(start, end - start)
        return Rows(self.key[start:end], self.record[start:end], raw)

    def in_key_order(self) -> Rows:
        """The same rows sorted by key."""
        if len(self) < 2 or bool((self.key[1:] >= self.key[:-1]).all()):
            return self
        # One sort of key and position in the same integer takes a third of the time of argsort.
        position = np.arange(len(self), dtype=np.int64)
        return self.take(np.sort((self.key.astype(np.int64) << 32) | position) & 0xFFFFFFFF)

    @staticmethod
    def concat(parts: Sequence[Rows], dtype: np.dtype[Any]) -> Rows:
        """The rows of all parts, one after another."""
        if not parts:
            return Rows(np.zeros(0, np.int32), np.zeros(0, dtype))
        if len(parts) == 1:
            return parts[0]
        raw = None
        if any(part.raw is not None for part in parts):
            nothing = [pa.nulls(len(part), pa.string()) if part.raw is None else part.raw for part in parts]
            raw = pa.concat_arrays(nothing)
        keys, records = [part.key for part in parts], [part.record for part in parts]
        return Rows(np.concatenate(keys), np.concatenate(records), raw)


def strides(sizes: Sequence[int]) -> list[int]:
    """The weight of each digit of a mixed-radix number, lowest first.

    >>> strides([3, 4, 5])
    [1, 3, 12]
    """
    return [prod(sizes[:i]) for i in range(len(sizes))]
