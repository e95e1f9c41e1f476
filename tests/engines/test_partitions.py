"""Results don't depend on row order, the number of partitions and processes, or Parquet statistics."""

import errno
import itertools
import json
import os
import re
import signal
import stat
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phsafe import Config, release, tabulate, validate
from phsafe.counting.households import OrderError
from phsafe.counting.plan import Plan
from phsafe.counting.records import Rows
from phsafe.engines import EngineOptions, partitions
from phsafe.engines import duckdb_engine as engine
from phsafe.engines.partitions import Buckets, KeyRange, RowGroup, SortedPartition, bucket_of, cut, row_groups
from phsafe.errors import DataError, PHSafeError
from phsafe.model.schema import LAYOUTS
from phsafe.pipeline import publish
from phsafe.pipeline.scan import open_source, scan_tables
from phsafe.pipeline.validation import report
from phsafe.privacy.ledger import Ledger
from phsafe.readers import local_tables
from phsafe.synthetic import synth

NAMES = [layout.name for layout in LAYOUTS]
MARKER = "S3CRET"
INT32 = pa.int32()
#: Most tests use a single process, because starting workers takes most of the time.
ALONE, TWO = EngineOptions(threads=1), EngineOptions(threads=2)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Synthetic households, sorted by key."""
    folder = synth(tmp_path_factory.mktemp("synth") / "data", 3_000, states=["44", "56"], seed=3)
    return {name: pl.read_parquet(folder / name / "*.parquet").sort("MAFID") for name in NAMES}


@pytest.fixture(scope="module")
def config(us):
    """The 2020 parameters, with low thresholds that drop many people."""
    document = json.loads(us.read_text()) | {"state_filter": ["44", "56"]}
    return document | {"tau": dict.fromkeys(document["tau"], 3)}


@pytest.fixture(scope="module")
def whole(frames, config):
    """The expected results: counted in memory as one partition."""
    return tabulate(config, frames), validate(config, frames)


@pytest.fixture
def shared(monkeypatch):
    """Make partitions small, and record the type of work, the number of partitions and the number of processes."""
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 500)
    monkeypatch.setattr(partitions, "BUCKET_ROWS", 1_000)
    monkeypatch.setattr(local_tables, "TASK_ROWS", 1_000)
    monkeypatch.setattr(engine, "PARALLEL_ROWS", 0)
    really, seen = engine.in_order, []

    def in_order(function, items, jobs):
        items = list(items)
        seen.append((type(function).__name__, len(items), jobs))
        return really(function, items, jobs)

    monkeypatch.setattr(engine, "in_order", in_order)
    return seen


def works(seen):
    """The distinct types of work, in order; clears the record."""
    types = list(dict.fromkeys(work for work, _, _ in seen))
    seen.clear()
    return types


SORTED, SPREAD, FELL_BACK = ["SortedPartition"], ["BucketPartition"], ["SortedPartition", "BucketPartition"]


def write(frames, folder, rows=200):
    """Write each table as one Parquet file with small row groups."""
    folder.mkdir()
    for name, frame in frames.items():
        table = frame if isinstance(frame, pa.Table) else frame.to_arrow()
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=rows)
    return folder


def shuffle(frames):
    return {name: frame.sample(fraction=1.0, shuffle=True, seed=1) for name, frame in frames.items()}


# --- any order, any number of processes ---------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_partitioning_does_not_change_results(frames, config, whole, tmp_path, shared, order, processes):
    folder = write(frames if order == "sorted" else shuffle(frames), tmp_path / "data")
    options = EngineOptions(threads=processes)
    assert tabulate(config, folder, options=options).equals(whole[0])
    last, number, jobs = shared[-1]
    assert (last, jobs) == ("SortedPartition" if order == "sorted" else "BucketPartition", processes)
    assert number > 10
    assert works(shared) == (SORTED if order == "sorted" else SPREAD)
    assert validate(config, folder, options=options) == whole[1]
    assert works(shared) == (SORTED if order == "sorted" else SPREAD)


def as_csv(frames, folder):
    folder.mkdir()
    for name, frame in shuffle(frames).items():
        frame.write_csv(folder / f"{name}.csv")
    return folder


def mixed(frames, folder):
    """Write each table in a different form, one of them sorted."""
    as_csv({"persons": frames["persons"]}, folder)
    pq.write_table(frames["units"].to_arrow(), folder / "units.parquet", row_group_size=200)
    (folder / "geo").mkdir()
    for i, part in enumerate(shuffle(frames)["geo"].iter_slices(1_000)):
        part.write_parquet(folder / "geo" / f"{i}.parquet")
    return folder


@pytest.mark.parametrize("form", [as_csv, mixed, lambda frames, _: shuffle(frames)], ids=["csv", "mixed", "frames"])
def test_unsorted_input_of_every_form_goes_through_buckets(frames, config, whole, tmp_path, shared, form):
    data = form(frames, tmp_path / "data")
    assert tabulate(config, data, options=TWO).equals(whole[0])
    work, number, jobs = shared[-1]
    assert (work, jobs, works(shared)) == ("BucketPartition", 2, SPREAD)
    assert number > 10


def test_a_small_input_is_counted_in_memory(frames, config, whole, tmp_path, shared, monkeypatch):
    monkeypatch.setattr(partitions, "BUCKET_ROWS", 100_000)
    monkeypatch.setattr(partitions, "Buckets", lambda *_: pytest.fail("nothing is written"))
    assert tabulate(config, write(shuffle(frames), tmp_path / "data"), options=ALONE).equals(whole[0])
    assert works(shared) == []


@pytest.fixture(scope="module")
def bad(frames):
    """Data with unknown codes, missing values, persons without a unit, and repeated units."""
    changed = {name: frame.with_row_index("i") for name, frame in frames.items()}
    unknown = pl.when(pl.col("i") % 7 == 0)
    changed["persons"] = changed["persons"].with_columns(
        RELSHIP=unknown.then(pl.format("x{}", pl.col("i") % 5)).otherwise("RELSHIP"),
        QAGE=pl.when(pl.col("i") % 11 == 0).then(None).otherwise("QAGE"),
    )
    changed["units"] = pl.concat([changed["units"][10:], changed["units"][500:503]]).sort("MAFID")
    return {name: frame.drop("i") for name, frame in changed.items()}


def scanned(config, data, options=ALONE):
    """The exact counts, the example keys and the validation report."""
    loaded = Config.load(config)
    with open_source(data, options) as source:
        found = scan_tables(source.tables(), loaded, source.engine, examples=5)
    return found.counts(), report(found, {}).offenders, report(found, {})


@pytest.fixture(scope="module")
def bad_whole(bad, config):
    return scanned(config, bad)


@pytest.mark.parametrize(("order", "processes"), [("sorted", 1), ("sorted", 2), ("shuffled", 1), ("shuffled", 2)])
def test_partitioning_does_not_change_findings(bad, bad_whole, config, tmp_path, shared, order, processes):
    """Truncation orders records with unknown codes by their raw values, which must stay with their rows."""
    folder = write(bad if order == "sorted" else shuffle(bad), tmp_path / "data")
    counts, keys, found = scanned(config, folder, EngineOptions(threads=processes))
    assert works(shared) == (SORTED if order == "sorted" else SPREAD)
    assert same_counts(counts, bad_whole[0])
    assert (keys, found) == bad_whole[1:]
    assert {f.rows for f in found.findings if f.rule == "MAFID is unique in units"} == {6}
    assert max(map(len, keys.values())) == 5


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_progress_increases_to_one(frames, config, tmp_path, shared, order):
    reported = []
    folder = write(frames if order == "sorted" else shuffle(frames), tmp_path / "data")
    tabulate(config, folder, options=ALONE, progress=lambda _, done: reported.append(done))
    assert len(reported) > 10
    assert reported == sorted(reported) and (reported[0], reported[-1]) == (0.0, 1.0)


# --- false statistics ---------------------------------------------------------------------------------------------


def statistics(file, group):
    metadata = pq.read_metadata(file)
    found = metadata.row_group(group).column(metadata.schema.names.index("MAFID")).statistics
    return found.min, found.max


def lie(file, group, low, high):
    """Change the statistics of a row group to keys from `low` to `high`."""
    lies(file, {group: (low, high)})


def lies(file, keys):
    """Change the statistics of several row groups."""
    content = file.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    replacements = {footer_of(*statistics(file, group)): footer_of(*reported) for group, reported in keys.items()}
    assert len(replacements) == len(keys) and all(content[start:].count(old) in (1, 2) for old in replacements)
    changed = re.sub(
        b"|".join(map(re.escape, replacements)), lambda old: replacements[old[0]], content[start:], flags=re.DOTALL
    )
    file.write_bytes(content[:start] + changed)
    assert {group: statistics(file, group) for group in keys} == keys


def footer_of(low, high):
    """Statistics as the footer encodes them: two strings of four bytes, the largest key first."""
    return b"\x04" + struct.pack("<i", high) + b"\x18\x04" + struct.pack("<i", low)


def narrower_above(file):
    low, high = statistics(file, 10)
    lie(file, 10, low, high - 1)


def narrower_below(file):
    low, high = statistics(file, 10)
    lie(file, 10, low + 1, high)


def elsewhere(file):
    low, _ = statistics(file, 0)
    lie(file, 0, low - 10, low - 5)


def backwards(file):
    low, high = statistics(file, 10)
    assert low < high
    lie(file, 10, high, low)


def nowhere(file):
    """An empty range, so that no partition would include the row group."""
    lie(file, 10, statistics(file, 10)[1], -7)


def wider(file):
    """True but loose: from the end of the previous row group to the start of the next."""
    lie(file, 10, statistics(file, 9)[1], statistics(file, 11)[0])


def all_the_same(file):
    found = {group: statistics(file, group) for group in range(pq.read_metadata(file).num_row_groups)}
    lies(file, {group: (low, low) for group, (low, high) in found.items() if low < high})


LIES = {
    narrower_above: FELL_BACK, narrower_below: FELL_BACK, elsewhere: FELL_BACK, all_the_same: FELL_BACK,
    backwards: SPREAD, nowhere: SPREAD, wider: SORTED,
}  # fmt: skip


@pytest.fixture
def counted(monkeypatch):
    """Record the exact counts behind each release."""
    really, seen = publish.open_session, []

    def open_session(config, counts):
        seen.append({key: vector.copy() for key, vector in counts.items()})
        return really(config, counts)

    monkeypatch.setattr(publish, "open_session", open_session)
    return seen


def same_counts(one, other):
    assert one.keys() == other.keys()
    return all(np.array_equal(one[key], other[key]) for key in one)


def releases_alike(config, honest, folder, tmp_path, counted, processes=1, *, skip_validation=False):
    """Release both, and return whether their exact counts are equal. The honest data are validated."""
    for data, name in ((honest, "honest"), (folder, "lying")):
        released = release(
            config, data, tmp_path / f"out {name}", ledger=tmp_path / f"{name}.ledger", new_ledger=True,
            options=EngineOptions(threads=processes), skip_validation=skip_validation and data is folder,
        )  # fmt: skip
        (entry,) = Ledger.open(tmp_path / f"{name}.ledger").charges()
        assert entry.release_id == released.release_id
    return same_counts(*counted)


@pytest.mark.parametrize("table", NAMES)
@pytest.mark.parametrize("change", LIES, ids=lambda change: change.__name__)
def test_no_statistics_can_hide_or_move_a_row(frames, config, whole, tmp_path, shared, change, table):
    folder = write(frames, tmp_path / "data")
    change(folder / f"{table}.parquet")
    assert tabulate(config, folder, options=ALONE).equals(whole[0])
    assert works(shared) == LIES[change]
    assert validate(config, folder, options=ALONE) == whole[1]


@pytest.mark.parametrize(
    ("change", "processes"), [(narrower_above, 2), (nowhere, 1)], ids=["narrower_above", "nowhere"]
)
@pytest.mark.parametrize("skips", [False, True], ids=["validated", "not validated"])
def test_a_release_from_files_with_false_statistics(
    frames, config, tmp_path, shared, counted, change, processes, skips
):
    folder = write(frames, tmp_path / "data")
    change(folder / "persons.parquet")
    assert releases_alike(config, frames, folder, tmp_path, counted, processes, skip_validation=skips)


@pytest.mark.parametrize("away", [5, -5], ids=["in none", "in two"])
def test_every_row_is_in_one_partition(frames, config, whole, tmp_path, shared, monkeypatch, away):
    """A wrong cut, which loses or repeats rows, is detected."""
    key = int(frames["units"]["MAFID"][1_000])
    ranges = [KeyRange(-float("inf"), key), KeyRange(key + away, float("inf"))]
    monkeypatch.setattr(partitions, "cut", lambda tables: ranges)
    assert tabulate(config, write(frames, tmp_path / "data"), options=ALONE).equals(whole[0])
    assert works(shared) == FELL_BACK


def moved(frame, rows, to):
    """A frame with some rows moved to another position."""
    rest = frame.with_row_index("i").filter(~pl.col("i").is_in(rows)).drop("i")
    return pl.concat([rest[:to], frame[rows], rest[to:]])


def claim_sorted(file, honest):
    """Give all row groups of a file the statistics of a sorted file."""
    found = {group: statistics(honest, group) for group in range(pq.read_metadata(file).num_row_groups)}
    lies(file, {group: keys for group, keys in found.items() if keys != statistics(file, group)})


ORDERS = {
    "backwards inside a row group": lambda frame: pl.concat([frame[:1000], frame[1000:1200].reverse(), frame[1200:]]),
    "one row far away": lambda frame: moved(frame, [2500], 300),
    "two row groups swapped": lambda frame: pl.concat([frame[:400], frame[600:800], frame[400:600], frame[800:]]),
}  # fmt: skip


#: The order of rows, the order that statistics claim, and how such files are counted.
CASES = [
    ("backwards inside a row group", "honest", FELL_BACK),
    ("one row far away", "honest", SPREAD),
    ("one row far away", "sorted", FELL_BACK),
    ("two row groups swapped", "honest", SORTED),
    ("two row groups swapped", "sorted", FELL_BACK),
]


@pytest.mark.parametrize(("order", "claimed", "way"), CASES)
def test_misplaced_rows_are_counted_correctly(frames, config, whole, tmp_path, shared, counted, order, claimed, way):
    folder = write(frames | {"persons": ORDERS[order](frames["persons"])}, tmp_path / "data")
    if claimed == "sorted":
        claim_sorted(folder / "persons.parquet", write(frames, tmp_path / "sorted") / "persons.parquet")
    assert tabulate(config, folder, options=ALONE).equals(whole[0])
    assert works(shared) == way
    assert validate(config, folder, options=ALONE) == whole[1]
    assert releases_alike(config, frames, folder, tmp_path, counted)


@pytest.mark.parametrize("claimed", ["honest", "sorted"])
def test_a_scattered_household_is_truncated_as_one(frames, config, whole, tmp_path, shared, counted, claimed):
    """A large household, each row in another row group, so that no row group exceeds the threshold."""
    persons = frames["persons"].with_row_index("i")
    sizes = persons.group_by("MAFID").len().filter(pl.col("len").is_between(10, 20)).sort("len", "MAFID")
    rows = persons.filter(pl.col("MAFID") == sizes["MAFID"][-1])["i"].to_list()
    scattered = frames["persons"]
    for number, row in enumerate(rows):
        scattered = moved(scattered, [row], 200 * number)
    folder = write(frames | {"persons": scattered}, tmp_path / "data")
    groups = [pq.ParquetFile(folder / "persons.parquet").read_row_group(i) for i in range(len(rows))]
    assert max(group["MAFID"].to_pylist().count(sizes["MAFID"][-1]) for group in groups) <= 3
    if claimed == "sorted":
        claim_sorted(folder / "persons.parquet", write(frames, tmp_path / "sorted") / "persons.parquet")
    assert tabulate(config, folder, options=TWO).equals(whole[0])
    assert works(shared) == (SPREAD if claimed == "honest" else FELL_BACK)
    assert not tabulate(config, folder, truncate=False, options=ALONE).equals(whole[0])
    assert releases_alike(config, frames, folder, tmp_path, counted)


@pytest.mark.parametrize("cut", ["between files", "between row groups"])
def test_a_household_across_a_boundary(frames, config, whole, tmp_path, shared, cut):
    """The files are still sorted; each partition reads on until the household ends."""
    persons = frames["persons"]
    inside = np.flatnonzero(persons["MAFID"].to_numpy()[1:] == persons["MAFID"].to_numpy()[:-1])[50::97] + 1
    boundaries = [0, *inside.tolist(), len(persons)]
    parts = [persons[a:b].to_arrow() for a, b in itertools.pairwise(boundaries)]
    folder = write(frames, tmp_path / "data", rows=100)
    (folder / "persons.parquet").unlink()
    if cut == "between files":
        (folder / "persons").mkdir()
        for i, part in enumerate(parts):
            pq.write_table(part, folder / "persons" / f"{i:03}.parquet")
    else:
        with pq.ParquetWriter(folder / "persons.parquet", parts[0].schema) as writer:
            for part in parts:
                writer.write_table(part)
    assert tabulate(config, folder, options=ALONE).equals(whole[0])
    assert shared[0][0] == "SortedPartition" and shared[0][1] > 10
    assert works(shared) == SORTED
    assert validate(config, folder, options=ALONE) == whole[1]


def test_rows_without_a_key_are_found_in_sorted_files_too(frames, config, whole, tmp_path, shared):
    persons = frames["persons"].with_row_index("i")
    gone = pl.when(pl.col("i").is_in([777, 4444])).then(None).otherwise("MAFID").alias("MAFID")
    folder = write(frames | {"persons": persons.with_columns(gone).drop("i")}, tmp_path / "data")
    found = validate(config, folder, options=ALONE)
    assert works(shared) == FELL_BACK
    assert [(f.column, f.rule, f.rows) for f in found.of("error")] == [("MAFID", "the value is a whole number", 2)]
    assert found.rows == whole[1].rows


@pytest.mark.parametrize(
    ("dtype", "first"),
    [(pa.uint32(), 0), (pa.uint64(), 0), (pa.int64(), -1), (pa.int32(), -(2**31)), (pa.dictionary(INT32, INT32), 0)],
    ids=str,
)
def test_keys_of_every_type_in_sorted_files(frames, config, tmp_path, shared, dtype, first):
    """Including very small keys, which validation must report as out of domain."""
    data = {}
    for name, frame in frames.items():
        table = frame.to_arrow()
        keys = table["MAFID"].to_pylist()
        keys[:1] = [first] if name == "persons" else keys[:1]
        data[name] = table.set_column(table.schema.names.index("MAFID"), "MAFID", pa.array(keys, dtype))
    found = validate(config, write(data, tmp_path / "data"), options=ALONE)
    assert "SortedPartition" in works(shared)
    assert [(f.table, f.column, f.rule, f.rows) for f in found.of("error")] == [
        ("persons", "MAFID", "the value is in the column's domain", 1),
        ("persons", "MAFID", "every person's MAFID is in units", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("way", ["replaced", "overwritten"])
def test_changed_files_are_read_again(frames, config, whole, tmp_path, shared, way):
    """In the same process, as when a user corrects a file and validates again."""
    folder = write(frames, tmp_path / "data")
    assert tabulate(config, folder, options=ALONE).equals(whole[0])
    assert not [path for path in Path("/proc/self/fd").iterdir() if str(path.resolve()).startswith(str(folder))]
    other = frames | {"persons": frames["persons"].with_columns(pl.lit(5, pl.Int8).alias("QAGE"))}
    expected = tabulate(config, other, skip_validation=True, options=ALONE)
    assert not expected.equals(whole[0])
    new = write(other, tmp_path / "new") / "persons.parquet"
    if way == "replaced":
        new.replace(folder / "persons.parquet")
    else:
        (folder / "persons.parquet").write_bytes(new.read_bytes())
    shared.clear()
    assert tabulate(config, folder, skip_validation=True, options=ALONE).equals(expected)
    assert works(shared) == SORTED


@pytest.mark.parametrize("form", [write, as_csv, lambda frames, _: frames], ids=["parquet", "csv", "frames"])
@pytest.mark.parametrize("table", NAMES)
def test_a_table_without_rows(frames, config, tmp_path, shared, form, table):
    data = form(shuffle(frames) | {table: frames[table].head(0)}, tmp_path / "data")
    found = validate(config, data, options=ALONE)
    assert works(shared) == SPREAD
    assert found.rows[table] == 0
    assert ("the table has rows", table) in {(finding.rule, finding.table) for finding in found.of("error")}
    assert validate(config, data, allow_empty_states=True, options=ALONE).ok == (table == "persons")


# --- where to cut -------------------------------------------------------------------------------------------------


def group(rows, low, high):
    return RowGroup(low, high, rows, Path("x"), 0)


@st.composite
def row_groups_in_order(draw):
    """Row groups, each starting where the previous one ends or later; a key may span several of them."""
    steps = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 30)), min_size=1))
    found, key = [], draw(st.integers(-(2**31), 100))
    for gap, width, rows in steps:
        found.append(group(rows, key + gap, key + gap + width))
        key += gap + width
    return found


@settings(deadline=None)
@given(row_groups_in_order(), st.integers(1, 60))
def test_every_key_is_in_exactly_one_range(groups, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitions, "PARTITION_ROWS", rows)
        ranges = partitions._ranges(groups, sum(one.rows for one in groups) or 1)
    keys = {key for one in groups for key in range(one.low - 1, one.high + 2)} | {-(2**31), 2**31 - 1}
    for key in keys:
        (place,) = (one for one in ranges if one.low <= key < one.high)
        assert all(one.overlaps(place) for one in groups if one.low <= key <= one.high)
    assert all(any(one.overlaps(place) for place in ranges) for one in groups)


@pytest.fixture
def file_of(tmp_path, monkeypatch):
    """Write a file with the given keys in each row group; makes partitions small."""
    monkeypatch.setattr(partitions, "PARTITION_ROWS", 20)
    names = iter("abcdefgh")

    def make(*keys, dtype=INT32, **settings):
        file = tmp_path / f"{next(names)}.parquet"
        with pq.ParquetWriter(file, pa.schema([("MAFID", dtype)]), **settings) as writer:
            for part in keys:
                writer.write_table(pa.table({"MAFID": pa.array(part, dtype)}))
        return row_groups([file])

    return make


TENS = [list(range(10 * i, 10 * i + 10)) for i in range(20)]
ALL = list(range(200))


@pytest.mark.parametrize("dtype", [pa.int32(), pa.int64(), pa.uint32(), pa.int16()], ids=str)
def test_sorted_files_are_cut(file_of, dtype):
    ranges = cut([file_of(*TENS, dtype=dtype), file_of(*TENS[::-1], dtype=dtype)])
    assert len(ranges) == 20
    assert ranges[0] == KeyRange(-float("inf"), 10)
    assert ranges[-1] == KeyRange(190, float("inf"))


def test_the_cut_that_reads_the_fewest_rows_is_chosen(file_of):
    large = file_of(ALL[:100], ALL[100:])
    assert cut([file_of(*TENS), large]) == [
        KeyRange(-float("inf"), 100),
        KeyRange(100, float("inf")),
    ]


@pytest.mark.parametrize(
    ("keys", "settings"),
    [
        ([*TENS[:10], [95, 105], *TENS[10:]], {}),
        (TENS, {"write_statistics": False}),
        ([[None] * 10, *TENS], {}),
        ([ALL], {}),
        ([[str(key) for key in part] for part in TENS], {"dtype": pa.string()}),
        ([[2**31 + key for key in part] for part in TENS], {"dtype": pa.int64()}),
        ([[2**53 + key for key in part] for part in TENS], {"dtype": pa.uint64()}),
        ([[-(2**40) + key for key in part] for part in TENS], {"dtype": pa.int64()}),
    ],
    ids=["overlap", "no statistics", "only nulls", "one row group", "texts", "33 bits", "54 bits", "far below"],
)
def test_inputs_that_are_not_treated_as_sorted(file_of, keys, settings):
    groups = file_of(*keys, **settings)
    assert groups is None or cut([groups]) is None
    assert cut([file_of(*TENS)]) is not None


def test_few_rows_are_not_cut(file_of):
    assert cut([file_of(*TENS[:2])]) is None


@pytest.fixture(scope="module")
def kernel(config):
    return Plan(Config.load(config)).kernel()


def read_keys(kernel, groups, low, high):
    batches = SortedPartition(kernel, {"persons": groups})._read("persons", KeyRange(low, high))
    return [key for batch in batches for key in batch["MAFID"].to_pylist()]


def test_a_partition_reads_its_key_range_in_order(file_of, kernel):
    table = file_of([1, 1, 2, 5], [5, 5, 6], [6, 9])
    assert read_keys(kernel, table, -float("inf"), 5) == [1, 1, 2]
    assert read_keys(kernel, table, 5, 6) == [5, 5, 5]
    assert read_keys(kernel, table, 6, float("inf")) == [6, 6, 9]


@pytest.mark.parametrize("keys", [[1, 3, 2], [1, None, 3]], ids=["order", "null"])
def test_an_unsorted_partition_raises_an_order_error(file_of, kernel, keys):
    with pytest.raises(OrderError):
        read_keys(kernel, file_of(keys), 0, 10)


# --- buckets ------------------------------------------------------------------------------------------------------


def rows_of(keys, raw=None):
    """Rows whose records are their positions."""
    texts = None if raw is None else pa.array(raw, pa.binary())
    return Rows(np.array(keys, np.int32), np.arange(len(keys), dtype=np.int64), texts)


def listed(rows):
    raw = [None] * len(rows) if rows.raw is None else rows.raw.to_pylist()
    return list(zip(rows.key.tolist(), rows.record.tolist(), raw, strict=True))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=3)), max_size=30)),
    st.integers(1, 40),
)
def test_buckets_return_every_row_once_with_its_raw_values(tmp_path_factory, parts, number):
    folder = tmp_path_factory.mktemp("buckets")
    given_rows, buckets = [], Buckets(folder / "a.rows", number, np.dtype(np.int64))
    for part in parts:
        texts = [text for _, text in part]
        rows = rows_of([key for key, _ in part], texts if any(text is not None for text in texts) else None)
        given_rows += listed(rows)
        buckets.add(rows)
    found = []
    for bucket in range(number):
        rows = buckets.partition(bucket)
        assert (np.diff(rows.key.astype(np.int64)) >= 0).all()
        assert (bucket_of(rows.key, number) == bucket).all()
        found += listed(rows)
    assert sorted(found, key=repr) == sorted(given_rows, key=repr)


@settings(deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1), st.integers(1, 4096))
def test_a_key_has_one_bucket(keys, number):
    found = bucket_of(np.array(keys, np.int32), number)
    assert (found < number).all()
    assert found.tolist() == [bucket_of(np.array([key], np.int32), number)[0] for key in keys]


def test_consecutive_keys_are_spread_evenly():
    keys = np.arange(100_000_001, 100_100_001, dtype=np.int32)
    for number in (2, 7, 64, 1000):
        sizes = np.bincount(bucket_of(keys, number), minlength=number)
        assert sizes.min() > 0.8 * len(keys) / number


def bucketed(path, keys, number):
    buckets = Buckets(path, number, np.dtype(np.int64))
    buckets.add(rows_of(keys))
    return buckets


def test_a_key_in_the_wrong_bucket_is_an_error(tmp_path):
    buckets = bucketed(tmp_path / "a.rows", [1, 2, 3, 4], 2)
    content = (tmp_path / "a.rows").read_bytes()
    (tmp_path / "a.rows").write_bytes(content[len(content) // 4 :] + content[: len(content) // 4])
    with pytest.raises(OrderError):
        for bucket in range(2):
            buckets.partition(bucket)


def test_a_truncated_or_deleted_bucket_file_is_an_error(tmp_path):
    folder = tmp_path / "temp"
    folder.mkdir()
    buckets = bucketed(folder / "a.rows", range(100), 1)
    content = (folder / "a.rows").read_bytes()
    for length in (
        len(content) // 2,
        len(content) // 2 + 1,
        0,
    ):  # Between two rows, within a row, and at the start.
        (folder / "a.rows").write_bytes(content[:length])
        with pytest.raises(PHSafeError, match="was truncated"):
            buckets.partition(0)
    (folder / "a.rows").unlink()
    with pytest.raises(PHSafeError, match="can't be read: No such file"):
        buckets.partition(0)


def test_bucket_files_are_readable_by_the_owner_only(tmp_path):
    before = os.umask(0)
    try:
        bucketed(tmp_path / "a.rows", [1], 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.rows").stat().st_mode) == 0o600


def test_a_full_disk_is_reported_in_one_sentence(frames, config, tmp_path, shared, monkeypatch):
    (tmp_path / "temp").mkdir()
    really = os.fdopen

    def fdopen(descriptor, *words, **settings):
        file = really(descriptor, *words, **settings)
        if words[:1] != ("ab",):
            return file
        with file:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdopen", fdopen)
    with pytest.raises(PHSafeError) as caught:
        tabulate(config, shuffle(frames), options=EngineOptions(temp_dir=tmp_path / "temp", threads=1))
    assert str(caught.value) == (
        f"can't write to {tmp_path / 'temp'}: No space left on device; free space or name another temporary folder"
    )
    assert list((tmp_path / "temp").iterdir()) == []


LIMITED = """
import json, resource, sys
from pathlib import Path
from phsafe import tabulate
from phsafe.engines import EngineOptions, duckdb_engine, partitions
config, data, temp, processes = sys.argv[1:]
partitions.BUCKET_ROWS, duckdb_engine.PARALLEL_ROWS = 1000, 0
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    tabulate(json.loads(config), data, options=EngineOptions(temp_dir=Path(temp), threads=int(processes)))
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_file_size_limit_is_reported_from_any_process(frames, config, tmp_path, processes):
    """The system limits the size of files, as a quota does."""
    folder, temp = write(shuffle(frames), tmp_path / "data"), tmp_path / "temp"
    temp.mkdir()
    command = [sys.executable, "-c", LIMITED, json.dumps(config), str(folder), str(temp), processes]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    sentence = f"PHSafeError can't write to {temp}: File too large; free space or name another temporary folder\n"
    assert (done.stdout, done.stderr) == (sentence, "")
    assert list(temp.iterdir()) == []


