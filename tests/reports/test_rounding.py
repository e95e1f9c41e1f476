"""Rounding for display: as many digits as the interval supports, and never a shorter interval."""

from hypothesis import given
from hypothesis import strategies as st

from phsafe.display.numbers import rounded_texts
from phsafe.model.tables import PH1, PH3


def values(texts):
    estimate, interval = texts
    return [float(text.replace(",", "")) for text in (estimate, *interval.split(" – "))]


def cells(number):
    return st.tuples(number, number, number).map(lambda three: tuple(sorted(three))).map(lambda c: (c[1], c[0], c[2]))


@given(cells(st.integers(0, 10**9)))
def test_rounded_counts(cell):
    check(cell, values(rounded_texts(cell, PH3)))


@given(cells(st.integers(0, 200_000).map(lambda n: n / 10_000)))
def test_rounded_averages(cell):
    check(cell, values(rounded_texts(cell, PH1)))


def check(cell, shown):
    estimate, lower, upper = cell
    margin = (upper - lower) / 2
    assert abs(shown[0] - estimate) <= margin / 8 + 1e-9
    assert shown[1] <= lower + 1e-9 and upper - 1e-9 <= shown[2]
    assert lower - shown[1] <= margin / 4 + 1e-9 and shown[2] - upper <= margin / 4 + 1e-9
