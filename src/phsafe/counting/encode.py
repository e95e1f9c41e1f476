"""Step 1, encode: columns as a file has them become packed records; values that break a rule are counted.

Whatever types a file has, a value has one meaning: a number is a whole number of 32 bits, a code is a text. Texts
are looked up once for each different text, never row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from phsafe.counting.findings import NO_KEY, Findings, missing, outside
from phsafe.counting.records import Array, Field, RecordFormat, Rows, gather
from phsafe.schema import KEY, Column, Digits, Layout

#: The one way to write a whole number as text. Libraries read "3.7" or " 3" as numbers in different ways.
INTEGER_TEXT = "^(0|[1-9][0-9]{0,8})$"
#: Numbers with one digit are below the first of these, with two digits below the second, and so on.
POWERS = 10 ** np.arange(1, 9)
#: In the text of a record with an unknown code: between two values, and for a missing value.
SEPARATOR, MISSING = "\x1f", "\x00"
SMALLEST, LARGEST = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class ColumnEncoder:
    """How one column is encoded.

    Attributes:
        column: The column and its domain.
        shift: Where its code stands in a record; None for a column that is only checked.
        dtype: The type of records.
        table: For whole numbers, the shifted code of each number from one below the domain to one above it.

    """

    column: Column
    shift: int | None
    dtype: np.dtype[Any]
    table: Array | None

    @classmethod
    def of(cls, column: Column, field: Field | None, dtype: np.dtype[Any]) -> ColumnEncoder:
        """Prepare a column; `field` is its place in a record, if it has one."""
        table = None
        if column.is_integer:
            numbers = np.array(column.codes) - int(column.codes[0]) + 1
            table = np.zeros(numbers[-1] + 2, dtype)
            table[numbers] = np.arange(1, len(numbers) + 1) << (field.shift if field else 0)
        return cls(column, field.shift if field else None, dtype, table)

    def encode(self, values: pa.Array) -> Array | None:
        """The code of each row at its place in a record; 0 where the value is missing or outside its domain.

        None for a column that is only checked, if every value is in its domain.
        """
        if _is_integer(values) and self.table is not None:
            return self._by_table(_integers(values), self.table)
        values = values if _is_dictionary(values) else _texts(values).dictionary_encode()
        codes = self._of_distinct(values.dictionary)
        if self.shift is None and values.null_count == 0 and codes.all():
            return None
        indices = values.indices.fill_null(len(codes)) if values.null_count else values.indices
        return gather(np.append(codes, codes.dtype.type(0)), indices.to_numpy())

    def _by_table(self, numbers: pa.Array, table: Array) -> Array:
        first = int(self.column.codes[0])
        given = (numbers.fill_null(first - 1) if numbers.null_count else numbers).to_numpy().astype(np.int32)
        return gather(table, np.clip(given, first - 1, first + len(table) - 2) - (first - 1))

    def _of_distinct(self, values: pa.Array) -> Array:
        """The codes of a few different values."""
        if self.table is not None:
            return self._by_table(_integers(values), self.table)
        texts = _texts(values)
        if isinstance(self.column.domain, Digits):
            fits = pc.match_substring_regex(texts, f"^[0-9]{{{self.column.domain.width}}}$")
            codes = pc.if_else(fits, texts, "-1").cast(pa.int64()).fill_null(-1).to_numpy() + 1
        else:
            positions = {code: i for i, code in enumerate(self.column.domain, 1)}
            codes = np.array([positions.get(text, 0) for text in texts.to_pylist()], np.int64)
        return (codes << (self.shift or 0)).astype(self.dtype)

    def readable(self, values: pa.Array) -> pa.Array:
        """The values without dictionary, as whole numbers or texts; null where a value is neither."""
        plain = values.dictionary_decode() if _is_dictionary(values) else values
        return _integers(plain) if self.column.is_integer else _texts(plain)


@dataclass(frozen=True)
class TableEncoder:
    """How one table is encoded.

    Attributes:
        layout: The table's columns and their domains.
        columns: How each of them but the key is encoded.
        dtype: The type of records.
        keep_raw: Whether to keep the values of records with an unknown code (`Rows.raw`).
        examples: How many keys of offenders to keep for each rule.

    """

    layout: Layout
    columns: tuple[ColumnEncoder, ...]
    dtype: np.dtype[Any]
    keep_raw: bool
    examples: int

    @classmethod
    def of(
        cls, layout: Layout, record_format: RecordFormat, examples: int, *, keep_raw: bool
    ) -> TableEncoder:
        """Prepare a table; columns that `record_format` doesn't have are only checked."""
        fields = {field.column.name: field for field in record_format.fields}
        columns = tuple(
            ColumnEncoder.of(column, fields.get(column.name), record_format.dtype)
            for column in layout.columns
            if column.name != KEY
        )
        return cls(layout, columns, record_format.dtype, keep_raw, examples)

    def encode(self, batch: pa.RecordBatch) -> tuple[Rows, Findings]:
        """Encode a batch of rows. Rows without a key are checked and left out.

        Args:
            batch: Columns as the file has them, in any order; columns that the layout doesn't have are ignored.

        Returns:
            The packed rows, in the order of the batch, and the rows that break a rule on columns.

        """
        findings = Findings(self.examples)
        keys = self._keys(batch, findings)
        record = np.zeros(len(batch), self.dtype)
        known = np.ones(len(batch), dtype=bool)
        for encoder in self.columns:
            if encoder.column.name not in batch.schema.names:
                continue
            values = batch.column(encoder.column.name)
            codes = encoder.encode(values)
            if codes is None:
                continue
            if encoder.shift is not None:
                record |= codes
            if np.count_nonzero(codes) < len(codes):
                known &= codes != 0
                self._note(findings, encoder.column, keys, encoder.readable(values), codes != 0)
        raw = self._raw(batch, known) if self.keep_raw and not known.all() else None
        rows = Rows(keys, record, raw)
        if keys.dtype != np.int32:
            rows = rows.take(np.flatnonzero(keys != NO_KEY))
        return Rows(rows.key.astype(np.int32, copy=False), rows.record, rows.raw), findings

    def _keys(self, batch: pa.RecordBatch, findings: Findings) -> Array:
        """The key of each row: 32 bits if every row has one, otherwise 64 with `NO_KEY` where there is none."""
        column = self.layout[KEY]
        values = batch.column(KEY)
        given = _integers(values.dictionary_decode() if _is_dictionary(values) else values)
        if given.null_count:
            keys = given.cast(pa.int64()).fill_null(NO_KEY).to_numpy()
        else:
            keys = given.to_numpy().astype(np.int32, copy=False)
        assert isinstance(column.domain, range)
        inside = (keys >= column.domain.start) & (keys < column.domain.stop)
        if not inside.all():
            self._note(findings, column, keys, given, inside)
        return keys

    def _note(self, findings: Findings, column: Column, keys: Array, values: pa.Array, inside: Array) -> None:
        """Record the rows whose value is missing, and those whose value is outside its domain."""
        given = values.is_valid().to_numpy(zero_copy_only=False)
        findings.add(missing(self.layout, column), keys[~given])
        findings.add(outside(self.layout, column), keys[given & ~inside])

    def _raw(self, batch: pa.RecordBatch, known: Array) -> pa.StringArray:
        """The values of the rows with an unknown code, one text for each row."""
        odd = pa.array(~known)
        values = [encoder.readable(batch.column(encoder.column.name)).filter(odd) for encoder in self.columns]
        texts = [column.cast(pa.string()).fill_null(MISSING) for column in values]
        joined = pc.binary_join_element_wise(*texts, SEPARATOR)
        return pc.replace_with_mask(pa.nulls(len(batch), pa.string()), odd, joined)


