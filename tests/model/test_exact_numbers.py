import json
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phsafe.model.exact_numbers import dumps, round_up, text


@given(st.decimals(allow_nan=False, allow_infinity=False, places=20, min_value=-1000, max_value=1000))
def test_text_is_exact(number):
    assert Decimal(text(number)) == number
    assert "E" not in text(number)


@given(st.fractions(min_value=-1000, max_value=1000, max_denominator=10**6), st.integers(0, 12))
def test_rounding_never_goes_down(number, places):
    shown = Fraction(round_up(number, places))
    assert number <= shown < number + Fraction(1, 10**places)


@given(st.fractions(max_denominator=10**6))
def test_text_is_exact_for_fractions_without_a_finite_decimal(number):
    assert Fraction(text(number)) == number


def test_dumps_writes_exact_numbers():
    document = {"a": Decimal("0.100000000000000000000001"), "b": [Fraction(1, 3), Fraction(3, 2)], "é": "1.5"}
    shown = dumps(document)
    assert '"a": 0.100000000000000000000001' in shown
    assert '"é": "1.5"' in shown
    assert json.loads(shown)["b"] == [math.nextafter(1 / 3, 1), 1.5]  # Rounded up.


def test_strings_that_look_like_numbers_stay_strings():
    assert json.loads(dumps({"x": "0.5", "y": Decimal("0.5")}), parse_float=Decimal) == {
        "x": "0.5",
        "y": Decimal("0.5"),
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}, b"x"])
def test_values_that_json_cannot_represent_are_refused(value):
    with pytest.raises((TypeError, ValueError)):
        dumps({"x": value})
