"""A scenario: what a person typed, as texts, and the config it stands for; problems are named by field.

A scenario is a plain document that a browser can keep, save and put in a link. It is never trusted: everything is
checked here, and a field that can't be used gets its own message while the rest stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Literal

from phsafe.config import Config, PrivacyDefinition, Reader, Sensitivity
from phsafe.config_rules import MAX_TAU, PRIVACY_DEFINITIONS, READERS
from phsafe.errors import ConfigError, PHSafeError
from phsafe.exact import text
from phsafe.explorer.request import MOST_BUDGET, Key
from phsafe.explorer.targets import LEAST_TARGET, MOST_TARGET, budget_for
from phsafe.privacy.accountant import DEFAULT_DELTA
from phsafe.privacy.sensitivity import MODES
from phsafe.schema import US_STATES
from phsafe.spec import Catalog
from phsafe.tables import CENSUS_2020

Unit = Literal["budget", "moe"]
LEAST_BUDGET = Decimal("0.000000001")
MAX_TEXT = 40
MAX_NAME = 80
#: The paths of fields → what is wrong with each.
Problems = dict[str, str]


@dataclass(frozen=True)
class Entry:
    """One level of a tabulation: what was typed, whether it is published, and whether the solver may touch it."""

    value: str = ""
    on: bool = True
    locked: bool = False


@dataclass(frozen=True)
class Scenario:
    """Everything that a person can choose. `units` says whether a tabulation's values are budgets or MOE targets."""

    name: str
    tau: Mapping[str, str]
    units: Mapping[str, Unit]
    entries: Mapping[Key, Entry]
    states: tuple[str, ...] = US_STATES
    privacy: PrivacyDefinition = "zcdp"
    sensitivity: Sensitivity = "published"
    delta: str = f"{DEFAULT_DELTA:e}"
    reader: Reader = "csv"
    catalog: Catalog = field(default=CENSUS_2020, compare=False)

    @classmethod
    def from_config(cls, config: Config, name: str) -> Scenario:
        """The scenario that stands for a config."""
        entries = {
            (t.name, level.key): Entry(text(config.budgets[t.name][level.key]))
            if config.budgets[t.name][level.key] > 0
            else Entry(on=False)
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
        )

    @classmethod
    def from_dict(cls, document: object, catalog: Catalog) -> Scenario:
        """A scenario from its document. Its form must be right; what was typed may still be wrong."""
        if not isinstance(document, Mapping):
            raise ConfigError("expected a scenario, got something else")
        names = [t.name for t in catalog.tabulations]
        keys = [(t.name, level.key) for t in catalog.tabulations for level in catalog.levels_of(t)]
        of = _tables(document, "entries")
        try:
            entries = {key: _entry(of.get(key[0], {}).get(key[1], {"on": False})) for key in keys}
        except AttributeError:
            raise ConfigError("scenario: expected entries for tabulations and levels, got another form") from None
        units = _tables(document, "units")
        states = document.get("states", list(US_STATES))
        if not isinstance(states, list) or not all(isinstance(s, str) for s in states):
            raise ConfigError("scenario, states: expected a list of state codes")
        return cls(
            name=_text(document.get("name", "Scenario"), "name", MAX_NAME).strip() or "Scenario",
            tau={n: _text(v, "tau") for n, v in _tables(document, "tau").items() if n in names},
            units={name: "moe" if units.get(name) == "moe" else "budget" for name in names},
            entries=entries,
            states=tuple(s[:2] for s in states[:60]),
            privacy=_choice(document, "privacy", PRIVACY_DEFINITIONS),
            sensitivity=_choice(document, "sensitivity", MODES),
            delta=_text(document.get("delta", "1e-10"), "delta"),
            reader=_choice(document, "reader", READERS),
            catalog=catalog,
        )

    def to_dict(self) -> dict[str, Any]:
        """The document of a scenario."""
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
        }

    def config(self) -> tuple[Config | None, Decimal, Problems]:
        """The config, the δ, and the problems by field. There is a config only where there are no problems."""
        problems: Problems = {}
        tau = self._thresholds(problems)
        delta = self._delta(problems)
        blank: dict[str, dict[str, Decimal]] = {t.name: {} for t in self.catalog.tabulations}
        for name, level in self.entries:
            blank[name][level] = Decimal(0)
        draft = Config(blank, tau, self.states, self.reader, self.privacy, self.sensitivity, self.catalog)
        for key, entry in self.entries.items():
            if entry.on and not self._absent(key):
                blank[key[0]][key[1]] = self._budget(draft, key, entry, problems)
        if not problems and not draft.measurements():
            problems["entries"] = "every level is switched off; switch at least one on"
        if problems:
            return None, delta, problems
        try:
            # The config's own rules have the last word.
            return Config.load(draft.to_production(), self.catalog), delta, {}
        except PHSafeError as error:
            return None, delta, {"scenario": "; ".join(error.reasons)}

    def _absent(self, key: Key) -> bool:
        """A nation level in Puerto Rico: it does not exist there, whatever was typed."""
        level = next(level for level in self.catalog.levels if level.key == key[1])
        return "72" in self.states and not level.geography.puerto_rico

    def _budget(self, draft: Config, key: Key, entry: Entry, problems: Problems) -> Decimal:
        place = f"entries.{key[0]}.{key[1]}"
        moe = self.units[key[0]] == "moe"
        least, most = (LEAST_TARGET, MOST_TARGET) if moe else (LEAST_BUDGET, MOST_BUDGET)
        number = _number(entry.value, least, most, place, problems)
        if number is None or (moe and f"tau.{key[0]}" in problems):
            return Decimal(0)
        return budget_for(draft, key[0], number) if moe else number

    def _thresholds(self, problems: Problems) -> dict[str, int]:
        thresholds = {}
        for tabulation in self.catalog.tabulations:
            if not tabulation.counts_persons:
                continue
            typed = self.tau.get(tabulation.name, "").strip()
            thresholds[tabulation.name] = 1
            if typed.isascii() and typed.isdigit() and len(typed) < 8 and 1 <= int(typed) <= MAX_TAU:
                thresholds[tabulation.name] = int(typed)
            else:
                problems[f"tau.{tabulation.name}"] = f"expected a whole number from 1 to {MAX_TAU}, got {_shown(typed)}"
        return thresholds

    def _delta(self, problems: Problems) -> Decimal:
        number = _decimal(self.delta)
        if number is None or not 0 < number < 1 or number.adjusted() < -300:
            problems["delta"] = f"expected a number between 0 and 1, such as 1e-10, got {_shown(self.delta)}"
            return DEFAULT_DELTA
        return number


