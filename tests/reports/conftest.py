"""Releases to report on: real noise and real folders, but invented counts instead of records."""

from pathlib import Path

import numpy as np
import pytest

import phsafe
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.pipeline.publish import write_release
from phsafe.privacy.accountant import account_of
from phsafe.privacy.mechanism import open_session
from phsafe.releases.provenance import made_with
from phsafe.releases.release_folder import Release


def config_of(run: str = "us", keep=lambda table, level: True, **changes) -> Config:
    """The 2020 parameters, with only those tabulations and levels for which `keep` is true."""
    document = parameters_2020(run)
    for name, levels in document["privacy_budget"].items():
        levels.update({level: 0 for level in levels if not keep(name, level)})
    return Config.load(document | changes)


def make_release(
    config: Config, out: Path, release_id: str = "0f0e0d0c-0000-4000-8000-000000000000", people: int = 40
) -> Release:
    """A release of counts that grow from group to group in steps of this many people, with real noise."""
    return noisy_release(config, _invented(config, people), out, release_id)


def _invented(config: Config, people: int) -> dict[tuple[str, str], np.ndarray]:
    counts = {}
    for m in config.measurements():
        groups = sum(1 for _ in m.level.groups(config.states))
        step = people if m.tabulation.counts_persons else people * 3 // 4
        sizes = np.arange(1, groups + 1)[:, None] * step * np.ones(len(m.tabulation.cells))
        counts[m.tabulation.name, m.level.key] = sizes.astype(np.int64).ravel()
    return counts


def noisy_release(config: Config, counts, out: Path, release_id: str) -> Release:
    """A release of the given counts, with real noise but without a ledger: for public or invented counts only."""
    session = open_session(config, counts)
    noisy = {
        (m.tabulation.name, m.level.key): np.array(session.measure(m), dtype=np.int64) for m in config.measurements()
    }
    out.mkdir()
    write_release(config, account_of(config, session.completed), noisy, release_id, out, made_with("duckdb"))
    return Release.open(out)


TWO = ["44", "56"]
PARTIAL = {
    "one table": {"keep": lambda table, level: table == "PH3", "state_filter": ["44", "56"]},
    "one level": {"keep": lambda table, level: level == "usa_*"},
    "races only": {"keep": lambda table, level: table == "PH4" and level == "state_A-G", "state_filter": ["44", "50"]},
    "no average": {"keep": lambda table, level: table in ("PH2", "PH7") and level == "state_*", "state_filter": TWO},
    "numerator only": {"keep": lambda table, level: table in ("PH1_num", "PH2"), "state_filter": ["11"]},
    "puerto rico": {"run": "pr"},
    "pure": {"keep": lambda table, level: level == "state_*", "privacy_defn": "puredp", "state_filter": ["10", "11"]},
    "measured": {"run": "us-measured", "state_filter": TWO},
    "only dropped": {
        "run": "us-measured", "keep": lambda table, level: table in ("PH2", "PH1_dropped"), "state_filter": TWO,
    },
    "structured": {"keep": lambda table, level: table in ("PH1_num", "PH3"), "sensitivity": "structured",
                   "state_filter": TWO},
    "tight": {"keep": lambda table, level: table == "PH2", "sensitivity": "tight", "state_filter": ["44", "56"]},
}  # fmt: skip


@pytest.fixture(scope="session")
def partial(tmp_path_factory):
    """A function that makes a partial release by name, each only once."""
    releases = {}

    def release(name: str) -> Release:
        if name not in releases:
            releases[name] = make_release(config_of(**PARTIAL[name]), tmp_path_factory.mktemp("partial") / "release")
        return releases[name]

    return release


@pytest.fixture(scope="session")
def two(tmp_path_factory) -> Release:
    """A release of all tables for two states."""
    return make_release(config_of(state_filter=["44", "56"]), tmp_path_factory.mktemp("two") / "release")


@pytest.fixture(scope="session")
def two_estimates(two):
    return phsafe.estimate(two)


@pytest.fixture(scope="session")
def two_page(two, two_estimates, tmp_path_factory) -> Path:
    return phsafe.report(two, tmp_path_factory.mktemp("page") / "report.html", estimates=two_estimates)
