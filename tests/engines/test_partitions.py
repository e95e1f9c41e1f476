"""Counting part by part: whatever the parts, the same counts, from every order of rows."""

import itertools
import json
import signal
import threading

import ibis
import polars as pl
import pyarrow.parquet as pq
import pytest
from phsafe.engines.ranges import KeyRange, RowGroup, ranges_between, row_groups, sorted_cuts

from phsafe import tabulate, validate
from phsafe.engines import EngineOptions, duckdb, open_engine, ranges
from phsafe.readers import load
from phsafe.schema import LAYOUTS
from phsafe.synthesis import synth
from phsafe.validation import households


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / "data"
    synth(folder, 3_000, states=["44", "56"], seed=3)
    return folder


@pytest.fixture(scope="module")
def config(us):
    document = json.loads(us.read_text()) | {"state_filter": ["44", "56"]}
    return document | {"tau": dict.fromkeys(document["tau"], 3)}


@pytest.fixture(scope="module")
def whole(data, config):
    return tabulate(config, data), validate(config, data)


def rewritten(data, to, rows_per_piece, *, shuffled):
    """The same rows in small pieces, in order or not, one file for each table."""
    to.mkdir()
    for layout in LAYOUTS:
        frame = pl.read_parquet(data / layout.name / "*.parquet").sort("MAFID")
        frame = frame.sample(fraction=1.0, shuffle=True, seed=1) if shuffled else frame
        pq.write_table(frame.to_arrow(), to / f"{layout.name}.parquet", row_group_size=rows_per_piece)
    return to


def parts_of(folder, threads=1):
    with open_engine() as engine:
        return engine._parts([table for _, table in load(folder, engine)], threads)[0]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shuffled", [False, True], ids=["sorted", "shuffled"])
def test_parts_change_nothing(data, config, whole, tmp_path, monkeypatch, shuffled, threads):
    monkeypatch.setattr(ranges, "SORTED_ROWS", 1_000)
    monkeypatch.setattr(ranges, "UNSORTED_ROWS", 3_000)
    folder = rewritten(data, tmp_path / "data", 200, shuffled=shuffled)
    assert len(parts_of(folder)) > (4 if shuffled else 12)
    options = EngineOptions(threads=threads)
    assert tabulate(config, folder, options=options).equals(whole[0])
    assert validate(config, folder, options=options) == whole[1]
    # Large households are looked at apart, in each part; these queries are first written by the threads themselves.
    monkeypatch.setattr(households, "LIMIT", 3)
    assert validate(config, folder, options=options) == whole[1]


def test_damage_is_found_in_whatever_part_it_is(data, config, tmp_path, monkeypatch):
    folder = rewritten(data, tmp_path / "data", 200, shuffled=False)
    units = pl.read_parquet(folder / "units.parquet")
    pl.concat([units[10:], units[500:503]]).write_parquet(folder / "units.parquet", row_group_size=200)
    at_once = validate(config, folder)
    monkeypatch.setattr(ranges, "SORTED_ROWS", 1_000)
    assert validate(config, folder) == at_once
    assert {f.rows for f in at_once.findings if f.rule == "MAFID stands once in units"} == {6}


def test_an_error_in_one_part_ends_the_run(data, tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "SORTED_ROWS", 1_000)
    folder = rewritten(data, tmp_path / "data", 200, shuffled=False)
    calls = []

    def work(engine):
        calls.append(threading.current_thread())
        if len(calls) == 5:
            raise RuntimeError("mine")

    with open_engine(EngineOptions(threads=2)) as engine:
        tables = [table for _, table in load(folder, engine)]
        parts, in_order = engine._parts(tables, 2)
        assert in_order
        with pytest.raises(RuntimeError, match="mine"):
            engine.each_part(tables, work, lambda done: None)
        assert len(calls) < len(parts)
        # The engine is as it was: all rows, all threads.
        assert engine.fetch(tables[0].count().name("n").as_table())["n"][0].as_py() > 3_000
        assert engine._execute("SELECT current_setting('threads')").fetchone() == (2,)
    assert calls[0] is threading.main_thread()
    assert len(set(calls)) > 1


def test_queries_are_written_over_nothing_before_parts_are_counted_side_by_side(data, tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "SORTED_ROWS", 5_000)
    folder = rewritten(data, tmp_path / "data", 200, shuffled=False)
    seen, told = [], []
    with open_engine(EngineOptions(threads=2)) as engine:
        persons, *others = [table for _, table in load(folder, engine)]
        number = persons.count().name("n").as_table()
        engine.each_part(
            [persons, *others],
            lambda engine: seen.append(engine.fetch(number)["n"][0].as_py()),
            told.append,
        )
        all_of_them = engine.fetch(number)["n"][0].as_py()
    first, *parts = seen
    assert first == 0
    assert sum(parts) == all_of_them
    assert len(parts) > 1
    assert max(parts) < 2 * min(parts)
    assert told == [i / len(parts) for i in range(1, len(parts) + 1)]


