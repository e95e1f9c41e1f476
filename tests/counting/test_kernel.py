"""The kernel: what it checks, and that its results add up."""

import pickle

import numpy as np
import polars as pl
import pytest

from phsafe.config import Config
from phsafe.counting import kernel as module
from phsafe.counting.households import OrderError
from phsafe.counting.plan import Plan
from phsafe.counting.vectorize import Tabulated


@pytest.fixture(scope="module")
def plan(us):
    return Plan(Config.load(us))


@pytest.fixture(scope="module")
def kernel(plan):
    return plan.kernel(examples=5)


@pytest.fixture(scope="module")
def rows(kernel, small_frames):
    """The rows of all tables in key order."""
    counted = kernel.nothing()
    return {
        name: kernel.encode(name, frame.to_arrow().to_batches(), counted).in_key_order()
        for name, frame in small_frames.items()
    }


def counted(kernel, rows):
    return kernel.count(rows, kernel.nothing())


def same(one, other):
    """Whether two results are the same, whatever form their tallies have."""
    assert (one.rows, one.households, one.broken) == (other.rows, other.households, other.broken)
    assert one.beyond.tolist() == other.beyond.tolist()
    assert list(one.tallies) == list(other.tallies)
    for name, tally in one.tallies.items():
        np.testing.assert_array_equal(tally.items(), other.tallies[name].items())
    assert {rule: keys.tolist() for rule, keys in one.keys.items()} == {
        rule: keys.tolist() for rule, keys in other.keys.items()
    }


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_batches_change_nothing(kernel, rows, monkeypatch, batch):
    whole = counted(kernel, rows)
    monkeypatch.setattr(module, "BATCH_ROWS", batch)
    same(counted(kernel, rows), whole)


def test_partitions_add_up(kernel, rows):
    """Claim C1: whichever keys go into which partition, counted in whichever process."""
    total = kernel.nothing()
    for part in range(3):
        chosen = {name: table.take(np.flatnonzero(table.key % 3 == part)) for name, table in rows.items()}
        total += pickle.loads(pickle.dumps(counted(kernel, chosen)))
    same(total, counted(kernel, rows))


@pytest.mark.parametrize("table", ["persons", "units", "geo"])
@pytest.mark.parametrize("batch", [50, module.BATCH_ROWS])
def test_rows_out_of_key_order_are_refused(kernel, rows, monkeypatch, table, batch):
    monkeypatch.setattr(module, "BATCH_ROWS", batch)
    order = np.arange(len(rows[table]))
    # One row of the end at the beginning.
    order = np.concatenate([order[-1:], order[:-1]])
    with pytest.raises(OrderError):
        counted(kernel, rows | {table: rows[table].take(order)})


def test_rows_out_of_key_order_from_batch_to_batch_are_refused(kernel, rows, monkeypatch):
    monkeypatch.setattr(module, "BATCH_ROWS", 100)
    persons = rows["persons"]
    swapped = persons.take(np.concatenate([np.arange(1000, len(persons)), np.arange(1000)]))
    with pytest.raises(OrderError, match="across batches"):
        counted(kernel, {name: table.between(0, 0) for name, table in rows.items()} | {"persons": swapped})


def test_findings_add_up_without_keys_of_offenders(plan, rows):
    kernel = plan.kernel()
    alone = rows | {"geo": rows["geo"].between(0, 0)}
    total = counted(kernel, alone)
    total += counted(kernel, alone)
    assert not total.keys
    assert total.broken == {rule: 2 * number for rule, number in counted(kernel, alone).broken.items()}


def test_a_partition_may_be_empty_or_lack_a_table(kernel, rows):
    nothing = {name: table.between(0, 0) for name, table in rows.items()}
    assert counted(kernel, nothing).households == 0
    for name in rows:
        alone = counted(kernel, nothing | {name: rows[name]})
        assert alone.households == len(np.unique(rows[name].key))
        assert not alone.tallies["PH1_denom"].items()[0].size


def test_keys_of_offenders_are_the_smallest_and_each_is_there_once(plan, rows):
    units = rows["units"]
    twice = rows | {"units": units.take(np.repeat(np.arange(len(units)), 2))}
    found = counted(plan.kernel(examples=5), twice)
    (rule,) = [rule for rule in found.keys if rule.name == "MAFID stands once in units"]
    assert found.keys[rule].tolist() == sorted(set(units.key.tolist()))[:5]
    assert found.broken[rule] == 2 * len(units)


def test_the_result_says_how_many_rows_there_were(kernel, small_frames):
    found = kernel.nothing()
    persons = small_frames["persons"]
    broken = pl.concat([persons, persons.head(3).with_columns(MAFID=None)], how="vertical_relaxed")
    rows = kernel.encode("persons", broken.to_arrow().to_batches(), found)
    assert found.rows["persons"] == len(rows) + 3 == persons.height + 3


def test_codes_depend_on_the_config_and_not_on_the_data(plan, small_frames, kernel):
    """Widths come from layout and config: a record is packed alike, whatever other records there are."""
    persons = small_frames["persons"]
    together = kernel.encode("persons", persons.to_arrow().to_batches(), kernel.nothing()).record
    alone = [
        kernel.encode("persons", persons[i : i + 1].to_arrow().to_batches(), kernel.nothing()).record[0]
        for i in range(0, persons.height, 97)
    ]
    assert together[::97].tolist() == alone


def test_everybody_is_what_is_kept_and_what_is_dropped(plan, kernel, rows):
    found = Tabulated(plan, counted(kernel, rows))
    everybody, kept = found.counts(truncate=False), found.counts()
    total, beyond = found.beyond_threshold()["PH1_num"]
    assert everybody["PH1_num", "usa_*"].sum() == total
    assert kept["PH1_num", "usa_*"].sum() == total - beyond
    assert beyond > 0
