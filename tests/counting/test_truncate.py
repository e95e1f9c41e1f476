"""Truncation: the 2020 order, and what it may depend on."""

import hashlib
import json
from itertools import permutations

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from phsafe.configs.config import Config
from phsafe.counting.encode import SEPARATOR
from phsafe.counting.records import RecordFormat, Rows
from phsafe.counting.truncate import ValueDigests, digest, in_order, order_key
from phsafe.engines import EngineOptions, open_engine
from phsafe.model.schema import PERSONS
from phsafe.pipeline.exact_counts import tidy
from phsafe.pipeline.scan import scan_tables
from phsafe.readers import load

MAFID = 100_000_310


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineOptions(threads=1)) as opened:
        yield opened


def person(age, relationship="25", race="01", mafid=MAFID, rtype=3):
    return {
        "RTYPE": rtype,
        "MAFID": mafid,
        "QAGE": age,
        "CENHISP": 1,
        "CENRACE": race,
        "RELSHIP": relationship,
    }


def unit(mafid=MAFID, **changes):
    record = {
        "RTYPE": 2, "MAFID": mafid, "FINAL_POP": 1, "NPF": 0, "HHSPAN": 1, "HHRACE": "01", "TEN": "1", "HHT": "1",
        "HHT2": "01", "CPLT": "1",
    }  # fmt: skip
    return record | changes


def place(mafid=MAFID, state="44", rtype=2):
    return {"RTYPE": rtype, "MAFID": mafid, "TABBLKST": state}


def frames(persons, units=None, geo=None):
    return {
        "persons": pl.DataFrame(persons),
        "units": pl.DataFrame(units or [unit()]),
        "geo": pl.DataFrame(geo or [place()]),
    }


@pytest.fixture(scope="module")
def count(engine, us):
    """Positive counts of the level "Nation × everyone": {(tabulation, cell): n}."""
    document = json.loads(us.read_text()) | {"state_filter": ["44"]}

    def run(data, tau=3, **taus):
        config = Config.load(document | {"tau": dict.fromkeys(document["tau"], tau) | taus})
        frame = tidy(config, scan_tables(load(data, engine), config, engine).counts())
        chosen = frame.filter(REGION_TYPE="USA", ITERATION_CODE="*").filter(pl.col("COUNT") > 0)
        return {(row["TABULATION"], row["DATA_CELL"]): row["COUNT"] for row in chosen.iter_rows(named=True)}

    return run


def test_an_order_key_computed_by_hand():
    def h(text):
        return hashlib.sha256(text.encode()).hexdigest()

    parts = ["3", f"{MAFID:b}", "1001", "1", "01", "25", "10"]
    assert parts[1].startswith("1011111")
    expected = h(h(",".join(h(part) for part in parts)))
    before = digest("RTYPE", 3)
    after = b",".join(digest(name, value) for name, value in person(9).items() if name not in ("RTYPE", "MAFID"))
    assert order_key((before, after), digest("MAFID", MAFID), digest("MAFID", 2)).hex() == expected


def test_a_negative_number_is_hashed_as_its_64_bits():
    """Invalid, but it has a place in the order, too: in two's complement."""
    assert digest("QAGE", -2) == hashlib.sha256(b"1" * 63 + b"0").hexdigest().encode()


