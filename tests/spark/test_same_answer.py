"""Both engines give the same counts and findings for values of every kind."""

import functools
import importlib.util
import re
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from phsafe import tabulate, validate
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.counting.encode import missing, outside
from phsafe.model.schema import GEO, PERSONS, UNITS
from phsafe.pipeline.exact_counts import tidy
from phsafe.pipeline.scan import scan_tables
from phsafe.pipeline.validation import report
from phsafe.readers import load

pytestmark = pytest.mark.needs("java")
TEXTS = [
    "0", "3", "03", "3\n", "3\r\n", " 3", "3 ", "3.0", "+3", "-3", "1e3", "３", "999999999", "1000000000", "", "é", "É",
    "e\u0301", "a\u0000b", "01", "1", None, "null", "NULL", "NaN", "true", "\u2028", "3\u2028", "3\u0085",
]  # fmt: skip
NUMBERS = [0, 1, -1, 5, -5, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, None]
FIRST = 100_000_001


def person(mafid=FIRST, **changes):
    return {
        "RTYPE": 3, "MAFID": mafid, "QAGE": 7, "CENHISP": 1, "CENRACE": "01", "RELSHIP": "25"
    } | changes  # fmt: skip


def unit(mafid=FIRST, **changes):
    return {
        "RTYPE": 2, "MAFID": mafid, "FINAL_POP": 1, "NPF": 0, "HHSPAN": 1, "HHRACE": "01", "TEN": "1", "HHT": "1",
        "HHT2": "01", "CPLT": "1",
    } | changes  # fmt: skip


def place(mafid=FIRST, **changes):
    return {"RTYPE": 2, "MAFID": mafid, "TABBLKST": "44"} | changes


def frames(persons=None, units=None, geo=None):
    return {
        "persons": pl.DataFrame(persons or [person()], infer_schema_length=None),
        "units": pl.DataFrame(units or [unit()], infer_schema_length=None),
        "geo": pl.DataFrame(geo or [place()], infer_schema_length=None),
    }


@pytest.fixture(scope="module")
def counted(duck, spark):
    """Count on both engines, and assert that all counts, findings and example keys agree."""
    # The structured mode also counts some cells without the unit table.
    document = parameters_2020("us-measured") | {"state_filter": ["44"], "sensitivity": "structured"}

    def run(data, tau=3):
        config = Config.load(document | {"tau": dict.fromkeys(document["tau"], tau)})
        found = []
        for engine in (duck, spark):
            tables = load(data, engine)
            found.append(scan_tables(tables, config, engine, examples=10_000))
        one, other = found
        assert report(one, {}) == report(other, {})
        assert one.counted.violations == other.counted.violations
        keys = [{rule: keys.tolist() for rule, keys in tabulated.counted.keys.items()} for tabulated in found]
        assert keys[0] == keys[1]
        for truncate in (True, False):
            assert tidy(config, one.counts(truncate=truncate)).equals(tidy(config, other.counts(truncate=truncate)))
        return other, keys[1]

    return run


def test_texts_as_numbers(counted):
    """A text is a number only in one form: without blanks, signs, fractions or line ends."""
    people = [person(FIRST + i, QAGE=text) for i, text in enumerate(TEXTS)]
    _, keys = counted(frames(people))
    is_number = [text is not None and re.fullmatch("0|[1-9][0-9]{0,8}", text) is not None for text in TEXTS]
    assert [TEXTS[i] for i, fits in enumerate(is_number) if fits] == ["0", "3", "999999999", "1"]
    none = [FIRST + i for i, fits in enumerate(is_number) if not fits]
    assert keys[missing(PERSONS, PERSONS["QAGE"])] == none
    assert keys[outside(PERSONS, PERSONS["QAGE"])] == [FIRST + TEXTS.index("999999999")]


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("persons", "CENRACE"),
        ("persons", "RELSHIP"),
        ("units", "HHRACE"),
        ("units", "TEN"),
        ("geo", "TABBLKST"),
    ],
)
def test_texts_in_conditions(counted, table, column):
    """A code must match exactly; anything else is missing or outside the domain."""
    layout, make = {"persons": (PERSONS, person), "units": (UNITS, unit), "geo": (GEO, place)}[table]
    codes = list(layout[column].codes)
    texts = [*TEXTS, *codes, *(f"{code} " for code in codes), *(f"{code}\n" for code in codes)]
    _, keys = counted(frames(**{table: [make(FIRST + i, **{column: text}) for i, text in enumerate(texts)]}))
    assert keys[missing(layout, layout[column])] == [FIRST + TEXTS.index(None)]
    assert keys[outside(layout, layout[column])] == [
        FIRST + i for i, text in enumerate(texts) if text is not None and text not in codes
    ]


