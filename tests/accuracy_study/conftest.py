"""A study of the small data: two states, three thresholds, two budgets, real noise."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from phsafe.accuracy_study import accuracy
from phsafe.configs.config import Config

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "data" / "small"
KEPT = ("PH7", "PH8_denom")
#: Bands so wide that correct noise falls outside one of them once in a billion runs.
NEVER = 1e-9


def make_small_config(states=("50", "56"), kept=KEPT, **changes) -> Config:
    """The 2020 parameters for a few states and tabulations, with thresholds low enough to truncate."""
    document = json.loads((ROOT / "examples" / "us.json").read_text(), parse_float=Decimal)
    for name, levels in document["privacy_budget"].items():
        if name not in kept:
            levels.update(dict.fromkeys(levels, Decimal(0)))
    document["state_filter"] = list(states)
    document["tau"] = dict.fromkeys(document["tau"], 3)
    return Config.load(document | changes)


@pytest.fixture(scope="session")
def make_config():
    return make_small_config


@pytest.fixture(scope="session")
def report():
    return accuracy(
        make_small_config(), SMALL, trials=6, estimate_trials=1, tau=[1, 5], scale=["1", "100"],
        public=True, false_alarm=NEVER, skip_validation=True, jobs=1,
    )  # fmt: skip
