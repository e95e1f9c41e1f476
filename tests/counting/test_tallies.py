"""Tallies, as an array of all codes or as a list of those that occur."""

import numpy as np
import pytest

from phsafe.counting import tallies
from phsafe.counting.tallies import NO_KEY, Counted, Rule, Tally


@pytest.mark.parametrize("dense", [0, 10**6], ids=["list", "array"])
def test_codes_are_counted_and_added(monkeypatch, dense):
    monkeypatch.setattr(tallies, "DENSE", dense)
    total = Tally(100)
    total.count(np.array([3, 99, 3, 7]))
    total.count(np.array([], np.int64))
    total.add(np.array([7, 50]), np.array([10, -2]))
    codes, numbers = total.items()
    assert dict(zip(codes.tolist(), numbers.tolist(), strict=True)) == {3: 2, 7: 11, 50: -2, 99: 1}


@pytest.mark.parametrize("dense", [0, 10**6], ids=["list", "array"])
def test_codes_beyond_the_size_are_not_counted(monkeypatch, dense):
    monkeypatch.setattr(tallies, "DENSE", dense)
    total = Tally(4)
    total.count(np.array([4, 0, 11, 3, 3]))
    assert [part.tolist() for part in total.items()] == [[0, 3], [1, 2]]


def test_a_row_without_a_key_is_the_last_example():
    """The largest key has 31 bits."""
    counted, rule = Counted({}, 0, examples=2), Rule("made up", "error", "persons", "QAGE")
    counted.note(rule, np.array([NO_KEY]))
    assert counted.keys[rule].tolist() == [NO_KEY]
    counted.note(rule, np.array([2**31 - 1, 7]))
    assert counted.keys[rule].tolist() == [7, 2**31 - 1]