def test_identical_records_are_numbered_from_one_within_their_household():
    """As in 2020: the duplicate index is part of the key, so starting from 0 would keep other people.

    Records with the same codes but different values are not identical.
    """
    record_format = RecordFormat.of(PERSONS, PERSONS.names[:1] + PERSONS.names[2:])
    people = [(3, 9, 1, "01", "25"), (3, 9, 1, "01", "30"), (3, 9, 1, "01", "x"), (3, 9, 1, "01", "")]
    who = [0, 0, 1, 2, 0, 3, 2, 3, 0, 1]
    keys, duplicates = [7] * 8 + [8] * 2, [1, 2, 1, 1, 3, 1, 2, 2, 1, 1]
    records = [sum((f.column.codes.index(v) + 1 if v in f.column.codes else 0) << f.shift
                   for f, v in zip(record_format.fields, people[i], strict=True)) for i in who]  # fmt: skip
    raws = [SEPARATOR.join(str(v).encode() for v in people[i]) if i > 1 else None for i in who]

    def h(text):
        return hashlib.sha256(text.encode()).hexdigest()

    def by_hand(i):
        rtype, age, ethnicity, race, relationship = people[who[i]]
        texts = [str(rtype), f"{keys[i]:b}", f"{age:b}", f"{ethnicity:b}", race, relationship, f"{duplicates[i]:b}"]
        return keys[i], h(h(",".join(map(h, texts))))

    rows = Rows(np.array(keys, np.int32), np.array(records), pa.array(raws, pa.binary()))
    assert in_order(rows, ValueDigests(record_format)).tolist() == sorted(range(len(who)), key=by_hand)
    known = np.flatnonzero(np.array(who) < 2)
    alone = Rows(rows.key[known], rows.record[known])
    assert known[in_order(alone, ValueDigests(record_format))].tolist() == sorted(known.tolist(), key=by_hand)


def test_nobody_is_dropped_up_to_the_threshold(count):
    people = [person(30, "20"), person(5), person(6)]
    assert count(frames(people))["PH1_num", 2] == 2
    assert (
        count(
            frames(
                [*people, person(7)],
            ),
            tau=4,
        )["PH1_num", 2]
        == 3
    )


def test_one_beyond_the_threshold_is_dropped(count):
    counts = count(frames([person(age) for age in (5, 6, 7, 8)]))
    assert counts["PH1_num", 2] == counts["PH7", 2] == counts["PH2", 3] == counts["PH3", 4] == 3


def test_how_many_are_beyond_each_threshold(engine, us):
    """A household above the threshold of one universe loses nobody in another."""
    document = json.loads(us.read_text())
    config = Config.load(document | {"state_filter": ["44"], "tau": dict.fromkeys(document["tau"], 3)})

    def beyond(people):
        data = frames(people, [unit(), unit(MAFID + 1)], [place(), place(MAFID + 1)])
        found = scan_tables(load(data, engine), config, engine).beyond_threshold()
        return found["PH1_num"], found["PH3"]

    minors = [person(age) for age in range(5)]
    adults = [person(40 + i, "33", mafid=MAFID + 1) for i in range(4)]
    assert beyond([*minors, *adults]) == ((9, 2 + 1), (5, 2))
    assert beyond([*minors[:3], *adults[:3]]) == ((6, 0), (3, 0))


def test_identical_records_are_truncated_individually(count):
    assert count(frames([person(5)] * 7))["PH1_num", 2] == 3
    assert count(frames([person(5)] * 7), tau=1)["PH1_num", 2] == 1


def test_the_filter_is_applied_before_the_threshold(count):
    """Adults don't displace minors where only minors are counted."""
    people = [*(person(40 + i, "33") for i in range(9)), person(5), person(6), person(7)]
    counts = count(frames(people))
    assert counts["PH3", 4] == 3
    assert counts["PH1_num", 2] + counts.get(("PH1_num", 3), 0) == 3


def test_persons_of_unknown_age_do_not_displace_minors(count):
    people = [*(person(None, race=f"0{i}") for i in range(1, 7)), *(person(age) for age in (5, 6, 7, 8))]
    assert count(frames(people))["PH3", 4] == 3


def test_group_quarters_residents_displace_nobody(count):
    people = [*(person(40, "37", rtype=5) for _ in range(9)), person(5), person(6), person(7)]
    assert count(frames(people))["PH1_num", 2] == 3


