"""The same expressions mean the same on both engines: where engines differ, the difference is pinned here."""

import functools
import importlib.util
import json
import re
from pathlib import Path

import ibis
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phsafe import tabulate, validate
from phsafe.conditions import where
from phsafe.config import Config
from phsafe.schema import GEO, PERSONS
from phsafe.readers import load
from phsafe.readers.canonical import canonical
from phsafe.counting.output import tidy
from phsafe.scan import scan_tables
from phsafe.counting.coding import Coding, looked_up, numbered
from phsafe.tabulation.truncation import order_key
from phsafe.validation.columns import column_rules

pytestmark = pytest.mark.needs("java")
TEXTS = [
    "0", "3", "03", "3\n", "3\r\n", " 3", "3 ", "3.0", "+3", "-3", "1e3", "３", "999999999", "1000000000", "", "é", "É",
    "e\u0301", "a\u0000b", "01", "1", None, "null", "NULL", "NaN", "true", "\u2028", "3\u2028", "3\u0085",
]  # fmt: skip
NUMBERS = [0, 1, -1, 5, -5, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, None]


def both(duck, spark, frame, build):
    """A table's columns as both engines make them."""
    return [engine.fetch(build(engine.read_arrow(frame))).to_pylist() for engine in (duck, spark)]


def keyed(values, kind):
    return pa.table({"i": list(range(len(values))), "x": pa.array(values, kind)})


def test_texts_as_numbers(duck, spark):
    """Java's $ stands before a last line end, and its numbers may have blanks around them."""
    frame = pa.table({"i": list(range(len(TEXTS))), "QAGE": pa.array(TEXTS)})

    found = [
        engine.fetch(canonical(engine.read_arrow(frame), PERSONS))["QAGE"].to_pylist()
        for engine in (duck, spark)
    ]
    assert found[0] == found[1]
    assert found[0] == [0, 3, *[None] * 10, 999999999, *[None] * 7, 1, *[None] * 8]


def test_texts_in_conditions(duck, spark):
    def build(table):
        x = table.x
        return table.select(
            "i", digits=x.re_search("^[0-9]{2}$"), one=x.isin(["01", "é", ""]), is_null=x.isnull(),
            case=x.cases(("01", 1), ("é", 2), ("", 3), else_=0), equal=x == "e\u0301",
            hash=x.fill_null("").hexdigest("sha256"),
        ).order_by("i")  # fmt: skip

    found = both(duck, spark, keyed(TEXTS, pa.string()), build)
    assert found[0] == found[1]


def test_digits_in_a_domain(duck, spark):
    """Both ways to the number of offenders: by the condition, and by counting those inside."""
    frame = pa.table({"TABBLKGRPCE": pa.array(TEXTS)})

    def offenders(engine):
        table = engine.read_arrow(frame)
        (rule,) = [rule for rule in column_rules(GEO, table) if "domain" in rule.name]
        found = engine.fetch(
            table.aggregate(quick=rule.count(table), slow=table.count(where=rule.breaks(table)))
        )
        return found.to_pylist()

    inside = sum(text is not None and re.fullmatch("[0-9]", text) is not None for text in TEXTS)
    outside = len(TEXTS) - TEXTS.count(None) - inside
    assert offenders(duck) == offenders(spark) == [{"quick": outside, "slow": outside}]


def test_order_of_texts(duck, spark):
    """By bytes, not by any language: B before a before é."""
    frame = keyed(["b", "B", "a", "é", "e\u0301", "z", "ab", "a b", "", "0", "A"], pa.string())
    found = both(
        duck, spark, frame,
        lambda t: t.select("x", rank=ibis.row_number().over(order_by="x")).order_by("rank"),
    )  # fmt: skip
    assert found[0] == found[1]
    assert [row["x"] for row in found[1]] == sorted(row["x"] for row in found[1])


