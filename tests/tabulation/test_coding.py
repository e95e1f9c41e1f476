import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phsafe.conditions import where
from phsafe.engine import EngineOptions, open_engine
from phsafe.tabulation.coding import Coding, among, looked_up


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


CONDITIONS = [
    where(QAGE=range(18)),
    where(QAGE=range(4, 30), RELSHIP=["25", "26"]),
    where(QAGE=[1, 3, 115]),
    where(RELSHIP="20", CENHISP=2),
    where(),
]
ROWS = [
    {"QAGE": age, "RELSHIP": relationship, "CENHISP": ethnicity}
    for age in (0, 1, 3, 4, 17, 18, 29, 30, 115, 116, -1, None)
    for relationship in ("20", "25", "26", "27", "", None)
    for ethnicity in (1, 2, None)
]


def coded(engine, coding, rows):
    frame = pl.DataFrame(
        rows, schema={"QAGE": pl.Int32, "RELSHIP": pl.String, "CENHISP": pl.Int32}
    ).with_row_index("i")
    table = engine.read_arrow(frame.to_arrow())
    result = engine.fetch(table.select("i", code=coding.expression(table)).order_by("i"))
    return result["code"].to_numpy()


def test_a_code_decides_every_condition(engine):
    coding = Coding.of(CONDITIONS)
    codes = coded(engine, coding, ROWS)
    assert codes.min() >= 0
    assert codes.max() < coding.size
    for condition in CONDITIONS:
        assert coding.mask(codes, condition).tolist() == [condition.allows(row) for row in ROWS]


def test_a_coarser_code_where_a_column_allows_nothing():
    nothing = where(QAGE=1) & where(QAGE=2)
    finer, coarser = Coding.of([nothing, where(QAGE=1)]), Coding.of([nothing])
    assert finer.coarsened(np.arange(finer.size), coarser).tolist() == [0, 0]


@pytest.mark.parametrize("kept", [[0], [1], [2, 3], [0, 1, 2, 3], [4], []], ids=str)
def test_a_coarser_code_can_be_told_from_a_finer_one(engine, kept):
    finer, coarser = Coding.of(CONDITIONS), Coding.of(CONDITIONS[i] for i in kept)
    found = finer.coarsened(coded(engine, finer, ROWS), coarser)
    assert found.tolist() == coded(engine, coarser, ROWS).tolist()


def test_no_more_classes_than_conditions_can_tell_apart():
    coding = Coding.of([where(QAGE=range(18)), where(QAGE=range(18, 116)), where(QAGE=range(0, 116))])
    assert coding.size == 3
    assert Coding.of([where()]).size == 1


def test_the_part_of_a_condition_that_a_coding_decides():
    coding = Coding.of([where(QAGE=1), where(RELSHIP="20")])
    assert coding.part(where(QAGE=1, HHT="1")) == where(QAGE=1)
    assert coding.part(where(HHT="1")) == where()


CODES = st.frozensets(st.integers(0, 12), min_size=1)


@settings(max_examples=200)
@given(st.lists(st.tuples(CODES, CODES), min_size=1, max_size=5))
def test_classes_are_atoms(pairs):
    conditions = [where(A=a, B=b) for a, b in pairs]
    coding = Coding.of(conditions)
    for classes in coding.classes:
        members = [code for group in classes.members for code in group]
        assert len(members) == len(set(members))
        sets = [condition.codes(classes.column) for condition in conditions]
        assert set(members) == set().union(*sets)
        # Codes of one class are in the same sets; codes of different classes are not.
        signatures = [{tuple(code in s for s in sets) for code in group} for group in classes.members]
        assert all(len(s) == 1 for s in signatures)
        assert len({next(iter(s)) for s in signatures}) == len(signatures)


def test_mask_is_a_vector_of_truths():
    coding = Coding.of([where(A=1)])
    assert coding.mask(np.array([], dtype=np.int64), where(A=1)).dtype == bool


@pytest.mark.parametrize(
    "codes", [range(4, 30), [0, *range(2, 98)], [2, 4], [1, 3, 17, 29, 115], [-1, 0, 1]], ids=str
)
def test_a_number_is_among_some_codes(engine, codes):
    table = engine.read_arrow(pl.DataFrame(ROWS, schema={"QAGE": pl.Int32}).with_row_index("i").to_arrow())
    found = engine.fetch(table.select("i", inside=among(table.QAGE, codes)).order_by("i"))
    assert found["inside"].to_pylist() == [
        None if row["QAGE"] is None else row["QAGE"] in codes for row in ROWS
    ]


@pytest.mark.parametrize(
    "codes",
    [
        ["01", "1"],
        ["a,b", "a"],
        [","],
        [""],
        ["", "x"],
        ["x", ""],
        ["'", "\\", "\n", "|", ".", "\\,"],
        ["NULL"],
    ],
    ids=repr,
)
def test_a_text_s_number(engine, codes):
    texts = [*codes, *",".join(codes).split(","), "null", " ", None]
    table = engine.read_arrow(pl.DataFrame({"i": range(len(texts)), "text": texts}).to_arrow())
    numbers = {code: 7 * i for i, code in enumerate(codes)}
    found = engine.fetch(table.select("i", number=looked_up(table.text, numbers)).order_by("i"))
    assert found["number"].to_pylist() == [numbers.get(text) for text in texts]
