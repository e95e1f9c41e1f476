"""Releases in memory: the session that a release opens, over and over, and finished tables from some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from phsafe import grid
from phsafe.config import Config
from phsafe.estimation import Method, estimate_frames
from phsafe.privacy.accountant import account_of, noise_by_level
from phsafe.privacy.mechanism import Session, open_session

METHODS: tuple[Method, ...] = ("joint", "independent")
#: Releases that a process makes before it hands them over.
BATCH = 10


@dataclass(frozen=True)
class Batch:
    """Some releases to make of exact counts; from each, finished tables by these methods."""

    config: Config
    counts: grid.Counts
    releases: int
    methods: tuple[Method, ...] = ()


@dataclass(frozen=True)
class Made:
    """Noisy counts of some releases (releases × rows for each measurement), and their finished tables."""

    noisy: Mapping[tuple[str, str], NDArray[np.int64]]
    finished: Sequence[Mapping[Method, Mapping[str, pl.DataFrame]]]


def batches(
    config: Config, counts: grid.Counts, releases: int, estimated: int, methods: tuple[Method, ...] = METHODS
) -> Iterator[Batch]:
    """So many releases, the first `estimated` of them with finished tables."""
    for _ in range(estimated):
        yield Batch(config, counts, 1, methods)
    for first in range(estimated, releases, BATCH):
        yield Batch(config, counts, min(BATCH, releases - first))


def make(batch: Batch) -> Made:
    """Make the releases of a batch. No ledger is charged, so this is for public data only."""
    noisy, finished = [], []
    for _ in range(batch.releases):
        session = open_session(batch.config, batch.counts)
        made = {
            (m.tabulation.name, m.level.key): np.array(session.measure(m), dtype=np.int64)
            for m in batch.config.measurements()
        }
        noisy.append(made)
        if batch.methods:
            frames = _frames(batch.config, session, made)
            finished.append({method: estimate_frames(batch.config, frames, method).tables for method in batch.methods})
    return Made({key: np.stack([one[key] for one in noisy]) for key in noisy[0]}, finished)


def _frames(config: Config, session: Session, noisy: grid.Counts) -> dict[str, pl.DataFrame]:
    """A release's measurements as its folder would give them back."""
    noise = noise_by_level(account_of(config, session.made))
    return {
        tabulation.name: grid.output_frame(config, tabulation, noisy, noise)
        for tabulation in config.catalog.tabulations
        if config.levels_of(tabulation)
    }
