"""Records packed into integers: the narrow form in which rows travel from a reader to the kernel.

Every value becomes a *code*: its position in the domain of its column, from 1, or 0 if it is missing or outside the
domain. The codes of a record are side by side in one integer. Widths and positions come from the layout and the config,
never from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phsafe.schema import Column, Digits, Layout

Array = NDArray[Any]
#: Columns that are side by side are looked up together, in tables of up to this many bits.
TABLE_BITS = 14


@dataclass(frozen=True)
class Field:
    """Where the code of a column is in a packed record."""

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
        for name in names:
            shift = fields[-1].shift + fields[-1].bits if fields else 0
            fields.append(Field(layout[name], shift, domain_size(layout[name]).bit_length()))
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
        return np.dtype(next(f"i{size}" for size in (2, 4, 8) if self.bits < 8 * size))


def domain_size(column: Column) -> int:
    """How many values a domain has, which is the largest code."""
    return 10**column.domain.width if isinstance(column.domain, Digits) else len(column.domain)


class Lookup:
    """A number for each record: the sum of what its columns add, looked up in a few tables."""

    def __init__(self, record_format: RecordFormat, numbers: Callable[[Column], Array | None]) -> None:
        """Build the tables; `numbers` gives what each code of a column adds, or None if it adds nothing."""
        self._tables: list[tuple[int, Array]] = []
        end = None
        for field in record_format.fields:
            added = numbers(field.column)
            if added is None:
                continue
            table = np.zeros(1 << field.bits, np.int64)
            table[: len(added)] = added
            shift = field.shift
            if end == shift and len(self._tables[-1][1]) << field.bits <= 1 << TABLE_BITS:
                shift, lower = self._tables.pop()
                table = (table[:, None] + lower[None, :]).reshape(-1)
            self._tables.append((shift, table))
            end = field.shift + field.bits

    def __call__(self, records: Array) -> Array:
        """The number of each record."""
        total = np.zeros(len(records), np.int64)
        for shift, table in self._tables:
            total += gather(table, (records >> shift) & (len(table) - 1))
        return total


def gather(table: Array, positions: Array) -> Array:
    """The entries of a table at some positions. NumPy is nine times slower at positions of fewer than 64 bits."""
    return table.take(positions.astype(np.intp, copy=False))


@dataclass(frozen=True)
class Rows:
    """Packed rows of one table: the household key (MAFID) and the packed record of each.

    `raw` holds all values of person records with an unknown code as text, because truncation orders records by
    their values; it is null for other rows, and None if there are no such rows.
    """

    key: Array
    record: Array
    raw: pa.StringArray | None = None

    def __len__(self) -> int:
        return len(self.key)

    def take(self, order: Array) -> Rows:
        """Some of the rows, in the given order."""
        return Rows(self.key[order], self.record[order], self.raw and self.raw.take(pa.array(order)))

    def between(self, start: int, end: int) -> Rows:
        """The rows from `start` up to, but not including, `end`."""
        return Rows(self.key[start:end], self.record[start:end], self.raw and self.raw.slice(start, end - start))

    def in_key_order(self) -> Rows:
        """The same rows sorted by key."""
        if bool((self.key[1:] >= self.key[:-1]).all()):
            return self
        # Sorting key and position in one integer takes a third of the time of argsort.
        position = np.arange(len(self), dtype=np.int64)
        return self.take(np.sort((self.key.astype(np.int64) << 32) | position) & 0xFFFFFFFF)

    @staticmethod
    def concat(parts: Sequence[Rows], dtype: np.dtype[Any]) -> Rows:
        """The rows of all parts, one after another."""
        parts = [Rows(np.zeros(0, np.int32), np.zeros(0, dtype)), *parts]
        raw = None
        if any(part.raw is not None for part in parts):
            raw = pa.concat_arrays([part.raw or pa.nulls(len(part), pa.string()) for part in parts])
        key, record = (np.concatenate([getattr(part, name) for part in parts]) for name in ("key", "record"))
        return Rows(key, record, raw)