def test_digits_in_a_domain(counted):
    places = [place(FIRST + i, TABBLKGRPCE=text) for i, text in enumerate(TEXTS)]
    tabulated, _ = counted(frames(geo=places))
    inside = sum(text is not None and re.fullmatch("[0-9]", text) is not None for text in TEXTS)
    counts = tabulated.counted.violations
    assert counts[outside(GEO, GEO["TABBLKGRPCE"])] == len(TEXTS) - TEXTS.count(None) - inside
    assert counts[missing(GEO, GEO["TABBLKGRPCE"])] == TEXTS.count(None)


def test_numbers_of_every_size(counted):
    """As keys and as values: an integer beyond 32 bits counts as missing."""
    people = [
        person(mafid, QAGE=age, CENHISP=ethnicity)
        for mafid in (FIRST, *NUMBERS)
        for age in NUMBERS
        for ethnicity in (1, 3, None, 2**40)
    ]
    tabulated, keys = counted(frames(people, [unit(n) for n in NUMBERS] * 2, [place(n) for n in NUMBERS]))
    none = [n for n in NUMBERS if n is None or not -(2**31) <= n < 2**31]
    assert tabulated.counted.rows["persons"] == len(people)
    assert tabulated.counted.households == 1 + len(NUMBERS) - len(none)
    assert tabulated.counted.violations[missing(UNITS, UNITS["MAFID"])] == 2 * len(none)
    assert keys[outside(GEO, GEO["MAFID"])] == sorted(set(NUMBERS) - set(none))


def test_combinations_of_texts_and_numbers(counted):
    """Every text with every number, in one household and in separate ones."""
    pairs = [(text, number) for text in (*TEXTS, "25", "20") for number in (*NUMBERS, 17, 18, 115)]
    apart = [person(FIRST + i, RELSHIP=text, QAGE=number) for i, (text, number) in enumerate(pairs)]
    together = [row | {"MAFID": FIRST + len(pairs)} for row in apart]
    mafids = range(FIRST, FIRST + len(pairs) + 1)
    counted(frames(apart + together, [unit(mafid) for mafid in mafids], [place(mafid) for mafid in mafids]))


@pytest.mark.parametrize("limit", [1, 2, 6])
def test_frequent_keys(counted, limit):
    keys = [*([1] * limit), *([2] * (limit + 1)), 3, *([4] * 20), *([None] * 20), -5, 2**31 - 1]
    mixed = keys[::2] + keys[1::2]
    tabulated, found = counted(frames(units=[unit(key) for key in mixed], geo=[place(key) for key in mixed]))
    several = sorted({key for key in keys if key is not None and keys.count(key) > 1})
    (rule,) = [rule for rule in found if rule.name == "MAFID is unique in units"]
    assert found[rule] == several
    assert tabulated.counted.violations[rule] == sum(keys.count(key) for key in several)


def test_the_order_of_2020(counted, spark, oracle, as_dict):
    """Truncation with identical records and with values outside their domains."""
    mafids = (100_000_001, 899_999_999)
    people = [
        person(mafid, QAGE=age, CENRACE=race)
        for mafid in mafids
        for age in (0, 7, 115, -1, None)
        for race in ("01", "é", "", None)
        for _ in range(2)
    ]
    units, places = [unit(mafid) for mafid in mafids], [place(mafid) for mafid in mafids]
    for tau in (1, 4, 15):
        counted(frames(people, units, places), tau)
        document = parameters_2020("us-measured")
        taus = dict.fromkeys(document["tau"], tau)
        config = Config.load(document | {"state_filter": ["44"], "tau": taus})
        found = scan_tables(load(frames(people, units, places), spark), config, spark).counts()
        by_hand = oracle.tabulate(people, units, places, states=("44",), tau=taus)
        assert {key: n for key, n in as_dict(tidy(config, found)).items() if n} == by_hand


