"""Repeated releases in memory: they use the same session as a real release, and some are finished into tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.estimation import Method, estimate_frames
from phsafe.estimation.fit import fit
from phsafe.estimation.measurement_vector import measured
from phsafe.pipeline.exact_tables import CellValues, exact_lines
from phsafe.privacy.accountant import account_of, noise_by_level
from phsafe.privacy.mechanism import Session, open_session

METHODS: tuple[Method, ...] = ("joint", "independent")
#: Releases per batch, the unit of work of a worker.
BATCH = 10


@dataclass(frozen=True)
class Batch:
    """A number of releases to make from exact counts, each finished by `methods`."""

    config: Config
    counts: grid.Counts
    releases: int
    methods: tuple[Method, ...] = ()


@dataclass(frozen=True)
class Trial:
    """The results of a batch: noisy counts (releases × rows for each measurement) and finished tables.

    `plain` has the lines of the count tables before any constraint: from raw counts, and from least squares.
    """

    noisy: Mapping[tuple[str, str], NDArray[np.int64]]
    finished: Sequence[Mapping[Method, Mapping[str, pl.DataFrame]]]
    plain: Sequence[Mapping[str, Mapping[str, pl.DataFrame]]] = ()


def batches(
    config: Config, counts: grid.Counts, releases: int, estimated: int, methods: tuple[Method, ...] = METHODS
) -> Iterator[Batch]:
    """Split `releases` into batches; the first `estimated` releases get finished tables."""
    for _ in range(estimated):
        yield Batch(config, counts, 1, methods)
    for first in range(estimated, releases, BATCH):
        yield Batch(config, counts, min(BATCH, releases - first))


def make(batch: Batch) -> Trial:
    """Make the releases of a batch. No ledger is charged, so use this on public data only."""
    noisy, finished, plain = [], [], []
    for _ in range(batch.releases):
        session = open_session(batch.config, batch.counts)
        counts = {
            (m.tabulation.name, m.level.key): np.array(session.measure(m), dtype=np.int64)
            for m in batch.config.measurements()
        }
        noisy.append(counts)
        if batch.methods:
            frames = _frames(batch.config, session, counts)
            finished.append({method: estimate_frames(batch.config, frames, method).tables for method in batch.methods})
            plain.append(_plain(batch.config, frames, counts))
    return Trial({key: np.stack([one[key] for one in noisy]) for key in noisy[0]}, finished, plain)


def _plain(
    config: Config, frames: Mapping[str, pl.DataFrame], noisy: grid.Counts
) -> dict[str, dict[str, pl.DataFrame]]:
    """The lines of count tables from raw counts and from unconstrained least squares."""
    release = measured(config, frames)
    fitted = fit(release).estimates
    cells: dict[str, CellValues] = {
        "raw": noisy,
        "least squares": {k: fitted[b.positions().ravel()] for k, b in release.blocks.items()},
    }
    counts = {table.name for table in config.catalog.tables if table.average is None}
    return {
        name: {table: lines for table, lines in exact_lines(config, values).items() if table in counts}
        for name, values in cells.items()
    }


def _frames(config: Config, session: Session, noisy: grid.Counts) -> dict[str, pl.DataFrame]:
    """The noisy measurements of a release, as read from a release folder."""
    noise = noise_by_level(account_of(config, session.completed))
    return {
        tabulation.name: grid.output_frame(config, tabulation, noisy, noise)
        for tabulation in config.catalog.tabulations
        if config.levels_of(tabulation)
    }
