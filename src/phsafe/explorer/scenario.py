"""Scenarios: what a user typed, and the config it describes.

A scenario is a JSON document that a browser can store, save to a file or put in a link. It is never trusted: every
field is checked here, and each invalid field gets its own message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from phsafe.configs.config import Config, PrivacyDefinition, Reader, Sensitivity
from phsafe.configs.config_rules import MAX_TAU, PRIVACY_DEFINITIONS, READERS
from phsafe.errors import ConfigError, PHSafeError
from phsafe.explorer.page_requests import MAX_BUDGET, Key
from phsafe.explorer.solve_targets import MAX_TARGET, MIN_TARGET, budget_for
from phsafe.model.exact_numbers import text
from phsafe.model.schema import US_STATES
from phsafe.model.spec import Catalog
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy.accountant import DEFAULT_DELTA
from phsafe.privacy_math.sensitivity import MODES

Unit = Literal["budget", "moe"]
MIN_BUDGET = Decimal("0.000000001")
MAX_TEXT = 40
PASSED_ON = ("population", "publication")
MAX_NAME = 80
#: Path of an invalid field, such as "tau.PH3" → what is wrong with it.
Problems = dict[str, str]


@dataclass(frozen=True)
class BudgetEntry:
    """One level of a tabulation: the text typed, whether it is published, and whether the solver must keep it."""

    value: str = ""
    on: bool = True
    locked: bool = False


@dataclass(frozen=True)
class Scenario:
    """Everything a user can choose. `units` tells whether the values of a tabulation are budgets or MOE targets."""

    name: str
    tau: Mapping[str, str]
    units: Mapping[str, Unit]
    entries: Mapping[Key, BudgetEntry]
    states: tuple[str, ...] = US_STATES
    privacy: PrivacyDefinition = "zcdp"
    sensitivity: Sensitivity = "published"
    delta: str = f"{DEFAULT_DELTA:e}"
    reader: Reader = "csv"
    catalog: Catalog = field(default=CENSUS_2020, compare=False)
    #: Shares of blind cells as in a config, which the page passes on.
    blind_share: Mapping[str, str] = field(default_factory=dict)
    #: `population` and `publication` of a config, which the page passes on.
    passed_on: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: Config, name: str) -> Scenario:
        """Return the scenario that describes a config."""
        entries = {
            (t.name, level.key): BudgetEntry(text(config.budgets[t.name][level.key]))
            if config.budgets[t.name][level.key] > 0
            else BudgetEntry(on=False)
            for t in config.catalog.tabulations
            for level in config.catalog.levels_of(t)
        }
        return cls(
            name=name,
            tau={key: str(value) for key, value in config.tau.items()},
            units={t.name: "budget" for t in config.catalog.tabulations},
            entries=entries,
            states=config.states,
            privacy=config.privacy,
            sensitivity=config.sensitivity,
            reader=config.reader,
            catalog=config.catalog,
            blind_share={name: text(share) for name, share in config.blind_share.items()},
            passed_on={name: value for name, value in config.to_production().items() if name in PASSED_ON},
        )

    @classmethod
    def from_dict(cls, document: object, catalog: Catalog) -> Scenario:
        """Read a scenario from its document.

        Raises ConfigError if the document has the wrong structure. Values typed by the user are checked by `config`.
        """
        if not isinstance(document, Mapping):
            raise ConfigError("expected a scenario, got something else")
        names = [t.name for t in catalog.tabulations]
        keys = [(t.name, level.key) for t in catalog.tabulations for level in catalog.levels_of(t)]
        by_tabulation = _mapping(document, "entries")
        try:
            entries = {key: _entry(by_tabulation.get(key[0], {}).get(key[1], {"on": False})) for key in keys}
        except AttributeError:
            raise ConfigError("scenario, entries: expected levels for each tabulation, got something else") from None
        units = _mapping(document, "units")
        states = document.get("states", list(US_STATES))
        if not isinstance(states, list) or not all(isinstance(s, str) for s in states):
            raise ConfigError("scenario, states: expected a list of state codes")
        return cls(
            name=_text(document.get("name", "Scenario"), "name", MAX_NAME).strip() or "Scenario",
            tau={n: _text(v, "tau") for n, v in _mapping(document, "tau").items() if n in names},
            units={name: "moe" if units.get(name) == "moe" else "budget" for name in names},
            entries=entries,
            states=tuple(s[:2] for s in states[:60]),
            privacy=_choice(document, "privacy", PRIVACY_DEFINITIONS),
            sensitivity=_choice(document, "sensitivity", MODES),
            delta=_text(document.get("delta", "1e-10"), "delta"),
            reader=_choice(document, "reader", READERS),
            catalog=catalog,
            blind_share={str(n): _text(v, "blind_share") for n, v in document.get("blind_share", {}).items()}
            if isinstance(document.get("blind_share", {}), Mapping)
            else {},
            passed_on={name: document[name] for name in PASSED_ON if document.get(name) is not None},
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the document of the scenario."""
        entries: dict[str, dict[str, Any]] = {t.name: {} for t in self.catalog.tabulations}
        for (name, level), entry in self.entries.items():
            entries[name][level] = {"value": entry.value, "on": entry.on, "locked": entry.locked}
        return {
            "name": self.name,
            "privacy": self.privacy,
            "sensitivity": self.sensitivity,
            "states": list(self.states),
            "reader": self.reader,
            "delta": self.delta,
            "tau": dict(self.tau),
            "units": dict(self.units),
            "entries": entries,
            "blind_share": dict(self.blind_share),
            **self.passed_on,
        }

    def config(self) -> tuple[Config | None, Decimal, Problems]:
        """Return the config, δ, and what is wrong with each field. The config is None if anything is wrong."""
        problems: Problems = {}
        tau = self._thresholds(problems)
        delta = self._delta(problems)
        budgets: dict[str, dict[str, Decimal]] = {t.name: {} for t in self.catalog.tabulations}
        for name, level in self.entries:
            budgets[name][level] = Decimal(0)
        shares = {name: _share(value, problems) for name, value in self.blind_share.items()}
        draft = Config(budgets, tau, self.states, self.reader, self.privacy, self.sensitivity, self.catalog, shares)
        for key, entry in self.entries.items():
            if entry.on and not self._absent(key):
                budgets[key[0]][key[1]] = self._budget(draft, key, entry, problems)
        if not problems and not draft.measurements():
            problems["entries"] = "every level is switched off; switch on at least one"
        if problems:
            return None, delta, problems
        try:
            # Even if every field is valid, the config must still pass its own rules.
            return Config.load({**draft.to_production(), **self.passed_on}, self.catalog), delta, {}
        except PHSafeError as error:
            return None, delta, {"scenario": "; ".join(error.reasons)}

    def _absent(self, key: Key) -> bool:
        """Whether this is a level that doesn't exist in Puerto Rico, in a scenario for Puerto Rico."""
        level = next(level for level in self.catalog.levels if level.key == key[1])
        return "72" in self.states and not level.geography.puerto_rico

    def _budget(self, draft: Config, key: Key, entry: BudgetEntry, problems: Problems) -> Decimal:
        path = f"entries.{key[0]}.{key[1]}"
        moe = self.units[key[0]] == "moe"
        minimum, maximum = (MIN_TARGET, MAX_TARGET) if moe else (MIN_BUDGET, MAX_BUDGET)
        number = _number(entry.value, minimum, maximum, path, problems)
        if number is None or (moe and f"tau.{self.catalog.tabulation(key[0]).threshold}" in problems):
            return Decimal(0)
        return budget_for(draft, key, number) if moe else number

    def _thresholds(self, problems: Problems) -> dict[str, int]:
        thresholds = {}
        for tabulation in self.catalog.tabulations:
            if not tabulation.is_truncated:
                continue
            typed = self.tau.get(tabulation.name, "").strip()
            thresholds[tabulation.name] = 1
            if typed.isascii() and typed.isdigit() and len(typed) < 8 and 1 <= int(typed) <= MAX_TAU:
                thresholds[tabulation.name] = int(typed)
            else:
                problems[f"tau.{tabulation.name}"] = f"expected a whole number from 1 to {MAX_TAU}, got {_shown(typed)}"
        return thresholds

    def _delta(self, problems: Problems) -> Decimal:
        number = exact_decimal(self.delta)
        if number is None or not 0 < number < 1 or number.adjusted() < -300:
            problems["delta"] = f"expected a number between 0 and 1, such as 1e-10, got {_shown(self.delta)}"
            return DEFAULT_DELTA
        return number


