"""The real mechanism, and three broken ones that an audit worth its name must convict."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from phsafe.auditing.worlds import LEVELS, by_world
from phsafe.privacy import mechanism

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phsafe.config import Config
    from phsafe.grid import Counts

#: What a run shows of each world: eight numbers, NaN where a row was not published.
Run = Callable[["Config", "Counts"], "NDArray[np.float64]"]
#: Noise of 80 % of the scale that the claim needs.
TOO_LITTLE = 0.8


def real(config: Config, counts: Counts) -> NDArray[np.float64]:
    """A session as a release opens it: OpenDP's composition, maps and samplers."""
    session = mechanism.open_session(config, counts)
    made = {m.level.key: np.array(session.measure(m), dtype=np.int64) for m in config.measurements()}
    return by_world(made).astype(np.float64)


def too_little_noise(config: Config, counts: Counts) -> NDArray[np.float64]:
    """Broken: every scale is 20 % too small."""
    made = {}
    for m in config.measurements():
        scale = TOO_LITTLE * mechanism.noise_of(config, m).scale
        made[m.level.key] = _add(config, counts[m.tabulation.name, m.level.key], scale)
    return by_world(made).astype(np.float64)


def one_tape(config: Config, counts: Counts) -> NDArray[np.float64]:
    """Broken: noise is drawn once and added to both levels."""
    first = config.measurements()[0]
    size = len(counts[first.tabulation.name, first.level.key])
    tape = _add(config, np.zeros(size, dtype=np.int64), mechanism.noise_of(config, first).scale)
    return by_world({key: counts["AUDIT", key] + tape for key in LEVELS}).astype(np.float64)


def grid_from_data(config: Config, counts: Counts) -> NDArray[np.float64]:
    """Broken: only the rows that some record falls in are published."""
    exact = by_world({key: counts["AUDIT", key] for key in LEVELS})
    return np.where(exact > 0, real(config, counts), np.nan)


def _add(config: Config, counts: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    noisy = mechanism.make_noise(config.privacy, len(counts), scale)(counts.tolist())
    return np.array(noisy, dtype=np.int64)