@pytest.mark.parametrize("shuffled", [False, True])
def test_rows_are_gathered_by_key_where_files_are_not_sorted(data, tmp_path, monkeypatch, shuffled):
    monkeypatch.setattr(ranges, "SORTED_ROWS", 5_000)
    monkeypatch.setattr(ranges, "UNSORTED_ROWS", 8_000)
    folder = rewritten(data, tmp_path / "data", 200, shuffled=shuffled)
    seen = []
    with open_engine(EngineOptions(threads=1)) as engine:
        persons, *others = [table for _, table in load(folder, engine)]
        chosen = persons.select("MAFID", "QAGE")

        def work(engine):
            with engine.gathered(chosen, "MAFID") as rows:
                assert (rows is chosen) is not shuffled
                seen.append(pl.DataFrame(engine.fetch(rows)))

        engine.each_part([persons, *others], work, lambda done: None)
        expected = pl.DataFrame(engine.fetch(chosen))
    assert all(part["MAFID"].is_sorted() for part in seen)
    assert len(seen) > 1
    assert pl.concat(seen).sort("MAFID", "QAGE").equals(expected.sort("MAFID", "QAGE"))


def test_who_stops_a_run_over_parts_stops_it(data, tmp_path, monkeypatch, heard):
    monkeypatch.setattr(ranges, "SORTED_ROWS", 1_000)
    folder = rewritten(data, tmp_path / "data", 200, shuffled=False)
    a, b, c, d = (ibis.range(10_000).unnest().cast("float64").name(name).as_table() for name in "abcd")
    # Ten thousand to the fourth power: nothing but an interrupt ends it.
    endless = a.cross_join(b).cross_join(c).cross_join(d)
    endless = endless.aggregate(n=lambda t: (t.a * t.b + t.c * t.d).sqrt().sum())
    numbers = itertools.count()

    def work(engine):
        number = next(numbers)
        if number == 2:
            signal.raise_signal(signal.SIGINT)
        if number:  # The first is over nothing.
            engine.fetch(endless)

    with open_engine(EngineOptions(threads=2)) as engine:
        tables = [table for _, table in load(folder, engine)]
        with pytest.raises(KeyboardInterrupt):
            engine.each_part(tables, work, lambda done: None)
    assert next(numbers) == 3


def test_frames_are_one_part(data):
    frames = {layout.name: pl.read_parquet(data / layout.name / "*.parquet") for layout in LAYOUTS}
    assert parts_of(frames) == [ranges.WHOLE]


def test_ranges_hold_every_key_once():
    cuts = ranges_between([30, 10, 20, 20])
    for key in (-5, 9, 10, 19, 20, 29, 30, 10**9):
        assert sum(one.overlaps(key, key) for one in cuts) == 1


def group(rows, low, high):
    return RowGroup(None, rows, low, high)


def test_files_that_are_sorted_are_told_from_others(monkeypatch):
    monkeypatch.setattr(ranges, "SORTED_ROWS", 100)
    in_order = [group(50, 10 * i, 10 * i + 9) for i in range(20)]
    assert sorted_cuts([in_order, in_order]) == [10 * i for i in range(1, 20)]
    assert sorted_cuts([in_order, [group(1000, 0, 199)]]) is None
    assert sorted_cuts([[group(5, 0, 1)], [group(5, 0, 1)]]) == []
    assert sorted_cuts([[group(0, 0, 0)], []]) == []
    # One large piece may lie in any order.
    assert sorted_cuts([[group(1000, 0, 999)]]) is None


def test_every_thread_gets_as_many_parts_of_one_size(monkeypatch):
    monkeypatch.setattr(ranges, "SORTED_ROWS", 60)
    in_order = [group(10, 10 * i, 10 * i + 9) for i in range(12)]
    assert sorted_cuts([in_order], threads=1) == [60]
    assert sorted_cuts([in_order], threads=2) == [60]
    assert sorted_cuts([in_order], threads=3) == [40, 80]
    assert sorted_cuts([in_order[:10]], threads=3) == []
    # Where that would mean to read pieces too often, there are fewer parts.
    assert sorted_cuts([in_order, [group(60, 0, 59), group(60, 60, 119)]], threads=8) == [30, 60, 90]
    # Behind a large piece, small ones are not cut one by one to catch up.
    large = [group(100, 0, 9), *(group(1, 10 * i, 10 * i + 9) for i in range(1, 100))]
    assert sorted_cuts([large], threads=4) == [10, 510]


def test_keys_that_files_do_not_tell_are_not_cut(tmp_path):
    table = pl.DataFrame({"MAFID": [1, 2, 3]}).to_arrow()
    pq.write_table(table, tmp_path / "with.parquet")
    pq.write_table(table, tmp_path / "without.parquet", write_statistics=False)
    assert row_groups([tmp_path / "with.parquet"], "MAFID") == [RowGroup(tmp_path / "with.parquet", 3, 1, 3)]
    assert row_groups([tmp_path / "without.parquet"], "MAFID") is None


def test_a_view_names_only_the_files_of_its_range(tmp_path):
    for name, keys in (("a'b", [1, 2]), ("c", [11, 12])):
        pl.DataFrame({"MAFID": keys}).write_parquet(tmp_path / f"{name}.parquet")
    view = duckdb.View("v", [tmp_path / "a'b.parquet", tmp_path / "c.parquet"], "MAFID")
    assert "a''b" in view.definition(ranges.WHOLE)
    assert "a''b" not in view.definition(KeyRange(10, 20))
    assert "c.parquet" not in view.definition(KeyRange(None, 5))
