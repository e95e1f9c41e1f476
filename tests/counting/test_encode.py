"""Encoding: a value gets the same code whatever its type; missing and out-of-domain values are distinguished."""

import numpy as np
import pyarrow as pa
import pytest

from phsafe.counting.encode import MISSING, SEPARATOR, TableEncoder, missing, note_columns, outside, raw_values
from phsafe.counting.records import RecordFormat
from phsafe.counting.tallies import NO_KEY, Counted
from phsafe.model.schema import GEO, PERSONS

FORMAT = RecordFormat.of(PERSONS, ("QAGE", "RTYPE", "CENHISP", "CENRACE", "RELSHIP"))
GOOD = {"RTYPE": 3, "MAFID": 100_000_001, "QAGE": 30, "CENHISP": 1, "CENRACE": "07", "RELSHIP": "20"}


def encoded(column, values, dtype, *, layout=PERSONS, record_format=FORMAT, good=GOOD):
    """Encode rows that differ in one column; return the rows and what was counted."""
    columns = {name: pa.array([value] * len(values)) for name, value in good.items()}
    columns[column] = pa.array(values, dtype)
    counted = Counted({}, 0, examples=9)
    encoder = TableEncoder(layout, record_format, layout.names, keep_raw=layout is PERSONS)
    rows = encoder.encode(pa.RecordBatch.from_pydict(columns), counted)
    note_columns(layout.name, rows, counted)
    return rows, counted


AGES = [0, 115, 116, -1, None]


@pytest.mark.parametrize(
    "dtype",
    [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.dictionary(pa.int8(), pa.int64())],
    ids=str,
)
def test_a_number_has_one_code_whatever_its_type(dtype):
    rows, counted = encoded("QAGE", AGES, dtype)
    assert FORMAT["QAGE"].codes(rows.record).tolist() == [1, 116, 0, 0, 0]
    assert counted.violations == {outside(PERSONS, PERSONS["QAGE"]): 2, missing(PERSONS, PERSONS["QAGE"]): 1}


@pytest.mark.parametrize("dtype", [pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], ids=str)
def test_unsigned_numbers_have_the_same_codes(dtype):
    rows, _ = encoded("QAGE", [0, 115, 116, 255], dtype)
    assert FORMAT["QAGE"].codes(rows.record).tolist() == [1, 116, 0, 0]


@pytest.mark.parametrize(("dtype", "number"), [(pa.int64(), 2**40), (pa.int64(), -(2**40)), (pa.uint64(), 2**63 + 1)])
def test_a_number_beyond_32_bits_counts_as_missing(dtype, number):
    rows, counted = encoded("QAGE", [30, number], dtype)
    assert FORMAT["QAGE"].codes(rows.record).tolist() == [31, 0]
    assert counted.violations == {missing(PERSONS, PERSONS["QAGE"]): 1}


@pytest.mark.parametrize(
    "dtype", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
def test_a_text_has_one_code_whatever_its_type(dtype):
    rows, counted = encoded("CENRACE", ["01", "63", "64", "1", "", None], dtype)
    assert FORMAT["CENRACE"].codes(rows.record).tolist() == [1, 63, 0, 0, 0, 0]
    assert counted.violations == {outside(PERSONS, PERSONS["CENRACE"]): 3, missing(PERSONS, PERSONS["CENRACE"]): 1}


@pytest.mark.parametrize("text", ["01", "+1", "-1", " 1", "1 ", "1.0", "1e0", "", "1\n", "١", "1234567890"])
def test_other_text_forms_of_numbers_count_as_missing(text):
    for column in ("MAFID", "QAGE"):
        _, counted = encoded(column, ["100000001" if column == "MAFID" else "5", text], pa.string())
        assert counted.violations == {missing(PERSONS, PERSONS[column]): 1}


def test_numbers_in_text_are_parsed():
    rows, counted = encoded("MAFID", ["100000001", "899999999", "5", None], pa.string())
    assert rows.key.tolist() == [100_000_001, 899_999_999, 5]
    assert rows.key.dtype == np.int32
    assert counted.violations == {outside(PERSONS, PERSONS["MAFID"]): 1, missing(PERSONS, PERSONS["MAFID"]): 1}
    assert counted.keys[missing(PERSONS, PERSONS["MAFID"])].tolist() == [NO_KEY]
    assert counted.rows == {"persons": 4}


def test_only_records_with_an_unknown_code_keep_their_values():
    rows, _ = encoded("QAGE", [30, 116, None], pa.int64())
    texts = [[b"3", age, b"1", b"07", b"20"] for age in (b"116", MISSING)]
    assert rows.raw.to_pylist() == [None, *map(SEPARATOR.join, texts)]
    assert encoded("QAGE", [30, 31], pa.int64())[0].raw is None


def test_columns_that_are_not_packed_are_checked():
    record_format = RecordFormat.of(GEO, ("TABBLKST", "RTYPE"))
    good = {"RTYPE": 2, "MAFID": 100_000_001, "TABBLKST": "44"}
    rows, counted = encoded(
        "TABBLKCOU", ["001", "1", "abc", None], pa.string(), layout=GEO, record_format=record_format, good=good
    )
    assert set(rows.record.tolist()) == {rows.record[0]}
    assert counted.violations == {outside(GEO, GEO["TABBLKCOU"]): 2, missing(GEO, GEO["TABBLKCOU"]): 1}


def test_digits_are_their_own_code():
    record_format = RecordFormat.of(GEO, ("TABBLKST", "TABBLKCOU", "RTYPE"))
    good = {"RTYPE": 2, "MAFID": 100_000_001, "TABBLKST": "44"}
    rows, _ = encoded(
        "TABBLKCOU", ["000", "999", "9999", "００1"], pa.string(), layout=GEO, record_format=record_format, good=good
    )
    assert record_format["TABBLKCOU"].codes(rows.record).tolist() == [1, 1000, 0, 0]


@pytest.mark.parametrize("text", ["ÿ", "þ", "aÿ", "\ufffe\uffff", "\U0010ffff", "", "\x00"])
def test_raw_values_round_trip_with_any_characters(text):
    rows, _ = encoded("RELSHIP", [text, None], pa.string())
    assert [raw_values(raw)[-1] for raw in rows.raw.to_pylist()] == [text, None]
    assert all(len(raw_values(raw)) == 5 for raw in rows.raw.to_pylist())
