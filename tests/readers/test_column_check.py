"""The columns and types of a table, and the meaning of values, which is the same for every type."""

import polars as pl
import pyarrow as pa
import pytest

from phsafe.counting.encode import TableEncoder, missing, note_columns, outside
from phsafe.counting.records import RecordFormat
from phsafe.counting.tallies import Counted
from phsafe.model.schema import GEO, KEY, PERSONS, UNITS
from phsafe.readers.column_check import column_problems, extra_columns


def encoded(layout, **columns):
    """Encode columns; return keys, codes, and by column how many values are missing and out of domain."""
    lengths = {len(values) for values in columns.values()}
    keys = {} if KEY in columns else {KEY: pa.array(range(100_000_001, 100_000_001 + max(lengths)))}
    batch = pa.RecordBatch.from_pydict(keys | columns)
    packed = RecordFormat.of(layout, [name for name in columns if name != KEY])
    counted = Counted({}, 0, 0)
    rows = TableEncoder(layout, packed, layout.names, keep_raw=False).encode(batch, counted)
    note_columns(layout.name, rows, counted)
    found = {
        name: tuple(counted.violations[rule(layout, layout[name])] for rule in (missing, outside)) for name in columns
    }
    codes = {field.column.name: field.codes(rows.record).tolist() for field in packed.fields}
    return rows.key.tolist(), codes, found


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("17", 17), ("899999999", 899_999_999), ("007", None), ("-1", None), ("+1", None), ("1.0", None),
        ("1e3", None), (" 1", None), ("1 ", None), ("1\n", None), ("", None), ("x", None), ("0x10", None),
        ("1234567890", None), ("99999999999999999999", None), ("१", None), (None, None), ("1_000", None), ("-0", None),
        ("00", None), ("0x5F5E101", None), ("2147483647", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "dtype", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_integers_have_one_text_form(text, number, dtype):
    keys, _, found = encoded(PERSONS, MAFID=pa.array([text, "5"], dtype))
    assert keys == ([5] if number is None else [number, 5])
    assert found["MAFID"][0] == (number is None)


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", (0, 0)), ("115", (0, 0)), ("116", (0, 1)), ("999999999", (0, 1)), ("017", (1, 0)), (None, (1, 0))],
)
def test_missing_and_out_of_domain_numbers_are_distinguished(text, found):
    _, codes, findings = encoded(PERSONS, QAGE=pa.array([text, "5"], pa.string()))
    assert findings["QAGE"] == found
    assert codes["QAGE"] == [0 if any(found) else int(text) + 1, 6]


DTYPES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.string(),
    pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.uint8(), pa.int64()),
    pa.dictionary(pa.int16(), pa.large_string()), pa.dictionary(pa.uint32(), pa.string_view()),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_of_every_type(dtype):
    values = pa.array([17, None, 0, 120, 115])
    given = pa.array([None if v is None else str(v) for v in values.to_pylist()]) if text(dtype) else values
    codes, found = encoded(PERSONS, QAGE=cast(given, dtype))[1:]
    assert (codes["QAGE"], found["QAGE"]) == ([18, 0, 1, 0, 116], (1, 1))


def text(dtype):
    plain = dtype.value_type if pa.types.is_dictionary(dtype) else dtype
    return not pa.types.is_integer(plain)


def cast(values, dtype):
    """Cast values to any type; Arrow itself can't cast to every dictionary type."""
    if pa.types.is_dictionary(dtype):
        encoded = values.dictionary_encode()
        dictionary = encoded.dictionary.cast(dtype.value_type)
        return pa.DictionaryArray.from_arrays(encoded.indices.cast(dtype.index_type), dictionary)
    return values.cast(dtype)


@pytest.mark.parametrize("dtype", [pa.int64(), pa.uint64(), pa.uint32()], ids=str)
def test_an_integer_beyond_32_bits_is_missing(dtype):
    values = [2**31 - 1, 2**31, 2**62 if dtype.bit_width == 64 else 2**32 - 1]
    keys, codes, found = encoded(PERSONS, MAFID=pa.array(values, dtype), QAGE=pa.array(values, dtype))
    assert keys == [2**31 - 1]
    assert found == {"MAFID": (2, 1), "QAGE": (2, 1)}
    assert codes["QAGE"] == [0]


def test_negative_integers_are_out_of_domain_or_missing():
    values = pa.array([-1, -(2**31), -(2**31) - 1])
    keys, _, found = encoded(PERSONS, MAFID=values, QAGE=values)
    assert keys == [-1, -(2**31)]
    assert found == {"MAFID": (1, 2), "QAGE": (1, 2)}


TEXT_DTYPES = [dtype for dtype in DTYPES if text(dtype)]


@pytest.mark.parametrize("dtype", TEXT_DTYPES, ids=str)
def test_codes_are_compared_as_exact_text(dtype):
    values = pa.array(["01", "1", "", None, "63", "64", "01 "])
    codes, found = encoded(PERSONS, CENRACE=cast(values, dtype))[1:]
    assert (codes["CENRACE"], found["CENRACE"]) == ([1, 0, 0, 0, 63, 0, 0], (1, 4))
    codes, found = encoded(GEO, TABBLKCOU=cast(pa.array(["000", "999", "1", "0001", None, "९९९"]), dtype))[1:]
    assert (codes["TABBLKCOU"], found["TABBLKCOU"]) == ([1, 1000, 0, 0, 0, 0], (1, 3))


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["01", "1", "63"])], ids=str)
def test_polars_categories_are_read_as_text(dtype):
    frame = pl.DataFrame({"CENRACE": pl.Series(["01", "1", None, "63"], dtype=dtype)}).to_arrow()
    (values,) = frame["CENRACE"].chunks
    codes, found = encoded(PERSONS, CENRACE=values)[1:]
    assert (codes["CENRACE"], found["CENRACE"]) == ([1, 0, 0, 63], (1, 1))


