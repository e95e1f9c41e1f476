"""PHSafe: tables about people in their households, published without giving any person away.

Every command has the same call here: ``phsafe.tabulate(config, data)``. Names are loaded when they are used, so that
importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phsafe.api import release, tabulate, validate
    from phsafe.appraisal import Accuracy, accuracy
    from phsafe.auditing import audit
    from phsafe.budgets import Budget, Comparison, budget, compare
    from phsafe.config import Config
    from phsafe.engines import EngineOptions
    from phsafe.errors import PHSafeError
    from phsafe.estimation import Estimates, estimate
    from phsafe.explorer.calls import solve
    from phsafe.folder import Release
    from phsafe.microdata import pums
    from phsafe.reporting import registry, report
    from phsafe.synthesis import synth
    from phsafe.tables import CENSUS_2020

_HOMES = {
    "Accuracy": "phsafe.appraisal",
    "Budget": "phsafe.budgets",
    "CENSUS_2020": "phsafe.tables",
    "Comparison": "phsafe.budgets",
    "Config": "phsafe.config",
    "EngineOptions": "phsafe.engines",
    "Estimates": "phsafe.estimation",
    "PHSafeError": "phsafe.errors",
    "Release": "phsafe.folder",
    "accuracy": "phsafe.appraisal",
    "audit": "phsafe.auditing",
    "budget": "phsafe.budgets",
    "compare": "phsafe.budgets",
    "estimate": "phsafe.estimation",
    "pums": "phsafe.microdata",
    "registry": "phsafe.reporting",
    "release": "phsafe.api",
    "report": "phsafe.reporting",
    "solve": "phsafe.explorer.calls",
    "synth": "phsafe.synthesis",
    "tabulate": "phsafe.api",
    "validate": "phsafe.api",
}

__all__ = [
    "CENSUS_2020",
    "Accuracy",
    "Budget",
    "Comparison",
    "Config",
    "EngineOptions",
    "Estimates",
    "PHSafeError",
    "Release",
    "accuracy",
    "audit",
    "budget",
    "compare",
    "estimate",
    "pums",
    "registry",
    "release",
    "report",
    "solve",
    "synth",
    "tabulate",
    "validate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name not in _HOMES:
        raise AttributeError(f"module 'phsafe' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
