"""Records packed into integers: the compact form in which rows reach the kernel.

Each value is replaced by a *code*: its position in the column's domain, from 1, or 0 if it is missing or outside the
domain. One integer holds all codes of a record. Bit widths and positions follow from the layout and the config, never
from the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from phsafe.model.schema import Column, Digits, Layout

Array = NDArray[Any]
#: Adjacent columns share a lookup table as long as it is indexed by at most this many bits.
TABLE_BITS = 14


@dataclass(frozen=True)
class Field:
    """The bits of a packed record that hold the code of one column."""

    column: Column
    shift: int
    bits: int

    def codes(self, records: Any) -> Any:  # noqa: ANN401  (an array, or a single record)
        """The code of this column in each record."""
        return (records >> self.shift) & ((1 << self.bits) - 1)

    def code(self, value: int | str) -> int:
        """The code of a value in the column's domain."""
        return 1 + self.column.codes.index(value)


@dataclass(frozen=True)
class RecordFormat:
    """The fields of a packed record, from the lowest bits up."""

    fields: tuple[Field, ...]

    @classmethod
    def of(cls, layout: Layout, names: Iterable[str]) -> RecordFormat:
        """The format that packs the named columns of a layout, in this order."""
        fields: list[Field] = []
        for name in names:
            shift = fields[-1].shift + fields[-1].bits if fields else 0
            fields.append(Field(layout[name], shift, domain_size(layout[name]).bit_length()))
        return cls(tuple(fields))

    def __getitem__(self, name: str) -> Field:
        return next(field for field in self.fields if field.column.name == name)

    @property
    def bits(self) -> int:
        """The width of a record in bits."""
        return sum(field.bits for field in self.fields)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest signed integer type that holds a record."""
        return np.dtype(next(f"i{size}" for size in (2, 4, 8) if self.bits < 8 * size))


def domain_size(column: Column) -> int:
    """The number of values in a column's domain, which is also its largest code."""
    return 10**column.domain.width if isinstance(column.domain, Digits) else len(column.domain)


class Lookup:
    """Maps packed records to numbers: the sum of what each column contributes, looked up in a few tables."""

    def __init__(self, record_format: RecordFormat, numbers: Callable[[Column], Array | None]) -> None:
        """Build the tables; `numbers` returns what each code of a column contributes, or None for no contribution."""
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
    """`table[positions]`, sped up: NumPy is nine times slower if positions have fewer than 64 bits."""
    return table.take(positions.astype(np.intp, copy=False))


def numbers(values: pa.Array, *, missing: int = 0) -> Array:
    """The whole numbers of an Arrow array; 64-bit if any is missing. Arrow's own conversion would load pandas."""
    return np.from_dlpack(values.cast(pa.int64(), safe=False).fill_null(missing) if values.null_count else values)


@dataclass(frozen=True)
class Rows:
    """Packed rows of one table: the household key (MAFID) and the packed record of each row.

    `raw` keeps the values of person records with an unknown code, because truncation orders records by their
    values. It is null for other rows, and None if every code is known. `wrong` has a bit for each column rule that a
    row violates (`phsafe.counting.encode.COLUMN_RULES`); it is None if no row violates any.
    """

    key: Array
    record: Array
    raw: pa.BinaryArray | None = None
    wrong: Array | None = None

    def __len__(self) -> int:
        return len(self.key)

    def take(self, order: Array) -> Rows:
        """The rows at the given positions, in that order."""
        return self._each(lambda column: column.take(order))

    def between(self, start: int, end: int) -> Rows:
        """The rows from `start` up to, but not including, `end`."""
        return self._each(lambda column: column[start:end])

    def _each(self, pick: Callable[[Any], Any]) -> Rows:
        raw, wrong = (None if column is None else pick(column) for column in (self.raw, self.wrong))
        return Rows(pick(self.key), pick(self.record), raw, wrong)

    def in_key_order(self) -> Rows:
        """The same rows sorted by key."""
        if bool((self.key[1:] >= self.key[:-1]).all()):
            return self
        # Sorting integers that combine key and position takes a third of the time of argsort.
        position = np.arange(len(self), dtype=np.int64)
        return self.take(np.sort((self.key.astype(np.int64) << 32) | position) & 0xFFFFFFFF)

    @staticmethod
    def concat(parts: Sequence[Rows], dtype: np.dtype[Any]) -> Rows:
        """Concatenate the rows of all parts."""
        parts = [Rows(np.zeros(0, np.int32), np.zeros(0, dtype)), *parts]
        raw, wrong = None, None
        if any(part.raw is not None for part in parts):
            raw = pa.concat_arrays([part.raw or pa.nulls(len(part), pa.binary()) for part in parts])
        if any(part.wrong is not None for part in parts):
            wrong = np.concatenate([np.zeros(len(p), np.uint32) if p.wrong is None else p.wrong for p in parts])
        return Rows(np.concatenate([p.key for p in parts]), np.concatenate([p.record for p in parts]), raw, wrong)
