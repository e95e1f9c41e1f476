"""Budgets converted between zCDP and pure DP, when a user switches the privacy definition.

An ε-DP mechanism is ε²/2-zCDP (claim C13), so ε = √(2ρ) keeps at least the protection of ρ at every level, and ρ = ε²/2
converts back. Results are rounded down to six places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_FLOOR, Context
from typing import Any

from phsafe.configs.config_rules import PRIVACY_DEFINITIONS
from phsafe.errors import ConfigError
from phsafe.explorer.figures import figures
from phsafe.explorer.scenario import BudgetEntry, Scenario, exact_decimal
from phsafe.explorer.scenario_changes import ratio_text
from phsafe.model.exact_numbers import text
from phsafe.model.spec import Catalog
from phsafe.privacy_math.margins import PLACES
from phsafe.privacy_math.sensitivity import Definition

_WIDE = Context(prec=50)
RULES: dict[Definition, str] = {
    "puredp": "ε = √(2ρ), because pure DP with this ε implies zCDP with this ρ",
    "zcdp": "ρ = ε²/2, because pure DP with this ε implies zCDP with this ρ",
}


def converted(scenario: Scenario, privacy: Definition) -> Scenario:
    """Return the scenario under another privacy definition. Margins of error that were typed stay as they are."""
    if scenario.privacy == privacy:
        return scenario
    entries = {
        key: entry if scenario.units[key[0]] == "moe" else _entry(entry, privacy)
        for key, entry in scenario.entries.items()
    }
    return replace(scenario, privacy=privacy, entries=entries)


def conversion(body: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the scenario under another privacy definition, and what that did to its margins of error."""
    scenario, privacy = Scenario.from_dict(body.get("scenario"), catalog), body.get("privacy")
    if privacy not in PRIVACY_DEFINITIONS:
        raise ConfigError(f"privacy: expected one of {', '.join(PRIVACY_DEFINITIONS)}")
    found, problems = figures(scenario)
    if found is None:
        return {"problems": problems}
    other = converted(scenario, privacy)
    now, problems = figures(other)
    if now is None:
        return {"problems": problems}
    ratios = sorted(now.rows[key].moe / row.moe for key, row in found.rows.items())
    units = {"puredp": "ε", "zcdp": "ρ"}
    changes = " to ".join(dict.fromkeys(ratio_text(ratio) for ratio in (ratios[0], ratios[-1])))
    sentence = (
        f"Budgets were converted by {RULES[privacy]}; margins that you typed are unchanged. The run now costs "
        f"{units[privacy]} = {text(now.loss.unbounded)}; margins of error change by {changes}."
    )
    return {"problems": {}, "scenario": other.to_dict(), "sentence": sentence if other != scenario else ""}


def _entry(entry: BudgetEntry, privacy: Definition) -> BudgetEntry:
    number = exact_decimal(entry.value)
    if number is None or number <= 0:
        return entry
    other = _WIDE.sqrt(_WIDE.multiply(2, number)) if privacy == "puredp" else _WIDE.divide(_WIDE.power(number, 2), 2)
    return replace(entry, value=text(max(PLACES, other.quantize(PLACES, ROUND_FLOOR, _WIDE))))
