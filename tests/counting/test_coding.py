import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phsafe.counting.coding import Coding
from phsafe.counting.encode import TableEncoder
from phsafe.counting.records import RecordFormat
from phsafe.counting.tallies import Counted
from phsafe.model.conditions import where
from phsafe.model.schema import PERSONS

#: Some of the layout's columns, in another order.
FORMAT = RecordFormat.of(PERSONS, ("CENHISP", "RELSHIP", "QAGE"))

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


def coded(coding, rows):
    """Pack rows into records and look up their codes."""
    frame = pl.DataFrame(rows, schema={"QAGE": pl.Int32, "RELSHIP": pl.String, "CENHISP": pl.Int32})
    frame = frame.with_columns(MAFID=pl.int_range(1, pl.len() + 1, dtype=pl.Int32))
    encoder = TableEncoder(PERSONS, FORMAT, PERSONS.names, keep_raw=False)
    records = [encoder.encode(batch, Counted({}, 0, 0)).record for batch in frame.to_arrow().to_batches()]
    return coding.lookup(FORMAT)(np.concatenate(records))


def test_a_code_determines_every_condition():
    coding = Coding.of(CONDITIONS)
    codes = coded(coding, ROWS)
    assert codes.min() >= 0
    assert codes.max() < coding.size
    for condition in CONDITIONS:
        assert coding.mask(condition)[codes].tolist() == [condition.allows(row) for row in ROWS]


def test_coarsening_with_a_condition_that_nothing_meets():
    nothing = where(QAGE=1) & where(QAGE=2)
    finer, coarser = Coding.of([nothing, where(QAGE=1)]), Coding.of([nothing])
    assert finer.coarsened(coarser).tolist() == [0, 0]


@pytest.mark.parametrize("kept", [[0], [1], [2, 3], [0, 1, 2, 3], [4], []], ids=str)
def test_coarsening_gives_the_coarser_coding_s_codes(kept):
    finer, coarser = Coding.of(CONDITIONS), Coding.of(CONDITIONS[i] for i in kept)
    found = finer.coarsened(coarser)[coded(finer, ROWS)]
    assert found.tolist() == coded(coarser, ROWS).tolist()


def test_values_that_no_condition_distinguishes_share_a_class():
    coding = Coding.of([where(QAGE=range(18)), where(QAGE=range(18, 116)), where(QAGE=range(0, 116))])
    assert coding.size == 3
    assert Coding.of([where()]).size == 1


def test_masks_ignore_columns_outside_the_coding():
    coding = Coding.of([where(QAGE=1), where(RELSHIP="20")])
    assert coding.mask(where(QAGE=1, HHT="1")).tolist() == coding.mask(where(QAGE=1)).tolist()
    assert coding.mask(where(HHT="1")).all()


CODES = st.frozensets(st.integers(0, 12), min_size=1)


@settings(max_examples=200)
@given(st.lists(st.tuples(CODES, CODES), min_size=1, max_size=5))
def test_classes_are_atoms(pairs):
    conditions = [where(A=a, B=b) for a, b in pairs]
    coding = Coding.of(conditions)
    for column, classes in coding.columns.items():
        members = [code for group in classes.members for code in group]
        assert len(members) == len(set(members))
        sets = [condition.codes(column) for condition in conditions]
        assert set(members) == set().union(*sets)
        # Codes of one class are in the same sets; codes of different classes are not.
        signatures = [{tuple(code in s for s in sets) for code in group} for group in classes.members]
        assert all(len(s) == 1 for s in signatures)
        assert len({next(iter(s)) for s in signatures}) == len(signatures)
