"""Estimation from a structured release: variances differ between cells, and no identity is false."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from phsafe.configs.config import Config
from phsafe.estimation import estimate_frames
from phsafe.estimation.identities import identities
from phsafe.estimation.measurement_vector import measured
from phsafe.pipeline.scan import Settings, count


@pytest.fixture(scope="module")
def structured(us) -> Config:
    document = Config.load(us).to_production()
    return Config.load(document | {"sensitivity": "structured", "tau": dict.fromkeys(document["tau"], 2)})


def test_every_identity_holds_for_the_exact_counts(structured, small, noisy):
    """With τ = 2 truncated and untruncated counts differ, so a false identity would show."""
    counts = count(structured, small, Settings())
    vector = measured(structured, noisy(structured, counts, scale=0.0))
    found = identities(vector)
    assert all(vector.counts[plus].sum() == vector.counts[minus].sum() for plus, minus in found)
    everyone = vector.blocks["PH1_num", "usa_*"].positions().ravel()
    touched = [pair for pair in found if np.isin(everyone, np.concatenate(pair)).any()]
    states = vector.blocks["PH1_num", "state_*"].positions().ravel()
    assert touched and all(np.isin(np.concatenate(pair), [*everyone, *states]).all() for pair in touched)
    blind = vector.counts[everyone].sum()
    assert blind > vector.counts[vector.blocks["PH1_num", "usa_A-G"].positions().ravel()].sum()


@pytest.mark.parametrize("method", ["independent", "joint"])
def test_estimates_use_the_variance_of_each_cell(structured, small, noisy, method):
    counts = count(structured, small, Settings())
    tables = estimate_frames(structured, noisy(structured, counts, seed=4), method).tables
    ph3 = tables["PH3"].filter(REGION_TYPE="USA", ITERATION_CODE="A")
    width = {row["CELL"]: row["UPPER_90"] - row["LOWER_90"] for row in ph3.iter_rows(named=True)}
    assert width[9] < width[4] / 2, "blind cells have narrower intervals"
    assert tables["PH1"].select(pl.col("ESTIMATE").is_finite().all()).item()


@pytest.mark.parametrize(("method", "target"), [("independent", None), ("joint", "truncated"), ("joint", "everybody")])
def test_averages_of_blind_counts_may_exceed_the_threshold(structured, small, noisy, method, target):
    """With τ = 2, PH1 divides everybody at * but only two people of each household by race, and PH8 always two."""
    counts = count(structured, small, Settings())
    tables = estimate_frames(structured, noisy(structured, counts, scale=0.0), method, target).tables
    pick = {"REGION_TYPE": "USA", "ITERATION_CODE": "*", "CELL": 1}
    size, occupied = (tables[name].filter(**pick).row(0, named=True) for name in ("PH1", "PH8"))
    truth = counts["PH1_num", "usa_*"].sum() / counts["PH1_denom", "usa_*"].sum()
    assert truth > 2.2
    assert size["LOWER_90"] <= truth <= size["UPPER_90"]
    if target == "everybody":
        assert occupied["ESTIMATE"] == size["ESTIMATE"], "everybody is counted in both"
    else:
        assert occupied["UPPER_90"] <= 2 < size["LOWER_90"], "PH8 is truncated, PH1 is not"
        by_race = tables["PH1"].filter(REGION_TYPE="USA", ITERATION_CODE="A", CELL=1).row(0, named=True)
        assert by_race["UPPER_90"] <= 2