def _is_dictionary(values: pa.Array) -> bool:
    return bool(pa.types.is_dictionary(values.type))


def _is_integer(values: pa.Array) -> bool:
    return bool(pa.types.is_integer(values.type))


def _texts(values: pa.Array) -> pa.Array:
    return values if values.type == pa.string() else values.cast(pa.string())


def _integers(values: pa.Array) -> pa.Array:
    """Whole numbers of 32 bits; null where a value is none or needs more."""
    if not _is_integer(values):
        return _parsed(_texts(values))
    if values.type.bit_width < 32 or values.type == pa.int32():
        return values
    low, high = pc.min_max(values).as_py().values()
    if low is not None and (low < SMALLEST or high > LARGEST):
        fits = pc.less_equal(values, LARGEST)
        if pa.types.is_signed_integer(values.type):
            fits = pc.and_(fits, pc.greater_equal(values, SMALLEST))
        values = pc.if_else(fits, values, pa.scalar(None, values.type))
    return values.cast(pa.int32())


def _parsed(texts: pa.Array) -> pa.Array:
    """Texts in the form of `INTEGER_TEXT` as numbers; null for others."""
    try:
        numbers = texts.cast(pa.int32())
    except pa.ArrowInvalid:
        numbers = None
    if numbers is not None:
        # Arrow also reads signs and leading zeros. As many characters as digits: there are none.
        digits = 1 + np.searchsorted(POWERS, numbers.drop_null().to_numpy(), side="right")
        if digits.sum() == (pc.sum(pc.binary_length(texts)).as_py() or 0):
            return numbers
    return pc.if_else(pc.match_substring_regex(texts, INTEGER_TEXT), texts, None).cast(pa.int32())