def test_small_data(us, small, spark_options, expected, as_dict):
    frame = tabulate(us, small, options=spark_options, skip_validation=True)
    assert frame.equals(tabulate(us, small))
    counted, known = as_dict(frame), expected(small / "expected_truncated_counts.csv")
    assert {key: n for key, n in counted.items() if n or key in known} == known


def test_parity_with_2020(us, parity, spark_options, expected, as_dict):
    """In households above the thresholds, truncation keeps the same people as in 2020."""
    frame = tabulate(us, parity, options=spark_options, skip_validation=True)
    assert as_dict(frame) == expected(parity / "truncated_counts_2020.csv")
    assert not frame.equals(tabulate(us, parity, truncate=False, skip_validation=True))


def test_validation_gives_the_same_report(us, small_frames, spark_options):
    damaged = small_frames | {
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
    found = validate(us, damaged, options=spark_options)
    assert found == validate(us, damaged)
    assert not found.ok


def test_a_household_of_more_than_65536_people(us, small_frames, spark_options):
    """More people than 16 bits can count, far above every threshold."""
    one = small_frames["persons"].head(1).with_columns(RELSHIP=pl.lit("25"), QAGE=pl.lit("5"))
    others = one.with_columns(QAGE=pl.lit("30"), CENRACE=pl.lit("99"))
    crowded = small_frames | {"persons": pl.concat([small_frames["persons"], *[one] * 2**16, *[others] * 100])}
    found = validate(us, crowded, options=spark_options)
    assert found == validate(us, crowded)
    assert max(finding.rows for finding in found.findings) > 2**16
    counts = tabulate(us, crowded, options=spark_options, skip_validation=True)
    assert counts.equals(tabulate(us, crowded, skip_validation=True))
    untruncated = tabulate(us, crowded, options=spark_options, skip_validation=True, truncate=False)
    assert untruncated.equals(tabulate(us, crowded, skip_validation=True, truncate=False))
    assert untruncated["COUNT"].max() > 2**16


def test_households_of_absurd_size(us_document, spark_options, small_frames):
    """With a budget for one table only."""
    for name, levels in us_document["privacy_budget"].items():
        us_document["privacy_budget"][name] = levels if name in ("PH1_num", "PH1_denom") else dict.fromkeys(levels, 0)
    persons, units = small_frames["persons"], small_frames["units"]
    home = units.filter(RTYPE="2")["MAFID"][0]
    crowd = pl.concat([persons.filter(MAFID=home).head(1)] * 700)
    frames = small_frames | {"persons": pl.concat([persons, crowd])}
    found = tabulate(us_document, frames, options=spark_options, skip_validation=True)
    assert found.equals(tabulate(us_document, frames, skip_validation=True))


@functools.cache
def population_module():
    """The module with the random populations that the DuckDB test uses."""
    path = Path(__file__).parents[1] / "counting" / "test_oracle.py"
    spec = importlib.util.spec_from_file_location("populations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(data=st.data())
def test_random_populations_match_the_oracle(data, spark, oracle, as_dict):
    populations = population_module()
    households = st.lists(populations.household(), min_size=60, max_size=80)
    tables = populations.records(data.draw(households), data.draw(st.integers(100_000_001, 800_000_000)))
    tau = data.draw(populations.TAU)
    config = Config.load(parameters_2020("us-measured") | {"state_filter": ["11", "44", "56"], "tau": tau})
    counted = as_dict(tidy(config, scan_tables(load(populations.frames(tables), spark), config, spark).counts()))
    by_hand = oracle.tabulate(*populations.as_read(tables), states=("11", "44", "56"), tau=tau)
    assert {key: n for key, n in counted.items() if n} == by_hand
