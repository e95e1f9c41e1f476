"""Step 1, encode: pack source columns into records, and mark rows with missing (null) or invalid values.

A value means the same regardless of its type in the file: numbers are 32-bit integers, codes are strings. Each distinct
string is looked up once, never row by row. Marked rows are counted in step 3, once their household's state is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from phsafe.counting.records import Array, RecordFormat, Rows, gather, numbers
from phsafe.counting.tallies import NO_KEY, Counted, Rule
from phsafe.model.schema import KEY, LAYOUTS, Column, Digits, Layout

#: The only accepted text form of a whole number. Libraries disagree about texts such as "3.7" or " 3".
INTEGER_TEXT = "^(0|[1-9][0-9]{0,8})$"
#: What separates a record's values in `Rows.raw`, and what marks a missing one: bytes that UTF-8 never uses.
SEPARATOR, MISSING = b"\xff", b"\xfe"
SMALLEST, LARGEST = -(2**31), 2**31 - 1


def missing(layout: Layout, column: Column) -> Rule:
    """The rule that a column has a value in every row."""
    name = "the value is a whole number" if column.is_integer else "the value is not missing"
    return Rule(name, "error", layout.name, column.name)


def outside(layout: Layout, column: Column) -> Rule:
    """The rule that every value of a column is in its domain."""
    return Rule("the value is in the column's domain", "error", layout.name, column.name)


#: Table → its column rules. A rule's position is its bit in `Rows.wrong`.
COLUMN_RULES_OF = {
    layout.name: tuple(rule(layout, column) for rule in (missing, outside) for column in layout.columns)
    for layout in LAYOUTS
}
COLUMN_RULES = tuple(rule for rules in COLUMN_RULES_OF.values() for rule in rules)


class ColumnEncoder:
    """Encodes one column. A column that is not part of the packed record is only checked."""

    def __init__(self, column: Column, record_format: RecordFormat) -> None:
        field = next((field for field in record_format.fields if field.column == column), None)
        self.column, self.is_packed, self._dtype = column, field is not None, record_format.dtype
        self._shift = field.shift if field else 0
        if column.is_integer:
            # The code of each number, and 0 for the first number above the domain.
            self._table = np.zeros(int(column.codes[-1]) + 2, self._dtype)
            self._table[np.array(column.codes)] = np.arange(1, len(column.codes) + 1) << self._shift

    def encode(self, values: pa.Array) -> Array:
        """The code of each row, shifted to its bits in the record; 0 if the value is missing or outside its domain."""
        if pa.types.is_integer(values.type) and self.column.is_integer:
            return self._of_integers(values)
        values = values if pa.types.is_dictionary(values.type) else _texts(values).dictionary_encode()
        known = self._of_integers(values.dictionary) if self.column.is_integer else self._of_texts(values.dictionary)
        codes = np.append(known, known.dtype.type(0))
        return gather(codes, numbers(values.indices, missing=len(known)))

    def _of_integers(self, values: pa.Array) -> Array:
        above = len(self._table) - 1
        given = numbers(values if pa.types.is_integer(values.type) else _integers(values), missing=above)
        if given.min(initial=0) < 0 or given.max(initial=0) > above:
            given = np.where((given < 0) | (given > above), np.int64(above), given)
        return gather(self._table, given)

    def _of_texts(self, values: pa.Array) -> Array:
        texts, domain = _texts(values).to_pylist(), self.column.domain
        if isinstance(domain, Digits):
            fits = re.compile(f"[0-9]{{{domain.width}}}").fullmatch
            codes = [int(text) + 1 if fits(text or "") else 0 for text in texts]
        else:
            positions = {code: i for i, code in enumerate(domain, 1)}
            codes = [positions.get(text, 0) for text in texts]
        return (np.array(codes, np.int64) << self._shift).astype(self._dtype)

    def readable(self, values: pa.Array) -> pa.Array:
        """The values as integers or strings, as the column requires; null where a value is not an integer."""
        return _integers(values) if self.column.is_integer else _texts(values)


class TableEncoder:
    """Encodes the named columns of a table, and the household key.

    With `keep_raw`, records with an unknown code keep their values in `Rows.raw`.
    """

    def __init__(self, layout: Layout, record_format: RecordFormat, names: Collection[str], *, keep_raw: bool) -> None:
        self.layout, self._dtype, self._keep_raw = layout, record_format.dtype, keep_raw
        self.names = tuple(name for name in layout.names if name in names or name == KEY)
        self._columns = [ColumnEncoder(layout[name], record_format) for name in self.names if name != KEY]

    def encode(self, batch: pa.RecordBatch, counted: Counted) -> Rows:
        """Pack the rows of a batch in order, mark those that violate a column rule, and count rows.

        Rows without a household key are counted with their violations, then left out. The batch may have columns in any
        order, and columns that the layout doesn't have.
        """
        counted.rows[self.layout.name] += len(batch)
        key, given = self.layout[KEY], _integers(batch.column(KEY))
        keys, first, last = numbers(given, missing=NO_KEY), int(key.codes[0]), int(key.codes[-1])
        record = np.zeros(len(batch), self._dtype)
        marks = list[tuple[Column, pa.Array, Array]]()
        if keys.min(initial=first) < first or keys.max(initial=first) > last:
            marks.append((key, given, (keys >= first) & (keys <= last)))
        for encoder in self._columns:
            if encoder.column.name in batch.schema.names:
                values = batch.column(encoder.column.name)
                codes = encoder.encode(values)
                if encoder.is_packed:
                    record |= codes
                if np.count_nonzero(codes) < len(codes):
                    marks.append((encoder.column, encoder.readable(values), codes != 0))
        unknown = [~inside for column, _, inside in marks if column is not key]
        raw = self._raw(batch, pa.array(np.logical_or.reduce(unknown))) if self._keep_raw and unknown else None
        rows = Rows(keys, record, raw, self._wrong(marks) if marks else None)
        if keys.dtype != np.int32:
            note_columns(self.layout.name, rows.take(np.flatnonzero(keys == NO_KEY)), counted)
            rows = rows.take(np.flatnonzero(keys != NO_KEY))
        return Rows(rows.key.astype(np.int32, copy=False), rows.record, rows.raw, rows.wrong)

    def _wrong(self, marks: Sequence[tuple[Column, pa.Array, Array]]) -> Array:
        """For each row, a bit for every column whose value is missing, or given but not `inside` its domain."""
        wrong, rules = np.zeros(len(marks[0][-1]), np.uint32), COLUMN_RULES_OF[self.layout.name]
        for column, values, inside in marks:
            given = numbers(values.is_valid().cast(pa.uint8())).astype(bool)
            wrong[~given] |= np.uint32(1 << rules.index(missing(self.layout, column)))
            wrong[given & ~inside] |= np.uint32(1 << rules.index(outside(self.layout, column)))
        return wrong

    def _raw(self, batch: pa.RecordBatch, unknown: pa.BooleanArray) -> pa.BinaryArray:
        """The values of each row with an unknown code, joined together; null for other rows."""
        values = [encoder.readable(batch.column(encoder.column.name)).filter(unknown) for encoder in self._columns]
        texts = [column.cast(pa.string()).cast(pa.binary()).fill_null(MISSING) for column in values]
        joined = pc.binary_join_element_wise(*texts, SEPARATOR)
        return pc.replace_with_mask(pa.nulls(len(batch), pa.binary()), unknown, joined)


def note_columns(table: str, rows: Rows, counted: Counted) -> None:
    """Count the rows of a table that violate each column rule."""
    if rows.wrong is not None:
        for bit, rule in enumerate(COLUMN_RULES_OF[table]):
            counted.note(rule, rows.key[(rows.wrong >> np.uint32(bit) & np.uint32(1)).astype(bool)])


def raw_values(raw: bytes) -> list[str | None]:
    """Split an entry of `Rows.raw` into its values; None for a missing one."""
    return [None if value == MISSING else value.decode() for value in raw.split(SEPARATOR)]


def _texts(values: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        return _texts(values.dictionary).take(values.indices)
    return values if values.type == pa.string() else values.cast(pa.string())


def _integers(values: pa.Array) -> pa.Array:
    """The values as 32-bit integers; null where a value is not an integer or does not fit."""
    if pa.types.is_dictionary(values.type):
        return _integers(values.dictionary).take(values.indices)
    if not pa.types.is_integer(values.type):
        return _parsed(_texts(values))
    if values.type.bit_width >= 32 and values.type != pa.int32():
        given = numbers(values.fill_null(0) if values.null_count else values)
        fits = (given >= SMALLEST) & (given <= LARGEST)
        if not fits.all():
            values = pc.if_else(pa.array(fits), values, pa.scalar(None, values.type))
    return values.cast(pa.int32())


def _parsed(texts: pa.Array) -> pa.Array:
    """Parse texts that match `INTEGER_TEXT`; null for all others."""
    fits = pc.match_substring_regex(texts, INTEGER_TEXT)
    return (texts if pc.all(fits).as_py() else pc.if_else(fits, texts, None)).cast(pa.int32())