def _number(typed: str, least: Decimal, most: Decimal, place: str, problems: Problems) -> Decimal | None:
    number = _decimal(typed)
    if number is None:
        what = "a number" if typed.strip() else "a number here, or switch the level off"
        problems[place] = f"expected {what}, got {_shown(typed)}"
    elif number == 0:
        problems[place] = "0 would leave this level out; switch it off instead, or type a number above 0"
    elif not least <= number <= most:
        problems[place] = f"expected a number from {least:f} to {most:f}, got {_shown(typed)}"
    else:
        return number
    return None


def _decimal(typed: str) -> Decimal | None:
    """What was typed, exactly; None for what is no plain number (or has more digits than any policy needs)."""
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


def _entry(document: Mapping[str, Any]) -> Entry:
    return Entry(_text(document.get("value", ""), "value"), document.get("on") is True, document.get("locked") is True)


def _text(value: object, place: str, longest: int = MAX_TEXT) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise ConfigError(f"scenario, {place}: expected text, got {type(value).__name__}")
    return str(value)[:longest]


def _tables(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, Mapping):
        raise ConfigError(f"scenario, {name}: expected a table, got {type(value).__name__}")
    return value


def _choice(document: Mapping[str, Any], name: str, choices: tuple[Any, ...]) -> Any:  # noqa: ANN401
    value = document.get(name, choices[0])
    if value not in choices:
        raise ConfigError(f"scenario, {name}: expected one of {', '.join(choices)}, got {str(value)[:40]!r}")
    return value
