"""The kernel checks its input, and its results add up over partitions."""

import pickle

import numpy as np
import polars as pl
import pytest

from phsafe.configs.config import Config
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
    counted = kernel.empty()
    return {
        name: kernel.encode(name, frame.to_arrow().to_batches(), counted).in_key_order()
        for name, frame in small_frames.items()
    }


def counted(kernel, rows):
    return kernel.count(rows, kernel.empty())


def same(one, other):
    """Assert that two results are equal, whether their tallies are dense or sparse."""
    assert (one.rows, one.households, one.violations) == (other.rows, other.households, other.violations)
    assert one.beyond.tolist() == other.beyond.tolist()
    assert list(one.tallies) == list(other.tallies)
    for name, tally in one.tallies.items():
        np.testing.assert_array_equal(tally.items(), other.tallies[name].items())
    assert {rule: keys.tolist() for rule, keys in one.keys.items()} == {
        rule: keys.tolist() for rule, keys in other.keys.items()
    }


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_the_batch_size_does_not_change_results(kernel, rows, monkeypatch, batch):
    whole = counted(kernel, rows)
    monkeypatch.setattr(module, "BATCH_ROWS", batch)
    same(counted(kernel, rows), whole)


def test_partitions_add_up(kernel, rows):
    """Claim C1: results don't depend on how keys are split into partitions, nor on the process that counts."""
    total = kernel.empty()
    for part in range(3):
        chosen = {name: table.take(np.flatnonzero(table.key % 3 == part)) for name, table in rows.items()}
        total += pickle.loads(pickle.dumps(counted(kernel, chosen)))
    same(total, counted(kernel, rows))


def test_without_validation_the_counts_are_the_same_and_nothing_else_is_read(plan, small_frames):
    """Without a state for some households, rules are violated; FINAL_POP and most of geo take part in rules only."""
    geo = small_frames["geo"].with_columns(TABBLKST=pl.when(pl.col("MAFID").hash() % 9 > 0).then("TABBLKST"))
    frames, found = small_frames | {"geo": geo}, []
    for kernel in (plan.kernel(), plan.kernel(validates=False)):
        total, encoded = kernel.empty(), {}
        for name, frame in frames.items():
            read = frame.select(kernel.encoders[name].names).to_arrow()
            encoded[name] = kernel.encode(name, read.to_batches(), total).in_key_order()
        found.append(Tabulated(plan, kernel.count(encoded, total)))
    checked, unchecked = found
    assert checked.counted.violations and not unchecked.counted.violations
    for truncate in (True, False):
        counts = [one.counts(truncate=truncate) for one in found]
        assert counts[0].keys() == counts[1].keys()
        assert all((counts[0][key] == counts[1][key]).all() for key in counts[0])
        assert any(vector.any() for vector in counts[0].values())
    assert kernel.encoders["geo"].names == ("RTYPE", "MAFID", "TABBLKST")
    assert not {"FINAL_POP", "NPF"} & set(kernel.encoders["units"].names)
    assert kernel.encoders["persons"].names == plan.kernel().encoders["persons"].names


@pytest.mark.parametrize("table", ["persons", "units", "geo"])
@pytest.mark.parametrize("batch", [50, module.BATCH_ROWS])
@pytest.mark.parametrize("place", [0, 1], ids=["first", "second"])
def test_rows_out_of_key_order_are_refused(kernel, rows, monkeypatch, table, batch, place):
    """Move the last row to the front, or behind the first row, which is not larger than any other."""
    monkeypatch.setattr(module, "BATCH_ROWS", batch)
    order = np.insert(np.arange(len(rows[table]) - 1), place, len(rows[table]) - 1)
    with pytest.raises(OrderError):
        counted(kernel, rows | {table: rows[table].take(order)})


@pytest.mark.parametrize("first", [0, 500], ids=["from the start", "later"])
def test_rows_out_of_key_order_across_batches_are_refused(kernel, rows, monkeypatch, first):
    monkeypatch.setattr(module, "BATCH_ROWS", 100)
    persons = rows["persons"]
    swapped = persons.take(np.r_[:first, 1000 : len(persons), first:1000])
    with pytest.raises(OrderError, match="across batches"):
        counted(kernel, {name: table.between(0, 0) for name, table in rows.items()} | {"persons": swapped})


def test_findings_add_up_without_examples(plan, rows):
    kernel = plan.kernel()
    alone = rows | {"geo": rows["geo"].between(0, 0)}
    total = counted(kernel, alone)
    total += counted(kernel, alone)
    assert not total.keys
    assert total.violations == {rule: 2 * number for rule, number in counted(kernel, alone).violations.items()}


def test_a_partition_may_be_empty_or_lack_a_table(kernel, rows):
    nothing = {name: table.between(0, 0) for name, table in rows.items()}
    assert counted(kernel, nothing).households == 0
    for name in rows:
        alone = counted(kernel, nothing | {name: rows[name]})
        assert alone.households == len(np.unique(rows[name].key))
        assert not alone.tallies["PH1_denom"].items()[0].size


def test_examples_are_the_smallest_distinct_keys(plan, rows):
    units = rows["units"]
    twice = rows | {"units": units.take(np.repeat(np.arange(len(units)), 2))}
    found = counted(plan.kernel(examples=5), twice)
    (rule,) = [rule for rule in found.keys if rule.name == "MAFID is unique in units"]
    assert found.keys[rule].tolist() == sorted(set(units.key.tolist()))[:5]
    assert found.violations[rule] == 2 * len(units)


def test_rows_without_a_key_are_included_in_the_row_count(kernel, small_frames):
    found = kernel.empty()
    persons = small_frames["persons"]
    broken = pl.concat([persons, persons.head(3).with_columns(MAFID=None)], how="vertical_relaxed")
    rows = kernel.encode("persons", broken.to_arrow().to_batches(), found)
    assert found.rows["persons"] == len(rows) + 3 == persons.height + 3


def test_packing_does_not_depend_on_other_records(plan, small_frames, kernel):
    """Bit widths come from the layout and the config."""
    persons = small_frames["persons"]
    together = kernel.encode("persons", persons.to_arrow().to_batches(), kernel.empty()).record
    alone = [
        kernel.encode("persons", persons[i : i + 1].to_arrow().to_batches(), kernel.empty()).record[0]
        for i in range(0, persons.height, 97)
    ]
    assert together[::97].tolist() == alone


def test_kept_and_dropped_persons_add_up_to_the_universe(plan, kernel, rows):
    found = Tabulated(plan, counted(kernel, rows))
    everybody, kept = found.counts(truncate=False), found.counts()
    total, beyond = found.beyond_threshold()["PH1_num"]
    assert everybody["PH1_num", "usa_*"].sum() == total
    assert kept["PH1_num", "usa_*"].sum() == total - beyond
    assert beyond > 0
