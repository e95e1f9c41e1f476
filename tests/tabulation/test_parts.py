"""Sums over parts, and queries written once."""

import polars as pl

from phsafe.tabulation.parts import Once, Sum


def test_parts_add_up_by_all_columns_but_the_counts():
    total = Sum("n")
    for part in range(5):
        total.add(pl.DataFrame({"code": range(60_000), "n": [part + 1] * 60_000}))
    found = total.total()
    assert len(found) == 60_000
    assert set(found["n"]) == {15}


def test_counts_alone_are_one_row():
    total = Sum("a", "b")
    total.add(pl.DataFrame({"a": [1], "b": [2]}))
    total.add(pl.DataFrame({"a": [10], "b": [20]}))
    assert total.total().rows() == [(11, 22)]


def test_the_same_arguments_give_the_same_result():
    calls, once = [], Once()
    one, other = [1], [1]

    def make(*arguments):
        calls.append(arguments)
        return object()

    assert once(make, one) is once(make, one)
    assert once(make, other) is not once(make, one)
    assert len(calls) == 2
