"""Neighbours through Spark: the attack on the structure of levels, with the same counts as on this machine."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path

import numpy as np
import pytest

from phsafe.pipeline.scan import scan_tables
from phsafe.readers import load


@pytest.fixture
def attack(monkeypatch):
    """The module with the attack that counts with DuckDB."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "privacy_attacks")
    return importlib.import_module("test_attack_structure_engine")


@pytest.mark.parametrize(("name", "tau"), [("vanishing_unit", 2), ("family_gate", 3)])
def test_no_block_and_no_tabulation_exceeds_its_claim(attack, spark, monkeypatch, name, tau):
    """C16 to C19: one record more, and one record replaced, where units vanish or become group quarters."""
    unit_of = getattr(attack, name)
    _, expected = attack.counted(unit_of, tau, "structured")
    runs = []

    def count(config, frames):
        runs.append(scan_tables(load(frames, spark), config, spark).counts())
        return runs[-1]

    monkeypatch.setattr(attack, "count", count)
    monkeypatch.setattr(attack, "counted", functools.cache(attack.counted.__wrapped__))
    attack.test_no_block_and_no_tabulation_exceeds_its_claim(unit_of, tau, "structured")
    assert len(runs) == len(expected) == 3
    for found, same in zip(runs, expected.values(), strict=True):
        assert found.keys() == same.keys()
        assert all(np.array_equal(found[key], same[key]) for key in found)
