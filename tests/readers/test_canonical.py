import ibis
import polars as pl
import pytest

from phsafe.engines import EngineOptions, open_engine
from phsafe.schema import GEO, PERSONS, UNITS
from phsafe.readers.canonical import canonical, type_problems


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


def ages(engine, values, kind=pl.String):
    frame = pl.DataFrame({"QAGE": pl.Series(values, dtype=kind)}).to_arrow()
    return engine.fetch(canonical(engine.read_arrow(frame), PERSONS))["QAGE"].to_pylist()


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("17", 17), ("899999999", 899_999_999), ("007", None), ("-1", None), ("+1", None), ("1.0", None),
        ("1e3", None), (" 1", None), ("1 ", None), ("1\n", None), ("", None), ("x", None), ("0x10", None),
        ("1234567890", None), ("99999999999999999999", None), ("१", None), (None, None), ("1_000", None),
    ],
)  # fmt: skip
def test_there_is_one_way_to_write_an_integer(engine, text, number):
    assert ages(engine, [text, "5"]) == [number, 5]


@pytest.mark.parametrize(
    "kind", [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
)
def test_integers_of_every_size(engine, kind):
    assert ages(engine, [17, None, 0], kind) == [17, None, 0]


@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt64])
def test_an_integer_that_does_not_fit_is_null(engine, kind):
    assert ages(engine, [2**31 - 1, 2**31, 2**62], kind) == [2**31 - 1, None, None]


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["01", "1", ""])])
def test_texts_stay_as_they_are(engine, kind):
    frame = pl.DataFrame({"CENRACE": pl.Series(["01", "1", "", None], dtype=kind)}).to_arrow()
    table = engine.fetch(canonical(engine.read_arrow(frame), PERSONS))
    assert table["CENRACE"].to_pylist() == ["01", "1", "", None]


def test_codes_of_one_digit_may_be_integers(engine):
    frame = pl.DataFrame({"TEN": [1, 4], "HHT": [0, 7]}).to_arrow()
    assert engine.fetch(canonical(engine.read_arrow(frame), UNITS)).to_pydict() == {
        "HHT": ["0", "7"],
        "TEN": ["1", "4"],
    }


def test_columns_of_the_layout_in_its_order(engine):
    frame = pl.DataFrame({"X": [1], "RELSHIP": ["20"], "RTYPE": [3]}).to_arrow()
    assert canonical(engine.read_arrow(frame), PERSONS).columns == ("RTYPE", "RELSHIP")


def schema_of(layout, **types):
    kinds = {c.name: "int64" if c.is_integer else "string" for c in layout.columns}
    return ibis.table({name: kind for name, kind in (kinds | types).items() if kind}, name="t")


@pytest.mark.parametrize("layout", [PERSONS, UNITS, GEO], ids=lambda layout: layout.name)
def test_no_problem_with_the_layout_itself(layout):
    assert type_problems(schema_of(layout), layout) == []


def test_every_missing_column_is_named():
    problems = type_problems(schema_of(PERSONS, QAGE=None, RELSHIP=None), PERSONS)
    assert problems == ["persons: column QAGE is missing", "persons: column RELSHIP is missing"]
    assert type_problems(schema_of(GEO, TABTRACTCE=None, PLACEFP=None), GEO) == []


@pytest.mark.parametrize(
    ("layout", "column", "kind"),
    [
        (PERSONS, "QAGE", "float64"),
        (PERSONS, "QAGE", "boolean"),
        (PERSONS, "QAGE", "date"),
        (PERSONS, "QAGE", "decimal(10, 0)"),
        (PERSONS, "CENRACE", "int64"),
        (PERSONS, "CENRACE", "binary"),
        (PERSONS, "CENRACE", "array<string>"),
        (UNITS, "HHT2", "int32"),
        (GEO, "TABBLKST", "int64"),
        (GEO, "TABBLKCOU", "int64"),
    ],
)
def test_types_that_lose_something_are_refused(layout, column, kind):
    (problem,) = type_problems(schema_of(layout, **{column: kind}), layout)
    assert problem.startswith(f"{layout.name}: expected column {column} as ")
