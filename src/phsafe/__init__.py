"""PHSafe: tables about people in their households, published with differential privacy.

Most commands are also functions here, such as ``phsafe.tabulate(config, data)``. Names are loaded when they are first
used, so importing the package takes almost no time.
"""

from __future__ import annotations

from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phsafe.accuracy_study import Accuracy, accuracy
    from phsafe.acs_pums import pums
    from phsafe.configs.config import Config
    from phsafe.configs.shipped import config
    from phsafe.engines import EngineOptions
    from phsafe.errors import PHSafeError
    from phsafe.estimation import Estimates, estimate
    from phsafe.explorer.solver import solve
    from phsafe.model.spec import Catalog
    from phsafe.model.tables import CENSUS_2020
    from phsafe.pipeline.calls import exact_tables, release, tabulate, validate
    from phsafe.privacy.budgets import Budget, budget
    from phsafe.privacy.mode_comparison import Comparison, compare
    from phsafe.privacy_audit import audit
    from phsafe.releases.release_folder import Release
    from phsafe.releases.verify import check
    from phsafe.reports import registry, report
    from phsafe.synthetic import synth

_HOMES = {
    "Accuracy": "phsafe.accuracy_study",
    "Budget": "phsafe.privacy.budgets",
    "CENSUS_2020": "phsafe.model.tables",
    "Catalog": "phsafe.model.spec",
    "Comparison": "phsafe.privacy.mode_comparison",
    "Config": "phsafe.configs.config",
    "EngineOptions": "phsafe.engines",
    "Estimates": "phsafe.estimation",
    "PHSafeError": "phsafe.errors",
    "Release": "phsafe.releases.release_folder",
    "accuracy": "phsafe.accuracy_study",
    "audit": "phsafe.privacy_audit",
    "budget": "phsafe.privacy.budgets",
    "check": "phsafe.releases.verify",
    "compare": "phsafe.privacy.mode_comparison",
    "config": "phsafe.configs.shipped",
    "estimate": "phsafe.estimation",
    "exact_tables": "phsafe.pipeline.calls",
    "pums": "phsafe.acs_pums",
    "registry": "phsafe.reports",
    "release": "phsafe.pipeline.calls",
    "report": "phsafe.reports",
    "solve": "phsafe.explorer.solver",
    "synth": "phsafe.synthetic",
    "tabulate": "phsafe.pipeline.calls",
    "validate": "phsafe.pipeline.calls",
}

__all__ = [
    "CENSUS_2020",
    "Accuracy",
    "Budget",
    "Catalog",
    "Comparison",
    "Config",
    "EngineOptions",
    "Estimates",
    "PHSafeError",
    "Release",
    "accuracy",
    "audit",
    "budget",
    "check",
    "compare",
    "config",
    "estimate",
    "exact_tables",
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
        from phsafe.errors import did_you_mean  # noqa: PLC0415  (needed after a mistake only)

        raise AttributeError(f"module 'phsafe' has no attribute {name!r}{did_you_mean(name, __all__)}")
    found = getattr(import_module(_HOMES[name]), name)
    if isinstance(found, FunctionType):
        from phsafe.system.public_calls import checked  # noqa: PLC0415  (loaded with the first call)

        found = checked(found)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
