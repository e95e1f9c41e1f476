"""Files: the same bytes for the same seed, the same content in both formats, complete or absent."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from phsafe.errors import OutputError, PHSafeError
from phsafe.model.schema import LAYOUTS
from phsafe.synthetic import MARK, chunk_plan, generate, synth


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("files") / "a", 4000, "44,56", seed=3)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path, format):
    one, two, three = (
        synth(tmp_path / str(i), 2000, "44,56", seed=seed, format=format) for i, seed in enumerate([3, 3, 4])
    )
    assert digests(one) == digests(two)
    other = digests(three)
    changed = {name for name, digest in digests(one).items() if digest != other[name]}
    assert {name for name in other if "persons" in name} <= changed


def test_the_numbers_are_the_same_on_every_machine():
    # Parquet files contain Arrow's version, so this pins the numbers themselves.
    from phsafe.synthetic.chunks import compose

    rows = compose(chunk_plan.plan(5000, ("15",), 11)[0])
    digest = hashlib.sha256()
    for columns in rows.values():
        for values in columns.values():
            digest.update(np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes())
    assert digest.hexdigest() == "8b45d720863f811febe96556e398348365da595dc57c42b734df620835cc6bfc"


def test_the_number_of_processes_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setattr(chunk_plan, "CHUNK", 500)
    steps = []
    one = synth(tmp_path / "one", 3000, "44,56", jobs=1)
    two = synth(tmp_path / "two", 3000, "44,56", jobs=2, progress=lambda *step: steps.append(step))
    assert digests(one) == digests(two)
    assert steps == [(i, len(steps)) for i in range(1, len(steps) + 1)]
    assert len(steps) >= 6


def test_csv_and_parquet_have_the_same_content(first, tmp_path):
    csv = synth(tmp_path / "csv", 4000, "44,56", seed=3, format="csv")
    for layout in LAYOUTS:
        parquet = pl.read_parquet(first / layout.name / "*.parquet")
        assert parquet.columns == [column.name for column in layout.columns]
        types = {name: pl.String if dtype == pl.String else dtype for name, dtype in parquet.schema.items()}
        assert pl.read_csv(csv / f"{layout.name}.csv", schema=types).equals(parquet)
        for column in layout.columns:
            assert parquet.schema[column.name].is_integer() == column.is_integer


def test_parquet_is_split_by_state_and_row_groups_can_be_skipped_by_mafid(first, tmp_path, monkeypatch):
    assert {p.name for p in (first / "persons").iterdir()} == {"44.parquet", "56.parquet"}
    assert (first / MARK).read_text().count(".") == 1
    monkeypatch.setattr(chunk_plan, "CHUNK", 300)
    path = synth(tmp_path / "groups", 1000, "44") / "units" / "44.parquet"
    metadata = pq.read_metadata(path)
    ranges = [metadata.row_group(i).column(1).statistics for i in range(metadata.num_row_groups)]
    assert len(ranges) == 4
    assert all(a.max < b.min for a, b in pairwise(ranges))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"households": 0}, "households: expected 1 to 400000000, got 0"),
        ({"households": -5}, "got -5"),
        ({"households": 10**12}, "households: expected"),
        ({"states": "99"}, "states: expected 'us', 'pr' or states such as 44,56 or RI,WY, got '99'"),
        ({"states": ""}, "states: expected"),
        ({"states": "7"}, "states: expected"),
        ({"states": "44,72"}, "Puerto Rico"),
        ({"seed": -1}, "seed: expected"),
        ({"format": "xlsx"}, "format: expected one of csv, parquet, got xlsx"),
        ({"jobs": 0}, "jobs: expected"),
    ],
)
def test_mistakes_give_one_sentence_and_leave_nothing_behind(tmp_path, arguments, message):
    with pytest.raises(PHSafeError) as error:
        synth(tmp_path / "out", **{"households": 10, **arguments})
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_refused_and_kept(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("kept")
    with pytest.raises(OutputError, match="doesn't exist yet"):
        synth(out, 10)
    assert (out / "mine").read_text() == "kept"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, format):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("phsafe.synthetic.microdata_files.arrow_table", full)
    with pytest.raises(OutputError, match="No space left on device"):
        synth(tmp_path / "out", 10, "56", format=format)
    assert list(tmp_path.iterdir()) == []


def test_any_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def fail(_):
        raise ZeroDivisionError

    monkeypatch.setattr(generate, "compose", fail)
    with pytest.raises(ZeroDivisionError):
        synth(tmp_path / "out", 10, "56")
    assert list(tmp_path.iterdir()) == []


def test_fewer_households_than_states(tmp_path):
    folder = synth(tmp_path / "few", 3)
    assert len(list((folder / "units").iterdir())) == 3
    assert pl.read_parquet(folder / "units" / "*.parquet").filter(pl.col("HHT") != "0").height == 3


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    script = tmp_path / "make.py"
    script.write_text(
        "from phsafe.synthetic import synth\n"
        'if __name__ == "__main__":\n'
        f"    synth({str(tmp_path / 'out')!r}, 100_000_000, '06', jobs=2)\n"
    )
    process = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 40
    while not list(tmp_path.glob(".out.*/units/06.parquet")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=40)
    assert process.returncode != 0
    assert list(tmp_path.iterdir()) == [script]