def _number(typed: str, minimum: Decimal, maximum: Decimal, path: str, problems: Problems) -> Decimal | None:
    number = exact_decimal(typed)
    if number is None:
        expected = "a number such as 0.5" if typed.strip() else "a number (or switch the level off)"
        problems[path] = f"expected {expected}, got {_shown(typed)}"
    elif number == 0:
        problems[path] = "0 would leave this level out; switch it off instead, or enter a number above 0"
    elif not minimum <= number <= maximum:
        problems[path] = f"expected a number from {minimum:f} to {maximum:f}, got {_shown(typed)}"
    else:
        return number
    return None


def exact_decimal(typed: str) -> Decimal | None:
    """Return the exact number typed, or None if it isn't a plain number or is absurdly long."""
    clean = typed.strip()
    if not clean.isascii() or "_" in clean or len(clean) > 32:
        return None
    try:
        number = Decimal(clean)
    except InvalidOperation:
        return None
    exponent = number.as_tuple().exponent
    fits = isinstance(exponent, int) and exponent >= -310 and number.adjusted() < 30
    return number if number.is_finite() and fits else None


def _shown(typed: str) -> str:
    return f"“{typed[:20]}”" if typed.strip() else "nothing"


def _entry(document: Mapping[str, Any]) -> BudgetEntry:
    return BudgetEntry(
        _text(document.get("value", ""), "value"), document.get("on") is True, document.get("locked") is True
    )


def _text(value: object, field_name: str, limit: int = MAX_TEXT) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ConfigError(f"scenario, {field_name}: expected text, got {type(value).__name__}")
    return str(value)[:limit]


def _mapping(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, Mapping):
        raise ConfigError(f"scenario, {name}: expected an object, got {type(value).__name__}")
    return value


def _choice(document: Mapping[str, Any], name: str, choices: tuple[Any, ...]) -> Any:  # noqa: ANN401
    value = document.get(name, choices[0])
    if value not in choices:
        raise ConfigError(f"scenario, {name}: expected one of {', '.join(choices)}, got {str(value)[:40]!r}")
    return value


def _share(typed: str, problems: Problems) -> Decimal:
    share = _number(typed, Decimal("1e-6"), 1 - Decimal("1e-6"), "blind_share", problems)
    return Decimal("0.5") if share is None else share
