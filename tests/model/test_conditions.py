import pytest

from phsafe.model.conditions import Where, where


def test_a_row_passes_if_every_column_holds_an_allowed_code():
    condition = where(RTYPE=3, QAGE=range(18), RELSHIP=["25", "26"])
    row = {"RTYPE": 3, "QAGE": 17, "RELSHIP": "26", "CENRACE": "01"}
    assert condition.allows(row)
    for change in ({"RTYPE": 5}, {"QAGE": 18}, {"QAGE": None}, {"RELSHIP": "20"}):
        assert not condition.allows(row | change)
    assert where().allows({})


def test_codes_keep_their_type():
    assert not where(TEN="1").allows({"TEN": 1})
    assert not where(QAGE=1).allows({"QAGE": "1"})


def test_equality_ignores_the_order_of_columns_and_codes():
    assert where(A=[2, 1], B="x") == where(B=["x"], A=range(1, 3))
    assert len({where(A=1, B=2), where(B=2, A=1)}) == 1


def test_conjunction_of_two_conditions():
    both = where(QAGE=range(0, 18), RTYPE=3) & where(QAGE=range(12, 30))
    assert both == where(QAGE=range(12, 18), RTYPE=3)
    assert both.codes("QAGE") == frozenset(range(12, 18))
    assert both.codes("RELSHIP") is None


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        (where(), where(), True),
        (where(QAGE=range(18)), where(QAGE=range(18, 116)), False),
        (where(QAGE=range(19)), where(QAGE=range(18, 116)), True),
        (where(QAGE=range(18)), where(RELSHIP="20"), True),
        (where(QAGE=range(18), RELSHIP="20"), where(RELSHIP="21"), False),
    ],
)
def test_overlap(one, other, overlap):
    assert one.overlaps(other) is other.overlaps(one) is overlap


@pytest.mark.parametrize(
    "codes", [lambda row: True, 1.5, [1.5], [True], True, [None], None, [[1]], [b"1"], [1, "1"], object()]
)
def test_codes_other_than_integers_or_strings_are_refused(codes):
    with pytest.raises(TypeError):
        where(QAGE=codes)


def test_an_empty_set_of_codes_is_refused():
    with pytest.raises(ValueError, match="at least one code"):
        where(QAGE=[])


class Anything(frozenset):
    """A set whose membership test runs code."""

    def __contains__(self, code):
        return True


@pytest.mark.parametrize(
    "terms",
    [
        (("QAGE", lambda row: True),),
        (("QAGE", {1}),),
        (("QAGE", frozenset({1.5})),),
        (("QAGE", frozenset({1})), ("QAGE", frozenset({2}))),
        (("RTYPE", frozenset({1})), ("QAGE", frozenset({2}))),
    ],
)
def test_the_constructor_refuses_what_where_refuses(terms):
    with pytest.raises((TypeError, ValueError)):
        Where(terms)


def test_sets_and_codes_that_run_code_are_refused():
    with pytest.raises(TypeError):
        Where((("QAGE", Anything({1})),))
    disguised = type("int", (int,), {"__eq__": lambda self, other: True, "__hash__": int.__hash__})
    with pytest.raises(TypeError):
        where(QAGE=[disguised(1)])