def test_arithmetic(duck, spark):
    def build(table):
        x = table.x
        small = ibis.cases((x.between(-(2**53), 2**53), x), else_=0)
        return table.select(
            "i", floor=(small // 7).cast("int64"), rest=x % 7, right=(x >> ibis.literal(9, "int64")).cast("int64"),
            mask=x & ibis.literal(511, "int64"), tiny=x.try_cast("int32"), many=ibis.greatest(x - 3, 0),
            between=x.between(0, 5), flag=(x > 3).fill_null(False).cast("int64"), text=x.cast("string"),
        ).order_by("i")  # fmt: skip

    found = both(duck, spark, keyed(NUMBERS, pa.int64()), build)
    assert found[0] == found[1]


def test_sums(duck, spark):
    frame = pa.table(
        {"k": [1, 1, 2, 2, 3, None, None], "x": pa.array([1, 6, None, 4, None, 8, 1], pa.int64())}
    )

    def build(table):
        return table.group_by("k").agg(
            sum=table.x.sum().cast("int64"), n=table.count().cast("int64"),
            some=table.count(where=table.x > 3).cast("int64"), top=table.x.max(),
        ).order_by("k")  # fmt: skip

    found = both(duck, spark, frame, build)
    assert sorted(found[0], key=str) == sorted(found[1], key=str)


def test_classes_of_texts_and_numbers(duck, spark):
    coding = Coding.of(
        [where(A=["03", "3"]), where(A=["é", ""]), where(N=range(1, 3)), where(N=[5, 2**31 - 1])]
    )
    frame = pa.table(
        {
            "i": range(len(TEXTS) * len(NUMBERS)),
            "A": [text for text in TEXTS for _ in NUMBERS],
            "N": pa.array(NUMBERS * len(TEXTS), pa.int64()),
        }
    )
    found = both(
        duck, spark, frame, lambda t: t.select("i", "A", "N", code=coding.expression(t)).order_by("i")
    )
    assert found[0] == found[1]
    for condition in (where(A=["03", "3"]), where(A=["é", ""]), where(N=[1, 2]), where(N=[5, 2**31 - 1])):
        codes = np.array([row["code"] for row in found[0]])
        assert coding.mask(codes, condition).tolist() == [condition.allows(row) for row in found[0]]


@pytest.mark.parametrize("codes", [["3", "03"], ["", "é"], ["3,", "3"], ["\\", "'", "3\n", "."]], ids=ascii)
def test_numbers_of_texts(duck, spark, codes):
    numbers = {code: i for i, code in enumerate(codes, start=5)}
    texts = [*TEXTS, *codes, ",", "3,03"]
    found = both(
        duck, spark, keyed(texts, pa.string()),
        lambda t: t.select("i", number=looked_up(t.x, numbers)).order_by("i"),
    )  # fmt: skip
    assert found[0] == found[1]
    assert [row["number"] for row in found[0]] == [numbers.get(text) for text in texts]


def test_numbers_counted_off_in_a_list(duck, spark):
    frame = keyed([0, 1, 2, 3, 10**9, None], pa.int32())
    found = both(
        duck, spark, frame, lambda t: t.select("i", number=numbered(t.x, [7, 2**60, -5])).order_by("i")
    )
    assert found[0] == found[1]
    assert [row["number"] for row in found[0]] == [7, 2**60, -5, None, None, None]


@pytest.mark.parametrize("limit", [1, 2, 6])
def test_frequent_keys(duck, spark, limit):
    keys = [*([1] * limit), *([2] * (limit + 1)), 3, *([4] * 20), *([None] * 20), -5, 2**31 - 1]
    frame = pa.table({"MAFID": pa.array(keys[::2] + keys[1::2], pa.int32())})
    found = [engine.fetch(engine.frequent(engine.read_arrow(frame), limit)) for engine in (duck, spark)]
    assert [sorted(table["MAFID"].to_pylist()) for table in found] == [[2, 4], [2, 4]]


def test_the_order_of_2020(duck, spark, oracle):
    people = [
        {
            "RTYPE": 3,
            "MAFID": mafid,
            "QAGE": age,
            "CENHISP": 1,
            "CENRACE": race,
            "RELSHIP": "25",
            "twin": twin,
        }
        for mafid in (100_000_001, 899_999_999)
        for age in (0, 7, 115, -1, None)
        for race in ("01", "é", "", None)
        for twin in (1, 2)
    ]
    frame = pa.Table.from_pylist([person | {"i": i} for i, person in enumerate(people)])
    found = both(duck, spark, frame, lambda t: t.select("i", key=order_key(t)).order_by("i"))
    assert found[0] == found[1]
    assert [row["key"] for row in found[1]] == [oracle.order_key(person, person["twin"]) for person in people]


def test_small_data(us, small, spark_options, expected, as_dict):
    frame = tabulate(us, small, options=spark_options, skip_validation=True)
    assert frame.equals(tabulate(us, small))
    counted, known = as_dict(frame), expected(small / "expected_truncated_counts.csv")
    assert {key: n for key, n in counted.items() if n or key in known} == known


def test_parity_with_2020(us, parity, spark_options, expected, as_dict):
    """Households above the thresholds with mixed members: truncation keeps the people that 2020 kept."""
    frame = tabulate(us, parity, options=spark_options, skip_validation=True)
    assert as_dict(frame) == expected(parity / "truncated_counts_2020.csv")
    assert not frame.equals(tabulate(us, parity, truncate=False, skip_validation=True))


def test_validation_finds_the_same(us, small_frames, spark_options):
    odd = small_frames | {
        "persons": small_frames["persons"].with_columns(
            QAGE=pl.when(pl.int_range(pl.len()) % 7 == 0).then(pl.lit("116\n")).otherwise("QAGE"),
            RELSHIP=pl.when(pl.int_range(pl.len()) % 11 == 0).then(None).otherwise("RELSHIP"),
            EXTRA=pl.lit("x"),
        ),
        "units": small_frames["units"].vstack(small_frames["units"].head(3)),
        "geo": small_frames["geo"].with_columns(
            TABBLKST=pl.when(pl.int_range(pl.len()) == 5).then(pl.lit("03")).otherwise("TABBLKST")
        ),
    }
    found = validate(us, odd, options=spark_options)
    assert found == validate(us, odd)
    assert not found.ok


def test_validation_of_a_crowd_at_one_address(us, small_frames, spark_options):
    """More children than a sum of packed whole numbers could hold in 64 bits."""
    one = small_frames["persons"].head(1).with_columns(RELSHIP=pl.lit("25"), QAGE=pl.lit("5"))
    crowded = small_frames | {"persons": pl.concat([small_frames["persons"], *[one] * 40_000])}
    found = validate(us, crowded, options=spark_options)
    assert found == validate(us, crowded)
    assert max(finding.rows for finding in found.findings) > 39_000


def test_households_of_absurd_size(us_document, spark_options, small_frames):
    """More rows than a packed count can hold."""
    for name, levels in us_document["privacy_budget"].items():
        us_document["privacy_budget"][name] = (
            levels if name in ("PH1_num", "PH1_denom") else dict.fromkeys(levels, 0)
        )
    persons, units = small_frames["persons"], small_frames["units"]
    home = units.filter(RTYPE="2")["MAFID"][0]
    crowd = pl.concat([persons.filter(MAFID=home).head(1)] * 700)
    frames = small_frames | {"persons": pl.concat([persons, crowd])}
    found = tabulate(us_document, frames, options=spark_options, skip_validation=True)
    assert found.equals(tabulate(us_document, frames, skip_validation=True))


@functools.cache
def population_module():
    """The populations of the DuckDB run of this test."""
    path = Path(__file__).parents[1] / "tabulation" / "test_oracle.py"
    spec = importlib.util.spec_from_file_location("populations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_random_populations_equal_the_hand_count(data, spark, us, oracle, as_dict):
    made = population_module()
    households = st.lists(made.household(), min_size=60, max_size=80)
    tables = made.records(data.draw(households), data.draw(st.integers(100_000_001, 800_000_000)))
    tau = data.draw(made.TAU)
    config = Config.load(json.loads(us.read_text()) | {"state_filter": ["11", "44", "56"], "tau": tau})
    counted = as_dict(tidy(config, tabulate_tables(load(made.frames(tables), spark), config, spark).counts()))
    by_hand = oracle.tabulate(*made.as_read(tables), states=("11", "44", "56"), tau=tau)
    assert {key: n for key, n in counted.items() if n} == by_hand
