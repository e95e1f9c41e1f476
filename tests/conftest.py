"""Shared pieces: the test data, the 2020 configs, frames in memory, and the command in this process."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from hypothesis import settings

# A slow machine is no failure: tests measure no time.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("persons", "units", "geo")
KEYS = ["TABULATION", "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL"]


@pytest.fixture(scope="session")
def us() -> Path:
    """The production config of the United States."""
    return ROOT / "examples" / "us.json"


@pytest.fixture(scope="session")
def pr() -> Path:
    """The production config of Puerto Rico."""
    return ROOT / "examples" / "pr.json"


@pytest.fixture(scope="session")
def small() -> Path:
    return ROOT / "tests" / "data" / "small"


@pytest.fixture(scope="session")
def parity() -> Path:
    return ROOT / "tests" / "data" / "parity"


@pytest.fixture
def us_document(us) -> dict:
    """The United States config as a document to change, with exact decimals."""
    return json.loads(us.read_text(), parse_float=Decimal)


@pytest.fixture
def pr_document(pr) -> dict:
    return json.loads(pr.read_text(), parse_float=Decimal)


@pytest.fixture(scope="session")
def small_frames(small) -> dict[str, pl.DataFrame]:
    """The small data as frames of texts."""
    return {name: pl.read_csv(small / f"{name}.csv", infer_schema=False) for name in NAMES}


@pytest.fixture(scope="session")
def expected():
    """A file of expected counts as {key: count}."""

    def read(path: Path) -> dict[tuple, int]:
        frame = pl.read_csv(path, separator="|", schema_overrides={"REGION_ID": pl.String})
        return {tuple(row[:5]): row[5] for row in frame.select(*KEYS, "COUNT").iter_rows()}

    return read


@pytest.fixture(scope="session")
def as_dict():
    """A tidy frame as {key: count}; fails where a key stands twice."""

    def convert(frame: pl.DataFrame) -> dict[tuple, int]:
        counts = {tuple(row[:5]): row[5] for row in frame.select(*KEYS, "COUNT").iter_rows()}
        assert len(counts) == frame.height
        return counts

    return convert


@pytest.fixture(scope="session")
def read_folder():
    """An output folder of `phsafe tabulate` as {key: count}; fails where a key stands twice."""

    def read(folder: Path) -> dict[tuple, int]:
        counts, height = {}, 0
        for path in sorted(folder.glob("*/*.csv")):
            frame = pl.read_csv(path.read_bytes(), separator="|", infer_schema=False)
            cell = f"{path.parent.name.upper()}_DATA_CELL"
            if "ITERATION_CODE" not in frame.columns:
                frame = frame.with_columns(ITERATION_CODE=pl.lit("*"))
            height += frame.height
            for row in frame.iter_rows(named=True):
                key = (path.parent.name, row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"])
                counts[*key, int(row[cell])] = int(row["COUNT"])
        assert len(counts) == height
        return counts

    return read


@pytest.fixture(scope="session")
def write_cef():
    """Write frames of texts as a Census Edited File in a folder; the path of its TOML file."""
    path = ROOT / "tests" / "readers" / "cef_writer.py"
    spec = importlib.util.spec_from_file_location("cef_writer", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.write


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def phsafe_command(monkeypatch, capsys):
    """Run the `phsafe` command in this process: exit code, standard output, standard error."""
    from phsafe.cli import main

    def run(*words: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["phsafe", *map(str, words)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The documentation, built once for all processes of a run, strictly: a warning is an error."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared
    out, log = shared / "site", shared / "site.log"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not log.exists():
            command = [
                sys.executable,
                "-m",
                "sphinx",
                "-W",
                "--keep-going",
                "-q",
                "-E",
                "-d",
                str(shared / "doctrees"),
            ]
            done = subprocess.run(
                [*command, str(ROOT / "docs"), str(out)], check=False, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            log.write_text(done.stdout if done.returncode else "")
    assert log.read_text() == ""
    return out


@pytest.fixture
def heard():
    """Signals as a terminal gives them: what starts in the background, or under nohup, is born deaf to some."""
    signals = {
        signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL,
    }  # fmt: skip
    before = {number: signal.signal(number, handler) for number, handler in signals.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def powerless():
    """Run Python code as somebody whom file permissions stop; root gives up its power to pass over them."""
    weaken = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []

    def run(code: str, *words: object) -> str:
        command = [*weaken, sys.executable, "-c", code, *map(str, words)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
        return done.stdout + done.stderr

    return run


HERE = Path(__file__).resolve().parent


def pytest_addoption(parser):
    parser.addoption(
        "--without", action="append", default=[], metavar="PROGRAM", help="leave out tests that need PROGRAM"
    )


def pytest_ignore_collect(collection_path):
    """Programs that stand beside the tests are no tests."""
    if collection_path.suffix == ".py" and HERE in collection_path.parents:
        return not collection_path.name.startswith(("test_", "conftest")) or None
    return None


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(program): a test that runs a program that is no Python package")


def pytest_collection_modifyitems(config, items):
    missing = set(config.getoption("--without"))
    left_out = [item for item in items if missing & {mark.args[0] for mark in item.iter_markers("needs")}]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session):
    """In CI nothing may be skipped: a test that can't run there is a failure."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
