"""Files and links with scenarios, the baseline they are compared with, and the pinned groups."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from phsafe.configs.config import Config
from phsafe.errors import ConfigError
from phsafe.explorer.pinned_groups import PinnedGroup, read_pins
from phsafe.explorer.scenario import Scenario
from phsafe.explorer.share_links import from_link, is_link
from phsafe.model.document_files import parse_json
from phsafe.model.spec import Catalog
from phsafe.system.format_versions import SCENARIOS

MOST_SCENARIOS = 20


@dataclass(frozen=True)
class ScenarioFile:
    """Scenarios, and what a file may add: which one is shown, the baseline, and pinned groups (None: none stated)."""

    scenarios: tuple[Scenario, ...]
    active: int = 0
    baseline: Scenario | None = None
    pins: list[PinnedGroup] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the document for the page."""
        return {
            "scenarios": [scenario.to_dict() for scenario in self.scenarios],
            "active": self.active,
            "baseline": None if self.baseline is None else self.baseline.to_dict(),
            "pins": None if self.pins is None else [pin.to_dict() for pin in self.pins],
        }


def read_scenarios(source: str, name: str, catalog: Catalog) -> ScenarioFile:
    """Read a scenario file, a link or its document, or a config (JSON, or TOML if its name ends in .toml).

    Raises:
        ConfigError: It is none of these, or something in it is invalid.
    """
    if is_link(source):
        source = from_link(source)
    try:
        if name.lower().endswith(".toml"):
            document: Any = tomllib.loads(source, parse_float=Decimal)
        else:
            document = parse_json(source)
    except (ValueError, ArithmeticError, RecursionError):
        raise ConfigError("expected a scenario file or a config, in JSON or TOML, got something else") from None
    if not isinstance(document, dict):
        raise ConfigError("expected a scenario file or a config, got something else")
    if "scenarios" in document:
        return _scenarios(document, catalog)
    config = Config.load(document, catalog)
    label = name.rsplit("/", 1)[-1].removesuffix(".json").removesuffix(".toml") or "opened"
    return ScenarioFile((Scenario.from_config(config, label[:60]),))


def _scenarios(document: dict[str, Any], catalog: Catalog) -> ScenarioFile:
    if "format" in document or "version" in document:  # Scenarios kept in the browser have neither.
        SCENARIOS.check("the scenario file", f"{document.get('format')}/{document.get('version')}")
    entries, baseline, pins = document["scenarios"], document.get("baseline"), document.get("pins")
    if not isinstance(entries, list) or not 1 <= len(entries) <= MOST_SCENARIOS:
        raise ConfigError(f"expected 1 to {MOST_SCENARIOS} scenarios in the file")
    active = document.get("active", 0)
    return ScenarioFile(
        tuple(Scenario.from_dict(entry, catalog) for entry in entries),
        active if isinstance(active, int) and 0 <= active < len(entries) else 0,
        None if baseline is None else Scenario.from_dict(baseline, catalog),
        None if pins is None else read_pins(pins, catalog),
    )
