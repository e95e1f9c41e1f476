"""Validation of config documents. All problems of a document are reported together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeVar

from phsafe.configs.publication import MAX_TEXT, read_publication
from phsafe.errors import ConfigError
from phsafe.model.levels import in_puerto_rico
from phsafe.model.schema import PUERTO_RICO, STATES, US_STATES, state_code
from phsafe.model.spec import Catalog, Tabulation
from phsafe.privacy_math import sensitivity as sensitivities
from phsafe.privacy_math.level_blocks import blocks_of, noise_factor
from phsafe.privacy_math.margins import rho_for_moe

T = TypeVar("T")

#: Field names in the production JSON → their short names, meant for TOML. Both formats accept either name.
FIELDS = {
    "privacy_budget": "budget",
    "tau": "tau",
    "state_filter": "states",
    "reader": "reader",
    "privacy_defn": "privacy",
    "sensitivity": "sensitivity",
    "blind_share": "blind_share",
    "moe_target": "moe",
    "control_totals": "control_totals",
    "population": "population",
    "publication": "publication",
}
#: The fields that give budgets, under both names.
BUDGET_FIELDS = ("privacy_budget", "budget", "moe_target", "moe")
PRIVACY_DEFINITIONS = ("zcdp", "puredp")
READERS = ("csv", "cef")
STATE_NAMES = {"us": US_STATES, "pr": (PUERTO_RICO,)}
#: More digits than any policy needs; the limit keeps a hostile file from slowing down the arithmetic.
MAX_DIGITS = 30
MAX_TAU = 99_999
#: The tables that control totals are for.
TOTALLED = ("persons", "units")


def check(document: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """Return the fields of a `Config`, or raise a `ConfigError` that lists every problem."""
    problems: list[str] = []
    fields = _rename(document, problems)
    states = _states(fields.get("states"), problems)
    privacy = _choice("privacy_defn", fields.get("privacy", "zcdp"), PRIVACY_DEFINITIONS, problems)
    mode = _choice("sensitivity", fields.get("sensitivity", "published"), sensitivities.MODES, problems)
    reader = _choice("reader", fields.get("reader", "csv"), READERS, problems)
    population = _population(fields.get("population"), problems)
    publication = read_publication(fields.get("publication"), problems)
    tau = _tau(fields.get("tau"), catalog, problems)
    shares = _blind_share(fields.get("blind_share", {}), catalog, problems)
    totals = _control_totals(fields.get("control_totals", {}), states, problems)
    budgets: dict[str, dict[str, Decimal]] = {}
    if "budget" in fields and "moe" in fields:
        problems.append("expected budgets or MOE targets (privacy_budget or moe_target), got both")
    elif "moe" in fields:
        budgets = _budgets("moe_target", fields["moe"], catalog, problems)
        if privacy == "puredp":
            problems.append("moe_target: MOE targets work with zcdp only; give budgets (privacy_budget) instead")
        elif not problems:
            budgets = _from_targets(budgets, tau, mode, shares, catalog, problems)
    else:
        budgets = _budgets("privacy_budget", fields.get("budget"), catalog, problems)
    _nation_in_puerto_rico(budgets, states, catalog, problems)
    if problems:
        raise ConfigError(problems)
    return {
        "budgets": budgets, "tau": tau, "states": states,
        "reader": reader, "privacy": privacy, "sensitivity": mode, "blind_share": shares,
        "control_totals": totals, "population": population,
        "publication": publication,
    }  # fmt: skip


def sensitivity(value: str) -> sensitivities.Mode:
    """Check the name of a sensitivity mode and return it."""
    problems: list[str] = []
    mode = _choice("sensitivity", value, sensitivities.MODES, problems)
    if problems:
        raise ConfigError(problems)
    return mode


def read_states(value: str) -> tuple[str, ...]:
    """Read a state filter from text: us, pr, or codes with commas between them."""
    problems: list[str] = []
    states = _states(value if value in STATE_NAMES else value.split(","), problems)
    if problems:
        raise ConfigError(problems)
    return states


def _rename(document: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Rename fields to their short names. A field given under both names is refused: one value would be lost."""
    names = FIELDS | {short: short for short in FIELDS.values()}
    unknown = [name for name in document if name not in names]
    problems += [f"{_show(name)}: unknown key; expected one of {', '.join(FIELDS)}" for name in unknown]
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
        expected = 'a list of states, such as ["44", "56"] or ["RI", "WY"] (or "us" or "pr")'
        problems.append(f"state_filter: expected {expected}, got {_show(value)}")
        return ()
    value = [state_code(state) for state in value]
    unknown = sorted({s for s in value if s not in STATES})
    if unknown:
        problems.append(
            f"state_filter: expected states as FIPS codes, postal codes or names, got {', '.join(map(_show, unknown))}"
        )
    repeated = sorted({s for s in value if value.count(s) > 1})
    if repeated:
        problems.append(f"state_filter: expected each state once, got {', '.join(map(_show, repeated))} repeated")
    if in_puerto_rico(value) and len(set(value)) > 1:
        problems.append("state_filter: expected Puerto Rico (72) alone, got it together with other states")
    return tuple(sorted(set(value)))


