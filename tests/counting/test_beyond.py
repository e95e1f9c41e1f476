"""Dropped persons and oversized households against a plain count in Polars, and against the truncated tables."""

from __future__ import annotations

import polars as pl
import pytest

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.engines import open_engine
from phsafe.pipeline.exact_counts import tidy
from phsafe.pipeline.scan import scan_tables
from phsafe.readers import load

MINOR = pl.col("QAGE").cast(int) < 18
HOUSEHOLD = pl.col("RTYPE") == "3"
FAMILY = pl.col("RELSHIP").is_in(["20", "21", "23", *map(str, range(25, 34))])
OWN = pl.col("RELSHIP").is_in(["25", "26", "27"])
UNIVERSES = {
    "PH1": HOUSEHOLD, "PH2": HOUSEHOLD, "PH3": HOUSEHOLD & MINOR, "PH4": HOUSEHOLD & FAMILY,
    "PH6": HOUSEHOLD & MINOR & OWN, "PH7": HOUSEHOLD,
}  # fmt: skip
OWN_CHILDREN = pl.col("HHT2").replace_strict({"01": 0, "03": 1, "10": 2, "06": 3}, default=None, return_dtype=pl.Int64)
#: The cell of an oversized household, from its unit.
CELLS = {
    "PH1": pl.lit(1),
    "PH3": 4 + OWN_CHILDREN,
    "PH4": pl.when(pl.col("HHT").is_in(["1", "2", "3"])).then(1),
    "PH6": 2 + 5 * OWN_CHILDREN,
    "PH7": pl.col("TEN").replace_strict({"1": 2, "2": 3, "3": 4, "4": 4}, default=None, return_dtype=pl.Int64),
}
#: Each table with truncated persons and dropped persons: the lines of the table that each cell of the dropped adds up.
LINES = {
    "PH1": ("PH1_num", {2: [2], 3: [3]}),
    "PH3": ("PH3", {2: [2], 3: [4, 5, 6, 7], 9: [9], 10: [10]}),
    "PH4": ("PH4", {2: [2], 3: [3]}),
    "PH6": ("PH6", {i + 1: [3 + i, 8 + i, 13 + i, 18 + i] for i in range(4)}),
}
TAU = {"PH1_num": 3, "PH2": 3, "PH3": 1, "PH4": 2, "PH6": 1, "PH7": 4}


@pytest.fixture(scope="module", params=["small", "parity"])
def frames(request) -> dict[str, pl.DataFrame]:
    folder = request.getfixturevalue(request.param)
    return {name: pl.read_csv(folder / f"{name}.csv", infer_schema=False) for name in ("persons", "units", "geo")}


@pytest.fixture(scope="module")
def config() -> Config:
    """Thresholds low enough that every table of the small data drops somebody."""
    return Config.load(parameters_2020("us-measured") | {"tau": TAU})


@pytest.fixture(scope="module")
def tabulated(frames, config):
    with open_engine() as engine:
        return scan_tables(load(frames, engine), config, engine)


def of(counts: pl.DataFrame, name: str) -> pl.DataFrame:
    return counts.filter(TABULATION=name).drop("TABULATION")


@pytest.mark.parametrize("table", LINES)
def test_everybody_is_the_truncated_count_and_the_dropped(table, config, tabulated):
    """At every level and cell that both have: counted without truncation, less counted with it."""
    name, lines = LINES[table]
    dropped = of(tidy(config, tabulated.counts()), f"{table}_dropped")
    cell_of = {line: cell for cell, of_cell in lines.items() for line in of_cell}
    difference = None
    for truncate, sign in ((False, 1), (True, -1)):
        counts = of(tidy(config, tabulated.counts(truncate=truncate)), name)
        counts = counts.with_columns(pl.col("DATA_CELL").replace_strict(cell_of), pl.col("COUNT") * sign)
        difference = counts if difference is None else pl.concat([difference, counts])
    keys = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL"]
    lost = difference.group_by(keys).agg(pl.col("COUNT").sum())
    both = dropped.join(lost, on=keys, how="inner", suffix="_LOST")
    assert both.height == dropped.height
    assert both["COUNT"].sum() > 0
    assert (both["COUNT"] == both["COUNT_LOST"]).all()


@pytest.mark.parametrize("table", UNIVERSES)
def test_oversized_households_by_state(table, frames, config, tabulated):
    tabulation = config.catalog.tabulation(f"{table}_oversized")
    state = frames["geo"].select("MAFID", "TABBLKST").filter(pl.col("TABBLKST").is_in(config.states))
    persons = frames["persons"].filter(UNIVERSES[table]).join(state, on="MAFID")
    oversized = persons.group_by("MAFID", "TABBLKST").len().filter(pl.col("len") > TAU[tabulation.threshold])
    units = oversized.join(frames["units"].filter(RTYPE="2"), on="MAFID")
    counts = of(tidy(config, tabulated.counts()), tabulation.name).filter(REGION_TYPE="STATE", ITERATION_CODE="*")
    found = {(r, c): n for _, r, _, c, n in counts.iter_rows() if n}
    if table == "PH2":  # Every household has a type, so the cells add up to all of them.
        assert sum(found.values()) == units.height > 0
        return
    cells = units.with_columns(CELL=CELLS[table]).drop_nulls("CELL").group_by("TABBLKST", "CELL").len()
    assert found == {(r, c): n for r, c, n in cells.iter_rows()}
    assert found
    if f"{table}_dropped" in {t.name for t in config.catalog.truncation}:
        excess = (
            oversized.with_columns(pl.col("len") - TAU[tabulation.threshold]).group_by("TABBLKST").agg(pl.sum("len"))
        )
        dropped = of(tidy(config, tabulated.counts()), f"{table}_dropped").filter(REGION_TYPE="STATE")
        total = (
            dropped.filter(ITERATION_CODE="*").group_by("REGION_ID").agg(pl.sum("COUNT")).filter(pl.col("COUNT") > 0)
        )
        assert dict(total.iter_rows()) == dict(excess.iter_rows())


def test_counting_without_truncation_still_measures_what_is_beyond(tabulated):
    with_, without = tabulated.counts(), tabulated.counts(truncate=False)
    for name, level in with_:
        if name.endswith(("_dropped", "_oversized")):
            assert (with_[name, level] == without[name, level]).all()


def test_validation_reports_persons_beyond_and_unclassified_records_once(tabulated):
    assert set(tabulated.beyond_threshold()) == set(TAU)
    assert not [name for name in tabulated.unclassified() if name.endswith(("_dropped", "_oversized"))]


def test_a_unit_counts_where_it_is_read_and_nowhere_else(frames, config, tabulated):
    """Without unit rows, validation and the tables see nobody beyond a threshold, and the same persons are dropped."""
    with open_engine() as engine:
        without = scan_tables(load(frames | {"units": frames["units"].clear()}, engine), config, engine)
    assert {beyond for _, beyond in without.beyond_threshold().values()} == {0}
    assert min(beyond for _, beyond in tabulated.beyond_threshold().values()) > 0
    counts, expected = without.counts(), tabulated.counts()
    for name, level in expected:
        same = (counts[name, level] == expected[name, level]).all()
        assert same if name.endswith("_dropped") else not counts[name, level].any()


def test_a_household_with_two_geo_rows_is_nowhere(frames, config):
    """Claim C1.3: not even its dropped persons are counted, which need no unit."""
    with open_engine() as engine:
        twice = scan_tables(load(frames | {"geo": pl.concat([frames["geo"]] * 2)}, engine), config, engine)
    assert not any(vector.any() for vector in twice.counts().values())