# --- errors and Ctrl-C --------------------------------------------------------------------------------------------


def children():
    found = set()
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(file.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.add(int(file.parent.name))
    return found


@pytest.fixture
def temp(tmp_path):
    """A temporary folder; checks at the end that it is empty and that no processes are left."""
    folder, before = tmp_path / "temp", children()
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []
    assert children() <= before


def damage(file, which):
    """Make one row group unreadable."""
    chunk = pq.read_metadata(file).row_group(which).column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(file.read_bytes())
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(content)


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_an_error_in_one_partition_ends_the_run(frames, config, tmp_path, shared, temp, order):
    folder = write(frames if order == "sorted" else shuffle(frames), tmp_path / "data")
    damage(folder / "persons.parquet", 20)
    reported = []
    with pytest.raises(DataError) as caught:
        tabulate(
            config, folder, options=EngineOptions(threads=2, temp_dir=temp),
            progress=lambda stage, done: reported.append(done),
        )  # fmt: skip
    assert str(caught.value).startswith(f"{folder / 'persons.parquet'}: can't be read or counted (")
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert max(reported) < 0.7


class Stop:
    """Sends Ctrl-C when a given share of the work is done."""

    def __init__(self, when):
        self.when, self.children, self.before = when, set(), children()

    def __call__(self, stage, done):
        if stage == "counting" and done >= self.when:
            self.children = children() - self.before
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                signal.pause()


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize(
    ("order", "when"),
    [("sorted", 0.3), ("shuffled", 0.1), ("shuffled", 0.8)],
    ids=["sorted", "spread", "buckets"],
)
def test_an_interrupt_stops_a_partitioned_run(frames, config, tmp_path, shared, temp, heard, order, when, processes):
    folder = write(frames if order == "sorted" else shuffle(frames), tmp_path / "data")
    stop = Stop(when)
    with pytest.raises(KeyboardInterrupt) as caught:
        tabulate(config, folder, options=EngineOptions(threads=processes, temp_dir=temp), progress=stop)
    # Workers have ended now, not only when the exception is garbage-collected.
    assert caught.value is not None
    assert children() <= stop.before
    # Rows are distributed to buckets in this process, without workers.
    assert len(stop.children) == (processes if processes > 1 and when != 0.1 else 0)


def test_errors_of_workers_quote_no_records(frames, config, tmp_path, shared, temp):
    """Text that is not UTF-8, which errors of Arrow and Python would quote."""
    persons = frames["persons"].to_arrow()
    bad = pa.array([MARKER.encode() + b"\xff"] * len(persons), pa.binary()).view(pa.string())
    place = persons.schema.names.index("RELSHIP")
    folder = write(frames | {"persons": persons.set_column(place, "RELSHIP", bad)}, tmp_path / "data")
    with pytest.raises(DataError) as caught:
        tabulate(config, folder, options=EngineOptions(threads=2, temp_dir=temp))
    assert str(caught.value) == f"{folder / 'persons.parquet'}: can't be read or counted (ArrowInvalid)"
    assert caught.value.__context__ is None and caught.value.__cause__ is None
