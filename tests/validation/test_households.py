"""Rules counted over compositions find what rules over one row for each MAFID find, whatever the records are."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phsafe.config import Config
from phsafe.engine import EngineOptions, open_engine
from phsafe.schema import GEO, PERSONS, UNITS
from phsafe.source import load
from phsafe.tabulation.households import matched, repeated
from phsafe.tabulation.people import coded
from phsafe.tabulation.plan import Plan
from phsafe.tabulation.run import Part
from phsafe.validation import households as module
from phsafe.validation import run
from phsafe.validation.households import FIELDS, UNIT_FACTS, household_rules, households, members_of
from phsafe.validation.packing import LIMIT
from phsafe.validation.rules import counts_of, named
from phsafe.validation.run import HouseholdRules

PLAN = Plan(Config.load("examples/us.json"))
MAFIDS = st.sampled_from([100_000_001, 100_000_002, 100_000_003, None])


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


def records(layout, most, **columns):
    """Rows with some values in their domains and some outside, nulls included."""
    values = {
        column.name: st.sampled_from([*list(column.codes)[:5], 9_999_999 if column.is_integer else "?", None])
        for column in layout.columns
        if column.required and column.name != "MAFID"
    }
    row = st.fixed_dictionaries({"MAFID": MAFIDS} | values | columns)
    return st.lists(row, max_size=most)


POPULATIONS = st.fixed_dictionaries(
    {
        "persons": records(
            PERSONS,
            12,
            RELSHIP=st.sampled_from(
                ["20", "21", "22", "23", "24", "25", "27", "28", "30", "34", "37", "?", None]
            ),
            QAGE=st.sampled_from([3, 17, 18, 40, -1, 116, None]),
        ),
        "units": records(UNITS, 5, NPF=st.sampled_from([0, 2, 3, 1, None])),
        "geo": records(GEO, 5),
    }
)


def frames(population):
    layouts = {"persons": PERSONS, "units": UNITS, "geo": GEO}
    return {
        name: pl.DataFrame(
            rows,
            {c.name: pl.Int64 if c.is_integer else pl.String for c in layouts[name].columns if c.required},
        )
        for name, rows in population.items()
    }


def both(engine, data):
    """Offenders counted over single rows, and over compositions."""
    tables = load(data, engine)
    with (
        engine.materialized(repeated(tables.units, engine)) as units,
        engine.materialized(repeated(tables.geo, engine)) as geo,
    ):
        base = households(tables, units, geo, members_of(tables.persons))
        plain = engine.fetch(counts_of(base, named(household_rules()))).to_pylist()[0]
        rules = HouseholdRules()
        with (
            rules.members(engine, coded(tables.persons, PLAN, rules)) as members,
            engine.materialized(matched(tables, PLAN, units, geo, rules)) as both_rows,
        ):
            rules.look(engine, Part(tables, units, geo, both_rows), members)
    composed = rules.counted(engine)
    return plain, {name: composed[name] for name in plain}


@settings(max_examples=10, deadline=None)
@given(POPULATIONS, st.sampled_from([2, LIMIT]))
def test_compositions_break_the_same_rules(population, limit):
    # Too few bits for two persons, and each household with two is counted apart.
    with pytest.MonkeyPatch.context() as patch, open_engine(EngineOptions(threads=1)) as engine:
        patch.setattr(module, "LIMIT", limit)
        plain, composed = both(engine, frames(population))
    assert composed == plain


def as_it_should_be(population):
    """The same people, in units that stand once in units and in geo; everybody in one of them."""
    units = {row["MAFID"]: row for row in population["units"] if row["MAFID"] is not None}
    geo = [{"MAFID": key, "TABBLKST": "44", "RTYPE": row["RTYPE"]} for key, row in units.items()]
    persons = [row for row in population["persons"] if row["MAFID"] in units]
    return {"persons": persons, "units": list(units.values()), "geo": geo}


@settings(max_examples=10, deadline=None)
@given(POPULATIONS.map(as_it_should_be), st.sampled_from([2, LIMIT]))
def test_keys_that_all_match_are_a_quicker_way_to_the_same(population, limit):
    with pytest.MonkeyPatch.context() as patch, open_engine(EngineOptions(threads=1)) as engine:
        patch.setattr(module, "LIMIT", limit)
        patch.delattr(run, "compositions")
        plain, composed = both(engine, frames(population))
    assert composed == plain


def test_a_relation_fits_in_a_byte():
    assert module.RELATION.size <= 2**7


def test_more_persons_than_a_field_can_hold(engine):
    people = [{"RTYPE": 3, "QAGE": 5, "CENHISP": 1, "CENRACE": "01", "RELSHIP": "25", "MAFID": 100_000_001}]
    data = frames({"persons": people * (LIMIT + 7), "units": [], "geo": []})
    plain, composed = both(engine, data)
    assert composed == plain
    assert LIMIT + 7 in composed.values()


def test_facts_and_fields_come_back(engine):
    rows = [
        {"HHT": hht, "HHT2": "12", "CPLT": cplt, "NPF": npf, "FINAL_POP": number, "RTYPE": rtype}
        for hht in ("0", "7", None)
        for cplt in ("0", "5")
        for npf in (0, 2, 97, None)
        for number in (0, 99_999, None)
        for rtype in (2, 4, None)
    ]
    table = engine.read_arrow(pa.Table.from_pylist(rows).append_column("i", pa.array(range(len(rows)))))
    packed = table.select("i", unit=UNIT_FACTS.pack(table))
    found = engine.fetch(packed.select("i", **UNIT_FACTS.unpack(packed.unit)).order_by("i")).to_pylist()
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    words = dict.fromkeys(FIELDS.words, 0)
    for i, name in enumerate(FIELDS.names):
        word, weight = FIELDS.weights(name)
        words[word] += weight * (LIMIT - 1 - i)
    table = engine.read_arrow(pa.Table.from_pylist([words]))
    assert list(engine.fetch(table.select(**FIELDS.unpack(table))).to_pylist()[0].values()) == [
        LIMIT - 1 - i for i in range(len(FIELDS.names))
    ]