def _population(value: object, problems: list[str]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_TEXT:
        problems.append(f"population: expected one line of at most {MAX_TEXT} characters, got {_show(value)}")
    return str(value)


def _tau(value: object, catalog: Catalog, problems: list[str]) -> dict[str, int]:
    persons = [t.name for t in catalog.tabulations if t.is_truncated]
    entries = _mapping("tau", value, persons, problems)
    for name, threshold in entries.items():
        if isinstance(threshold, bool) or not isinstance(threshold, int) or not 1 <= threshold <= MAX_TAU:
            problems.append(f"tau, {name}: expected a whole number from 1 to {MAX_TAU}, got {_show(threshold)}")
    return entries


def _blind_share(given: object, catalog: Catalog, problems: list[str]) -> dict[str, Decimal]:
    names = [t.name for t in catalog.tabulations if t.is_truncated]
    entries = _mapping("blind_share", given, names, problems, names)
    shares: dict[str, Decimal] = {}
    for name, value in entries.items():
        shares[name] = _budget("", value, [])
        if not 0 < shares[name] < 1:
            problems.append(f"blind_share, {name}: expected a number between 0 and 1, got {_show(value)}")
    return shares


def _control_totals(value: object, states: tuple[str, ...], problems: list[str]) -> dict[str, dict[str, int]]:
    """The expected number of rows by table and state. They are counts of the data, so messages don't quote them."""
    tables = {name: totals for name, totals in value.items() if name in TOTALLED} if isinstance(value, Mapping) else {}
    if not isinstance(value, Mapping) or len(tables) < len(value) or not all(
        isinstance(totals, Mapping) and set(totals) <= set(states) for totals in tables.values()
    ):  # fmt: skip
        problems.append(
            'control_totals: expected totals by state of the filter, such as {"persons": {"44": 1000}, '
            '"units": {"44": 400}}, got something else'
        )
        return {}
    for name, totals in tables.items():
        wrong = [s for s, total in totals.items() if isinstance(total, bool) or not isinstance(total, int) or total < 0]
        if wrong:
            problems.append(
                f"control_totals, {name}: expected whole numbers, zero or above, got others for {', '.join(wrong)}"
            )
    return {name: dict(totals) for name, totals in tables.items()}


def _budgets(field: str, value: object, catalog: Catalog, problems: list[str]) -> dict[str, dict[str, Decimal]]:
    budgets = {}
    optional = [t.name for t in catalog.truncation]
    tables = _mapping(field, value, [t.name for t in catalog.tabulations], problems, optional)
    for tabulation in catalog.tabulations:
        keys = [level.key for level in catalog.levels_of(tabulation)]
        if tabulation.name in tables:
            context = f"{field}, {tabulation.name}"
            levels = _mapping(context, tables[tabulation.name], keys, problems)
            budgets[tabulation.name] = {
                key: _budget(f"{context}, {key}", levels[key], problems) for key in keys if key in levels
            }
        elif tabulation.name in optional:
            budgets[tabulation.name] = dict.fromkeys(keys, Decimal(0))
    return budgets


def _budget(context: str, value: object, problems: list[str]) -> Decimal:
    """A finite decimal, zero or above. A float from a Python caller is read as its shortest representation."""
    number = None
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        number = Decimal(repr(float(value))) if isinstance(value, float) else _small_decimal(value)
    if number is None or not number.is_finite() or number < 0 or not _reasonable(number):
        problems.append(
            f"{context}: expected a finite number, zero or above, of at most {MAX_DIGITS} digits, got {_show(value)}"
        )
        return Decimal(0)
    return number


def _small_decimal(value: int | Decimal) -> Decimal | None:
    """Convert to `Decimal`, but not an integer so large that the conversion itself would be slow."""
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
    shares: Mapping[str, Decimal],
    catalog: Catalog,
    problems: list[str],
) -> dict[str, dict[str, Decimal]]:
    levels_by_key = {level.key: level for level in catalog.levels}

    def budget(tabulation: Tabulation, key: str, target: Decimal) -> Decimal:
        share = Fraction(shares[tabulation.name]) if tabulation.name in shares else None
        blocks = blocks_of(tabulation, levels_by_key[key], tau.get(tabulation.threshold), mode, share)
        k = noise_factor(blocks, "zcdp")
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
                f"privacy_budget, {name}: expected 0 for {', '.join(given)} "
                "because a Puerto Rico config has no national levels, got more"
            )


def _mapping(
    context: str, value: object, names: Iterable[str], problems: list[str], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Check that a value is a mapping with exactly these names; omitting one that is not optional is an error."""
    names = list(names)
    needed = [name for name in names if name not in optional]
    if not isinstance(value, Mapping):
        problems.append(f"{context}: expected a mapping with {', '.join(needed)}, got {_show(value)}")
        return {}
    unknown = [str(name)[:60] for name in value if name not in names]
    if unknown:
        problems.append(f"{context}: expected only {', '.join(names)}, got {', '.join(map(_show, unknown))}")
    missing = [name for name in needed if name not in value]
    if missing:
        hint = "give every threshold" if context == "tau" else "write 0 for what you don't publish"
        problems.append(f"{context}: {', '.join(missing)} missing; {hint}")
    return {name: value[name] for name in names if name in value}


def _show(value: object) -> str:
    """Format a config value for a message: short, and on one line."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 200:
        return "a number of more than 60 digits"
    shown = "nothing" if value is None else str(value) if isinstance(value, Decimal) else repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
