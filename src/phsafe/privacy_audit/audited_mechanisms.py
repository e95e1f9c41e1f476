"""The real mechanism, and four deliberately broken ones that the audit must convict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from phsafe.privacy import mechanism
from phsafe.privacy_audit.worst_cases import LEVELS, by_world

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phsafe.configs.config import Config
    from phsafe.configs.grid import Counts

#: A run returns eight numbers for each world, NaN if a row was not published.
Run = Callable[["Config", "Counts"], "NDArray[np.float64]"]
#: Share of the required scale that the mechanism with too little noise uses.
TOO_LITTLE = 0.8


def real(config: Config, counts: Counts) -> NDArray[np.float64]:
    """The session that a release opens, with OpenDP's composition, maps and samplers."""
    session = mechanism.open_session(config, counts)
    noisy = {m.level.key: np.array(session.measure(m), dtype=np.int64) for m in config.measurements()}
    return by_world(noisy).astype(np.float64)


def too_little_noise(config: Config, counts: Counts) -> NDArray[np.float64]:
    """Broken: every scale is 20 % too small."""
    noisy = {}
    for m in config.measurements():
        scale = TOO_LITTLE * mechanism.noise_of(config, m)[0].scale
        noisy[m.level.key] = _add(config, counts[m.tabulation.name, m.level.key], scale)
    return by_world(noisy).astype(np.float64)


def person_only(config: Config, counts: Counts) -> NDArray[np.float64]:
    """Broken: a level whose rows the unit can move gets the noise of one that reads the person alone."""
    noisy = {}
    for m in config.measurements():
        (block,) = config.blocks(m.tabulation, m.level)
        scale = mechanism.noise_of(config, m)[0].scale / block.delta.distance(config.privacy)
        noisy[m.level.key] = _add(config, counts[m.tabulation.name, m.level.key], scale)
    return by_world(noisy).astype(np.float64)


def shared_noise(config: Config, counts: Counts) -> NDArray[np.float64]:
    """Broken: noise is drawn once and added to both levels."""
    first = config.measurements()[0]
    size = len(counts[first.tabulation.name, first.level.key])
    noise = _add(config, np.zeros(size, dtype=np.int64), mechanism.noise_of(config, first)[0].scale)
    return by_world({key: counts["AUDIT", key] + noise for key in LEVELS}).astype(np.float64)


def grid_from_data(config: Config, counts: Counts) -> NDArray[np.float64]:
    """Broken: only rows with at least one record are published."""
    exact = by_world({key: counts["AUDIT", key] for key in LEVELS})
    return np.where(exact > 0, real(config, counts), np.nan)


def _add(config: Config, counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    noisy = mechanism.make_noise(config.privacy, len(counts), scale)(counts.tolist())
    return np.array(noisy, dtype=np.int64)
