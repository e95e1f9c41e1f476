"""Synthetic counts and noisy measurements for the estimation tests.

The noise comes from NumPy with a fixed seed: here it must have the right distribution and be reproducible, but protects
nobody.
"""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.pipeline.scan import Settings, count
from phsafe.privacy.mechanism import DISTRIBUTIONS, expected_noise
from phsafe.synthetic import synth

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def _drop(document, drop):
    """Leave out the measurements of tabulations, levels, or pairs of them."""
    for name, levels in document["privacy_budget"].items():
        for level in levels:
            if name in drop or level in drop or (name, level) in drop:
                levels[level] = 0


def _make_config(states=("15", "44", "56"), **changes) -> Config:
    """The 2020 parameters for some states; `drop` lists tabulations, levels, or pairs of them to leave out."""
    document = json.loads((EXAMPLES / ("pr.json" if states == ("72",) else "us.json")).read_text())
    document["state_filter"] = list(states)
    _drop(document, changes.pop("drop", ()))
    if changes.get("privacy_defn") == "puredp":
        for levels in document["privacy_budget"].values():
            levels.update({level: budget**0.5 for level, budget in levels.items()})
    return Config.load(document | changes)


def _noisy(config: Config, counts, seed: int = 0, scale: float = 1.0) -> dict[str, pl.DataFrame]:
    """Noisy measurements by tabulation; the true standard deviation of the noise is `scale` times the stated one."""
    rng = np.random.default_rng(seed)
    frames = defaultdict(list)
    for m in config.measurements():
        truth = counts[m.tabulation.name, m.level.key]
        of_cell = {
            cell: noise
            for block, noise in zip(config.blocks(m.tabulation, m.level), expected_noise(config, m), strict=True)
            for cell in block.cells
        }
        noises = [of_cell[cell] for cell in m.tabulation.cells]
        scales = np.resize([noise.scale for noise in noises], truth.shape)
        if config.privacy == "zcdp":
            error = np.rint(rng.normal(0, scale * scales, truth.shape))
        else:
            q = 1 - np.exp(-1 / scales / max(scale, 1e-9))
            error = rng.geometric(q, truth.shape) - rng.geometric(q, truth.shape)
        rows = grid.level_rows(config, m.tabulation, m.level)
        frame = pl.DataFrame(rows, schema=list(grid.KEYS), orient="row").with_columns(
            COUNT=pl.Series(truth + error.astype(np.int64)),
            NOISE_DISTRIBUTION=pl.lit(DISTRIBUTIONS[config.privacy]),
            VARIANCE=pl.Series(np.resize([noise.variance for noise in noises], truth.shape)),
        )
        frames[m.tabulation.name].append(frame)
    return {name: grid.in_file_order(config, pl.concat(parts)) for name, parts in frames.items()}


@pytest.fixture(scope="session")
def counts(tmp_path_factory):
    """A function from a config to exact counts of a synthetic population, generated once per set of states."""
    records = {}

    def exact(of: Config):
        if of.states not in records:
            folder = tmp_path_factory.mktemp("records") / "data"
            records[of.states] = synth(folder, 12_000, of.states, seed=3)
        return count(of, records[of.states], Settings(skip_validation=True))

    return exact


@pytest.fixture(scope="session")
def make_config():
    """The function that creates configs."""
    return _make_config


@pytest.fixture(scope="session")
def noisy():
    """The function that creates noisy measurements."""
    return _noisy


@pytest.fixture(scope="session")
def three_states(counts):
    """A config for three small states, and its exact counts."""
    config = _make_config()
    return config, counts(config)


def _measuring_config(drop=()) -> Config:
    """The config that measures what thresholds drop, for three states; `drop` as in `_make_config`."""
    document = dict(parameters_2020("us-measured")) | {"state_filter": ["06", "15", "56"]}
    _drop(document, drop)
    return Config.load(document)


@pytest.fixture(scope="session")
def measuring_config():
    """The function that creates configs that measure what thresholds drop."""
    return _measuring_config


@pytest.fixture(scope="session")
def large_households(tmp_path_factory):
    """Such a config, and counts of many households with and without truncation."""
    config = _measuring_config()
    folder = synth(tmp_path_factory.mktemp("records") / "data", 300_000, config.states, seed=4)
    return config, *(count(config, folder, Settings(skip_validation=True, truncate=cut)) for cut in (True, False))
