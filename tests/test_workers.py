"""Work shared out over processes."""

import os

import pytest

from phsafe.errors import PHSafeError
from phsafe.workers import cores, in_order


def test_results_come_in_order():
    assert list(in_order(abs, range(-20, 0), jobs=2)) == list(range(20, 0, -1))
    assert cores() >= 1


def test_a_process_that_ends_early_is_said_in_words():
    with pytest.raises(PHSafeError, match="ended early"):
        list(in_order(os._exit, [3], jobs=2))