def test_a_dictionary_may_contain_nulls_and_unused_values():
    dictionary = pa.array(["nobody's", None, "20", "38"])
    values = pa.DictionaryArray.from_arrays(pa.array([2, 1, None, 3], pa.int8()), dictionary)
    codes, found = encoded(PERSONS, RELSHIP=values)[1:]
    assert (codes["RELSHIP"], found["RELSHIP"]) == ([1, 0, 0, 19], (2, 0))


@pytest.mark.parametrize("dtype", [pa.int8(), pa.uint64(), pa.string()], ids=str)
def test_codes_of_one_digit_may_be_integers(dtype):
    given = [1, 4, 9, None] if pa.types.is_integer(dtype) else ["1", "4", "9", None]
    codes, found = encoded(UNITS, TEN=pa.array(given, dtype))[1:]
    assert (codes["TEN"], found["TEN"]) == ([2, 5, 0, 0], (1, 1))


def test_column_order_and_extra_columns_do_not_matter():
    columns = {"RELSHIP": ["20", "21"], "RTYPE": [3, 5], "QAGE": [7, 8], "MAFID": [100_000_005, 100_000_001]}
    layout_order = [name for name in PERSONS.names if name in columns]
    packed = RecordFormat.of(PERSONS, ["RTYPE", "QAGE", "RELSHIP"])
    encoder, counted = TableEncoder(PERSONS, packed, PERSONS.names, keep_raw=False), Counted({}, 0, 0)
    one = encoder.encode(pa.RecordBatch.from_pydict({"X": ["S3CRET", None]} | columns), counted)
    other = encoder.encode(pa.RecordBatch.from_pydict({name: columns[name] for name in layout_order}), counted)
    assert one.key.tolist() == other.key.tolist() == [100_000_005, 100_000_001]
    assert one.record.tolist() == other.record.tolist()


# --- accepted columns and types -----------------------------------------------------------------------------------


def schema_of(layout, **types):
    dtypes = {c.name: pa.int64() if c.is_integer else pa.string() for c in layout.columns}
    return pa.schema([(name, dtype) for name, dtype in (dtypes | types).items() if dtype])


@pytest.mark.parametrize("layout", [PERSONS, UNITS, GEO], ids=lambda layout: layout.name)
def test_the_layout_itself_has_no_problems(layout):
    assert column_problems(schema_of(layout), layout) == []
    assert extra_columns(schema_of(layout), layout) == 0
    assert extra_columns(schema_of(layout, X=pa.string(), y=pa.binary()), layout) == 2


def test_every_missing_column_is_named():
    problems = column_problems(schema_of(PERSONS, QAGE=None, RELSHIP=None), PERSONS)
    assert problems == ["persons: column QAGE is missing", "persons: column RELSHIP is missing"]
    assert column_problems(schema_of(GEO, TABTRACTCE=None, PLACEFP=None), GEO) == []


def test_a_repeated_column_is_reported():
    twice = pa.schema([*schema_of(PERSONS, X=pa.int8()), ("QAGE", pa.int64()), ("X", pa.int8())])
    assert column_problems(twice, PERSONS) == ["persons: expected column QAGE once, got it more than once"]


@pytest.mark.parametrize("dtype", TEXT_DTYPES, ids=str)
def test_every_column_may_be_text(dtype):
    for layout in (PERSONS, UNITS, GEO):
        assert column_problems(schema_of(layout, **dict.fromkeys(layout.names, dtype)), layout) == []


@pytest.mark.parametrize(
    ("layout", "column", "dtype", "got"),
    [
        (PERSONS, "QAGE", pa.float64(), "float64"),
        (PERSONS, "QAGE", pa.float32(), "float32"),
        (PERSONS, "QAGE", pa.bool_(), "boolean"),
        (PERSONS, "QAGE", pa.date32(), "date32[day]"),
        (PERSONS, "QAGE", pa.decimal128(10, 0), "decimal128(10, 0)"),
        (PERSONS, "QAGE", pa.null(), "null"),
        (PERSONS, "CENRACE", pa.int64(), "int64"),
        (PERSONS, "CENRACE", pa.binary(), "binary"),
        (PERSONS, "CENRACE", pa.list_(pa.string()), "list<item: string>"),
        (PERSONS, "CENRACE", pa.dictionary(pa.int8(), pa.int64()), "int64"),
        (UNITS, "HHT2", pa.int32(), "int32"),
        (GEO, "TABBLKST", pa.int64(), "int64"),
        (GEO, "TABBLKCOU", pa.int64(), "int64"),
    ],
)
def test_lossy_types_are_refused(layout, column, dtype, got):
    (problem,) = column_problems(schema_of(layout, **{column: dtype}), layout)
    expected = "integers" if layout[column].is_integer else "text with its leading zeros"
    assert problem == f"{layout.name}: expected column {column} as {expected}, got {got}"


def test_a_column_name_in_lower_case_or_with_spaces_gets_a_hint():
    names = [column.name for column in PERSONS.columns]
    schema = pa.schema([(f" {names[0].lower()} " if i == 0 else name, pa.string()) for i, name in enumerate(names)])
    (problem,) = column_problems(schema, PERSONS)
    assert problem == f"persons: column {names[0]} is missing; found ' {names[0].lower()} ', rename it to {names[0]}"
