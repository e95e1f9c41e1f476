"""The rules of a config: every problem of a document is found and reported at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeVar

from phsafe.errors import ConfigError
from phsafe.levels import in_puerto_rico
from phsafe.privacy import sensitivity as sensitivities
from phsafe.privacy.margins import rho_for_moe
from phsafe.schema import PUERTO_RICO, STATES, US_STATES
from phsafe.spec import Catalog, Tabulation

T = TypeVar("T")

#: Names in the production JSON → names for people (TOML). Both work in both.
FIELDS = {
    "privacy_budget": "budget",
    "tau": "tau",
    "state_filter": "states",
    "reader": "reader",
    "privacy_defn": "privacy",
    "sensitivity": "sensitivity",
    "moe_target": "moe",
}
PRIVACY_DEFINITIONS = ("zcdp", "puredp")
READERS = ("csv", "cef")
STATE_NAMES = {"us": US_STATES, "pr": (PUERTO_RICO,)}
#: More digits than any policy needs; keeps a hostile file from making arithmetic slow.
MAX_DIGITS = 30
MAX_TAU = 99_999


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a JSON object that names a key twice: one of the two values would be lost silently."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{', '.join(repeated)} stands more than once in one object")
    return document


def check(document: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """The fields of a `Config`, or a `ConfigError` with every problem."""
    problems: list[str] = []
    fields = _rename(document, problems)
    states = _states(fields.get("states"), problems)
    privacy = _choice("privacy_defn", fields.get("privacy", "zcdp"), PRIVACY_DEFINITIONS, problems)
    mode = _choice("sensitivity", fields.get("sensitivity", "published"), sensitivities.MODES, problems)
    reader = _choice("reader", fields.get("reader", "csv"), READERS, problems)
    tau = _tau(fields.get("tau"), catalog, problems)
    budgets: dict[str, dict[str, Decimal]] = {}
    if "budget" in fields and "moe" in fields:
        problems.append("expected budgets or MOE targets (privacy_budget or moe_target), got both")
    elif "moe" in fields:
        budgets = _budgets("moe_target", fields["moe"], catalog, problems)
        if privacy == "puredp":
            problems.append("moe_target: targets are turned into budgets for zcdp only; give privacy_budget")
        elif not problems:
            budgets = _from_targets(budgets, tau, mode, catalog, problems)
    else:
        budgets = _budgets("privacy_budget", fields.get("budget"), catalog, problems)
    _nation_in_puerto_rico(budgets, states, catalog, problems)
    if problems:
        raise ConfigError(problems)
    return {
        "budgets": budgets, "tau": tau, "states": states,
        "reader": reader, "privacy": privacy, "sensitivity": mode,
    }  # fmt: skip


def sensitivity(value: str) -> sensitivities.Mode:
    """A sensitivity mode, checked."""
    problems: list[str] = []
    mode = _choice("sensitivity", value, sensitivities.MODES, problems)
    if problems:
        raise ConfigError(problems)
    return mode


def _rename(document: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The fields under their short names; a field under both of its names would lose one of them silently."""
    names = FIELDS | {short: short for short in FIELDS.values()}
    unknown = [name for name in document if name not in names]
    problems += [f"{_show(name)}: expected one of {', '.join(FIELDS)}, got an unknown field" for name in unknown]
    problems += [
        f"expected {long} or {short}, got both"
        for long, short in FIELDS.items()
        if long != short and long in document and short in document
    ]
    return {names[name]: value for name, value in document.items() if name in names}


def _choice(name: str, value: object, choices: tuple[T, ...], problems: list[str]) -> T:
    for choice in choices:
        if value == choice:
            return choice
    problems.append(f"{name}: expected one of {', '.join(map(str, choices))}, got {_show(value)}")
    return choices[0]


def _states(value: object, problems: list[str]) -> tuple[str, ...]:
    if isinstance(value, str) and value in STATE_NAMES:
        return STATE_NAMES[value]
    if not isinstance(value, list | tuple) or not value or not all(isinstance(s, str) for s in value):
        problems.append(f'state_filter: expected a list of two-digit state codes (or "us" or "pr"), got {_show(value)}')
        return ()
    unknown = sorted({s for s in value if s not in STATES})
    if unknown:
        problems.append(f"state_filter: expected FIPS codes of states, got {', '.join(map(_show, unknown))}")
    repeated = sorted({s for s in value if value.count(s) > 1})
    if repeated:
        problems.append(f"state_filter: expected every state once, got {', '.join(map(_show, repeated))} again")
    if in_puerto_rico(value) and len(set(value)) > 1:
        problems.append("state_filter: expected Puerto Rico (72) alone, got it together with other states")
    return tuple(sorted(set(value)))