def test_equal_universes_keep_the_same_people(count):
    people = [person(age, race=race) for age in (3, 9, 20, 40) for race in ("01", "02")]
    counts = count(frames(people))
    assert counts["PH7", 2] == counts["PH2", 3] == 3
    assert counts["PH1_num", 2] + counts.get(("PH1_num", 3), 0) == 3


def test_who_is_kept_does_not_depend_on_other_households(count):
    people = [person(age) for age in (3, 9, 20, 40, 60)]
    alone = count(frames(people))
    others = [person(age, mafid=MAFID + 1) for age in (3, 9, 20, 40, 60)]
    elsewhere = frames([*others, *people], [unit(), unit(MAFID + 1)], [place(), place(MAFID + 1, "56")])
    assert count(elsewhere) == alone


def test_who_is_kept_does_not_depend_on_the_unit(count):
    people = [person(age) for age in (3, 9, 20, 40, 60)]
    one, other = count(frames(people)), count(frames(people, [unit(TEN="3", HHRACE="02")]))
    assert {k: n for k, n in one.items() if k[0] == "PH1_num"} == {k: n for k, n in other.items() if k[0] == "PH1_num"}
    assert (one["PH7", 2], other["PH7", 4]) == (3, 3)


def test_row_order_does_not_change_counts(count):
    people = [person(5), person(5), person(30, "20"), person(40, "21")]
    found = [count(frames(list(order)), tau=2) for order in list(permutations(people))[::9]]
    assert all(counts == found[0] for counts in found)
    assert found[0]["PH7", 2] == 2


#: Unit and geo rows that are repeated, outside the filter, group quarters, or missing.
NO_HOUSEHOLDS = [
    ([unit(), unit()], [place()]),
    ([unit(), unit(HHT="0")], [place()]),
    ([unit(), unit(RTYPE=4)], [place()]),
    ([unit()], [place(), place()]),
    ([unit()], [place(), place(state="56")]),
    ([unit()], [place(), place(rtype=4)]),
    ([unit()], [place(state="56")]),
    ([unit()], [place(rtype=4)]),
    ([unit(RTYPE=4)], [place()]),
    ([unit()], []),
    ([], [place()]),
]


def test_units_that_do_not_count(count):
    people, units, geo = [person(30, "20", mafid=MAFID)], [unit()], [place()]
    for i, (unit_rows, geo_rows) in enumerate(NO_HOUSEHOLDS, start=1):
        people += [person(30, "20", mafid=MAFID + i), person(5, mafid=MAFID + i)]
        units += [row | {"MAFID": MAFID + i} for row in unit_rows]
        geo += [row | {"MAFID": MAFID + i} for row in geo_rows]
    assert count(frames(people, units, geo)) == count(frames(people[:1]))


def test_households_of_absurd_size(count):
    """Household sizes around powers of two, where bit fields could overflow."""
    sizes = (500, 509, 510, 511, 3000)
    persons = [(200, "20"), (5, "25"), (40, "20"), (5, "36"), (40, "36")]
    homes = [(one, size) for one in persons for size in sizes]
    mafids = range(MAFID, MAFID + len(homes))
    people = [person(*one, mafid=mafid) for mafid, (one, size) in zip(mafids, homes, strict=True) for _ in range(size)]
    counts = count(frames(people, [unit(m) for m in mafids], [place(m) for m in mafids]), tau=508)
    each = 500 + 4 * 508
    assert counts["PH7", 2] == counts["PH2", 3] == 5 * each
    assert (counts["PH1_num", 2], counts["PH1_num", 3]) == (2 * each, 2 * each)
    assert (counts["PH4", 2], counts["PH4", 3]) == (each, each)
    assert counts["PH6", 4] == counts["PH3", 4] == counts["PH3", 2] == each
    assert counts["PH1_denom", 1] == len(homes)


def test_a_vacant_unit_is_not_counted(count):
    assert count(frames([person(30, rtype=5)], [unit(HHT="0", TEN="0", HHT2="00", CPLT="0")])) == {}
