"""Random populations, counted by the engine and by the oracle."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.counting import kernel
from phsafe.engines import EngineOptions, open_engine
from phsafe.pipeline.exact_counts import tidy
from phsafe.pipeline.scan import scan_tables
from phsafe.readers import load

_spec = importlib.util.spec_from_file_location("oracle", Path(__file__).with_name("oracle.py"))
oracle = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(oracle)

STATES = ("11", "44", "56")
ABROAD = ("01", "72", "03", "4", "xx", "", None)
#: An integer beyond 32 bits, which is read as null.
HUGE = 2**40
SCHEMAS = {
    "persons": {
        "RTYPE": pl.Int64, "MAFID": pl.Int64, "QAGE": pl.Int64, "CENHISP": pl.Int64, "CENRACE": pl.String,
        "RELSHIP": pl.String,
    },
    "units": {
        "RTYPE": pl.Int64, "MAFID": pl.Int64, "FINAL_POP": pl.Int64, "NPF": pl.Int64, "HHSPAN": pl.Int64,
        "HHRACE": pl.String, "TEN": pl.String, "HHT": pl.String, "HHT2": pl.String, "CPLT": pl.String,
    },
    "geo": {"RTYPE": pl.Int64, "MAFID": pl.Int64, "TABBLKST": pl.String},
}  # fmt: skip


def mostly(values, garbage):
    """Usually a value in the domain, sometimes something else."""
    return st.sampled_from([*values] * (1 + 6 * len(garbage) // len(values)) + [*garbage])


def numbered(first, last, width):
    return [f"{code:0{width}d}" for code in range(first, last + 1)]


PERSON = st.fixed_dictionaries(
    {
        "RTYPE": mostly([3] * 6 + [5], [2, 0, None]),
        "QAGE": mostly([0, 3, 4, 5, 6, 11, 12, 17, 18, 40, 115], [116, -1, HUGE, None]),
        "CENHISP": mostly([1, 2], [0, 3, None]),
        "CENRACE": mostly(["01", "01", "02", "06", "07", "63"], ["00", "64", "1", "", None]),
        "RELSHIP": mostly(numbered(20, 38, 2), ["19", "39", "é,|\"'\n", None]),
    }
)
UNIT = st.fixed_dictionaries(
    {
        "RTYPE": st.sampled_from([2] * 12 + [4, 3, None]),
        "FINAL_POP": st.just(0),
        "NPF": st.just(0),
        "HHSPAN": mostly([1, 2], [0, 3, None]),
        "HHRACE": mostly(["01", "01", "02", "05", "07", "63"], ["00", "64", None]),
        "TEN": mostly(["1", "2", "3", "4"], ["0", "5", None]),
        "HHT": mostly(numbered(1, 7, 1), ["0", "8", None]),
        "HHT2": mostly(numbered(1, 12, 2), ["00", "13", None]),
        "CPLT": mostly(numbered(1, 5, 1), ["0", "6", None]),
    }
)
GEO_ROW = st.fixed_dictionaries(
    {
        "RTYPE": st.sampled_from([2] * 12 + [4, 3, None]),
        "TABBLKST": st.sampled_from([*STATES * 5, *ABROAD]),
    }
)
#: How many unit or geo rows a MAFID has: usually one.
TIMES = st.sampled_from([1] * 9 + [0, 2])


@st.composite
def household(draw):
    """The records of one MAFID, possibly with identical person records."""
    people = draw(st.lists(PERSON, max_size=5))
    duplicates = draw(st.lists(st.sampled_from(people), max_size=4)) if people else []
    units = [draw(UNIT) for _ in range(draw(TIMES))]
    geo_rows = [draw(GEO_ROW) for _ in range(draw(TIMES))]
    return [*people, *duplicates], units, geo_rows


POPULATION = st.lists(household(), min_size=8, max_size=30)
TAU = st.fixed_dictionaries({name: st.integers(1, 3) for name in ("PH1_num", "PH2", "PH3", "PH4", "PH6", "PH7")})


def records(population, first_mafid):
    """The households as three lists of records; in larger populations the last household has no MAFID."""
    tables = ([], [], [])
    for i, parts in enumerate(population):
        mafid = None if i == len(population) - 1 and i > 8 else first_mafid + 7919 * i
        for table, rows in zip(tables, parts, strict=True):
            table.extend({"MAFID": mafid} | row for row in rows)
    return tables


def frames(tables):
    return {
        name: pl.DataFrame(rows, schema=SCHEMAS[name])
        for name, rows in zip(("persons", "units", "geo"), tables, strict=True)
    }


def as_read(tables):
    """Replace integers beyond 32 bits with None, as the engine does."""
    return [[{k: None if v == HUGE else v for k, v in row.items()} for row in rows] for rows in tables]


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


@pytest.fixture(scope="module")
def document():
    """The 2020 config, with what truncation drops."""
    return parameters_2020("us-measured") | {"state_filter": list(STATES)}


CHECKED = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@CHECKED
@given(
    population=POPULATION,
    tau=TAU,
    truncate=st.sampled_from([True, True, True, False]),
    mode=st.sampled_from(["published", "structured"]),
    batch=st.sampled_from([1, 3, kernel.BATCH_ROWS]),
    validates=st.booleans(),
    first_mafid=st.integers(100_000_001, 800_000_000),
    random=st.randoms(use_true_random=False),
)
def test_engine_matches_the_oracle(
    population, tau, truncate, mode, batch, validates, first_mafid, random, engine, document, as_dict
):
    tables = records(population, first_mafid)
    for table in tables:
        random.shuffle(table)
    config = Config.load(document | {"tau": tau, "sensitivity": mode})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "BATCH_ROWS", batch)
        tabulated = scan_tables(load(frames(tables), engine), config, engine, validates=validates)
    counted = as_dict(tidy(config, tabulated.counts(truncate=truncate)))
    structured = mode == "structured"
    by_hand = oracle.tabulate(*as_read(tables), states=STATES, tau=tau, truncate=truncate, structured=structured)
    assert set(by_hand) <= set(counted)
    assert {key: n for key, n in counted.items() if n} == by_hand


@settings(CHECKED, max_examples=4)
@given(population=POPULATION, tau=TAU, random=st.randoms(use_true_random=False))
def test_row_order_does_not_change_counts(population, tau, random, engine, document):
    tables = records(population, 100_000_001)
    config = Config.load(document | {"tau": tau})

    def count():
        return tidy(config, scan_tables(load(frames(tables), engine), config, engine).counts())

    before = count()
    for table in tables:
        random.shuffle(table)
    assert before.equals(count())


def test_the_oracle_matches_the_known_counts(us, small, parity, expected, small_frames):
    """Validate the oracle itself on data with known counts."""
    integers = ["RTYPE", "MAFID", "QAGE", "CENHISP", "HHSPAN"]
    tau = Config.load(us).tau
    for folder, name, truncate in (
        (small, "expected_counts.csv", False),
        (small, "expected_truncated_counts.csv", True),
        (parity, "truncated_counts_2020.csv", True),
    ):
        tables = []
        for table in ("persons", "units", "geo"):
            frame = pl.read_csv(folder / f"{table}.csv", infer_schema=False)
            tables.append(frame.with_columns(pl.col([c for c in integers if c in frame.columns]).cast(int)).to_dicts())
        counts = oracle.tabulate(*tables, states=Config.load(us).states, tau=tau, truncate=truncate)
        known = {key: n for key, n in counts.items() if not key[0].endswith(("_dropped", "_oversized"))}
        assert known == {key: n for key, n in expected(folder / name).items() if n}