def _tau(value: object, catalog: Catalog, problems: list[str]) -> dict[str, int]:
    persons = [t.name for t in catalog.tabulations if t.counts_persons]
    entries = _table("tau", value, persons, problems)
    for name, threshold in entries.items():
        if isinstance(threshold, bool) or not isinstance(threshold, int) or not 1 <= threshold <= MAX_TAU:
            problems.append(f"tau, {name}: expected a whole number from 1 to {MAX_TAU}, got {_show(threshold)}")
    return entries


def _budgets(field: str, value: object, catalog: Catalog, problems: list[str]) -> dict[str, dict[str, Decimal]]:
    budgets = {}
    tables = _table(field, value, [t.name for t in catalog.tabulations], problems)
    for tabulation in catalog.tabulations:
        if tabulation.name in tables:
            keys = [level.key for level in catalog.levels_of(tabulation)]
            place = f"{field}, {tabulation.name}"
            levels = _table(place, tables[tabulation.name], keys, problems)
            budgets[tabulation.name] = {
                key: _budget(f"{place}, {key}", levels[key], problems) for key in keys if key in levels
            }
    return budgets


def _budget(place: str, value: object, problems: list[str]) -> Decimal:
    """A finite decimal, zero or more. Python callers may pass floats: their shortest form is meant."""
    number = None
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = Decimal(repr(float(value))) if isinstance(value, float) else _small_decimal(value)
    if number is None or not number.is_finite() or number < 0 or not _reasonable(number):
        problems.append(
            f"{place}: expected a finite number, zero or above, of at most {MAX_DIGITS} digits, got {_show(value)}"
        )
        return Decimal(0)
    return number


def _small_decimal(value: int | Decimal) -> Decimal | None:
    """An int of absurd size would take long to convert; it is refused before that."""
    if isinstance(value, int) and value.bit_length() > 4 * MAX_DIGITS:
        return None
    return Decimal(value)


def _reasonable(number: Decimal) -> bool:
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -MAX_DIGITS and number.adjusted() < MAX_DIGITS


def _from_targets(
    targets: Mapping[str, Mapping[str, Decimal]],
    tau: Mapping[str, int],
    mode: sensitivities.Mode,
    catalog: Catalog,
    problems: list[str],
) -> dict[str, dict[str, Decimal]]:
    def budget(tabulation: Tabulation, key: str, target: Decimal) -> Decimal:
        k = sensitivities.of(tau.get(tabulation.name), mode).variance_times_rho
        try:
            return rho_for_moe(Fraction(target), k) if target > 0 else Decimal(0)
        except InvalidOperation:
            problems.append(f"moe_target, {tabulation.name}, {key}: expected a target that a budget can meet, "
                            f"got {_show(target)}")  # fmt: skip
            return Decimal(0)

    return {
        name: {key: budget(catalog.tabulation(name), key, target) for key, target in levels.items()}
        for name, levels in targets.items()
    }


def _nation_in_puerto_rico(
    budgets: Mapping[str, Mapping[str, Decimal]], states: Iterable[str], catalog: Catalog, problems: list[str]
) -> None:
    if not in_puerto_rico(states):
        return
    absent = {level.key for level in catalog.levels if not level.geography.puerto_rico}
    for name, levels in budgets.items():
        given = [key for key, budget in levels.items() if key in absent and budget > 0]
        if given:
            problems.append(
                f"privacy_budget, {name}: expected 0 for {', '.join(given)} in a Puerto Rico config (it has no nation)"
            )


def _table(place: str, value: object, names: Iterable[str], problems: list[str]) -> dict[str, Any]:
    """A mapping with exactly the given names. What is left out must be said: an absent budget is no budget."""
    names = list(names)
    if not isinstance(value, Mapping):
        problems.append(f"{place}: expected a table with {', '.join(names)}, got {_show(value)}")
        return {}
    unknown = [str(name)[:60] for name in value if name not in names]
    if unknown:
        problems.append(f"{place}: expected only {', '.join(names)}, got {', '.join(map(_show, unknown))}")
    missing = [name for name in names if name not in value]
    if missing:
        hint = "" if place == "tau" else "; write 0 to leave one out"
        problems.append(f"{place}: {', '.join(missing)} missing{hint}")
    return {name: value[name] for name in names if name in value}


def _show(value: object) -> str:
    """A value of a config for a message: short, and on one line."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number of absurd size"
    shown = "nothing" if value is None else str(value) if isinstance(value, Decimal) else repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
