"""Requests to the solver: a small TOML or JSON document, checked, with all problems reported together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from phsafe.configs import config_rules as rules
from phsafe.configs.config import MAX_BYTES, Config
from phsafe.errors import ConfigError
from phsafe.explorer.solve_targets import MAX_TARGET, MIN_TARGET
from phsafe.explorer.solver_groups import Group, parts_of
from phsafe.model.document_files import read_document
from phsafe.privacy_math.sensitivity import MODES

if TYPE_CHECKING:
    from phsafe.privacy_math.sensitivity import Definition, Mode

#: The name of a tabulation and the key of one of its levels.
Key = tuple[str, str]
NEIGHBOUR_RELATIONS = ("unbounded", "bounded")
FIELDS = ("total", "neighbours", "sensitivity", "privacy", "weights", "moe", "floors", "locks", "worse", "groups")
MAX_BUDGET = Decimal(1_000_000)
#: A margin may grow by at most this share; more is no limit.
MAX_WORSE = Decimal(1000)
MAX_GROUPS, MAX_NAME = 100, 120
GROUP_FIELDS = (
    "name", "table", "line", "tabulation", "cell", "level", "people", "households", "weight", "worse", "moe",
)  # fmt: skip
#: In locks: every tabulation.
EVERY = "*"


@dataclass(frozen=True)
class Request:
    """What the solver should do: meet MOE targets, or split a total among the levels.

    Attributes:
        total: The privacy loss of the whole run, for the given `neighbours`; None to meet `moe` and `floors` only.
        neighbours: Whether `total` is the unbounded or the bounded loss.
        moe: MOE targets; with a total, upper limits.
        floors: The least budget of a level.
        worse: By which share of the baseline's a finished margin may grow (0.1: 10 %), by level.
        groups: Published numbers that matter more than others, in finished tables.
        weights: The weight of each level's squared MOE in the sum to minimise. "equal" gives every level the weight
            1, "cells" the number of cells it publishes.
        locks: Levels that keep the budget they have in the config.
        sensitivity: A sensitivity mode to use in place of the config's.
        privacy: A privacy definition to use in place of the config's.
    """

    total: Decimal | None = None
    neighbours: Literal["unbounded", "bounded"] = "unbounded"
    moe: Mapping[Key, Decimal] = field(default_factory=dict)
    floors: Mapping[Key, Decimal] = field(default_factory=dict)
    weights: Mapping[Key, Decimal] | Literal["equal", "cells"] = "equal"
    locks: frozenset[Key] = frozenset()
    sensitivity: Mode | None = None
    privacy: Definition | None = None
    worse: Mapping[Key, Decimal] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()

    @property
    def needs_finished(self) -> bool:
        """Whether it asks for something that only finished tables have."""
        return bool(self.worse or self.groups)

    def weight(self, config: Config, key: Key) -> Decimal:
        """Return the weight of one level's squared MOE."""
        if self.weights == "equal":
            return Decimal(1)
        if self.weights == "cells":
            tabulation = config.catalog.tabulation(key[0])
            level = next(level for level in config.catalog.levels if level.key == key[1])
            return Decimal(len(tabulation.cells) * sum(1 for _ in level.groups(config.states)))
        return self.weights.get(key, Decimal(1))

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any], config: Config) -> Request:
        """Read a request from a TOML or JSON file, or from a mapping of the same form."""
        document = source if isinstance(source, Mapping) else read_document(Path(source), "targets file", MAX_BYTES)
        return _check(document, config)


def _check(document: Mapping[str, Any], config: Config) -> Request:
    unknown = [name for name in document if name not in FIELDS]
    problems = [f"{str(name)[:60]}: unknown key; expected one of {', '.join(FIELDS)}" for name in unknown]

    def choice(name: str, choices: tuple[str, ...], default: str | None) -> Any:  # noqa: ANN401
        value = document.get(name, default)
        if value is not None and value not in choices:
            problems.append(f"{name}: expected one of {', '.join(choices)}, got {str(value)[:40]!r}")
            return default
        return value

    total = document.get("total")
    if total is not None:
        total = _number("total", total, Decimal("0.000001"), MAX_BUDGET, problems)
    weights: Any = document.get("weights", "equal")
    if isinstance(weights, str) and weights not in ("equal", "cells"):
        problems.append(f"weights: expected equal, cells or a table of numbers, got {weights[:40]!r}")
    elif not isinstance(weights, str):
        weights = _by_level("weights", weights, config, problems, _ranged(Decimal("1e-9"), Decimal("1e9")))
    moe = _by_level("moe", document.get("moe", {}), config, problems, _target)
    floors = _by_level("floors", document.get("floors", {}), config, problems, _ranged(Decimal(0), MAX_BUDGET))
    worse = _by_level("worse", document.get("worse", {}), config, problems, _ranged(Decimal(0), MAX_WORSE))
    groups = _groups(document.get("groups", ()), config, problems)
    locks = frozenset(_locks(document.get("locks", {}), config, problems))
    both = sorted(", ".join(key) for key in locks & (moe.keys() | floors.keys()))
    if both:
        problems.append(f"locks: expected levels without a target or floor, got {'; '.join(both)}")
    limits = moe or floors or worse or any(group.moe is not None or group.worse is not None for group in groups)
    if total is None and not limits:
        problems.append("expected MOE targets (moe), a total or floors, got none of them")
    request = Request(
        total, choice("neighbours", NEIGHBOUR_RELATIONS, "unbounded"), moe, floors, weights, locks,
        choice("sensitivity", MODES, None), choice("privacy", rules.PRIVACY_DEFINITIONS, None), worse, groups,
    )  # fmt: skip
    if problems:
        raise ConfigError(problems)
    return request


Check = Callable[[str, Any, list[str]], Decimal]


def _ranged(least: Decimal, most: Decimal) -> Check:
    return lambda where, value, problems: _number(where, value, least, most, problems)


def _target(where: str, value: Any, problems: list[str]) -> Decimal:  # noqa: ANN401
    """Check an MOE target. As with a budget in a config, 0 leaves the level out."""
    if value == 0 and not isinstance(value, bool):
        return Decimal(0)
    return _number(where, value, MIN_TARGET, MAX_TARGET, problems)


def _number(where: str, value: object, least: Decimal, most: Decimal, problems: list[str]) -> Decimal:
    number = None
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool):
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if number is None or not number.is_finite() or not least <= number <= most:
        problems.append(f"{where}: expected a number from {least:f} to {most:f}, got {str(value)[:40]!r}")
        return least
    return number


def _by_level(name: str, value: object, config: Config, problems: list[str], check: Check) -> dict[Key, Decimal]:
    """Expand numbers to one per level: given for everything, for a tabulation, or for single levels."""
    found: dict[Key, Decimal] = {}
    for tabulation in config.catalog.tabulations:
        given = value if not isinstance(value, Mapping) else value.get(tabulation.name)
        if given is None:
            continue
        keys = [level.key for level in config.catalog.levels_of(tabulation)]
        if isinstance(given, Mapping):
            where = f"{name}, {tabulation.name}"
            problems += [
                f"{where}: expected one of {', '.join(keys)}, got {str(k)[:40]!r}" for k in given if k not in keys
            ]
            found |= {(tabulation.name, k): check(f"{where}, {k}", given[k], problems) for k in keys if k in given}
        else:
            # A number for a whole tabulation applies to the levels that the config publishes.
            number = check(f"{name}, {tabulation.name}", given, problems)
            found |= {(tabulation.name, k): number for k in keys if config.budgets[tabulation.name][k] > 0}
    _unknown(name, value, config, problems)
    return found


def _locks(value: object, config: Config, problems: list[str]) -> list[Key]:
    """Return the locked levels: for each tabulation (or ``*``: every one), true for all of them, or a list."""
    if not isinstance(value, Mapping):
        problems.append(f"locks: expected a table of tabulations, got {str(value)[:40]!r}")
        return []
    _unknown("locks", {k: v for k, v in value.items() if k != EVERY}, config, problems)

    def chosen(name: str, keys: list[str]) -> list[str]:
        given = value.get(name, ())
        listed = keys if given is True else given if isinstance(given, list | tuple) else [given]
        problems.extend(
            f"locks, {name}: expected true or a list of the levels {', '.join(keys)}, got {str(k)[:40]!r}"
            for k in listed
            if k not in keys
        )
        return [k for k in keys if k in listed]

    columns, found = chosen(EVERY, [level.key for level in config.catalog.levels]), []
    for tabulation in config.catalog.tabulations:
        keys = [level.key for level in config.catalog.levels_of(tabulation)]
        rows = chosen(tabulation.name, keys)
        found += [(tabulation.name, k) for k in keys if k in rows or k in columns]
    return found


def _unknown(name: str, value: object, config: Config, problems: list[str]) -> None:
    if isinstance(value, Mapping):
        names = [t.name for t in config.catalog.tabulations]
        unknown = [k for k in value if k not in names]
        problems += [f"{name}: expected one of {', '.join(names)}, got {str(k)[:40]!r}" for k in unknown]


def _groups(value: object, config: Config, problems: list[str]) -> tuple[Group, ...]:
    """Return the groups of a request, as far as they are valid."""
    if not isinstance(value, list | tuple) or len(value) > MAX_GROUPS:
        problems.append(f"groups: expected a list of at most {MAX_GROUPS} groups")
        return ()
    found = (_group(f"groups, {i}", entry, config, problems) for i, entry in enumerate(value, start=1))
    return tuple(group for group in found if group is not None)


def _group(where: str, entry: object, config: Config, problems: list[str]) -> Group | None:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name", ""), str):
        problems.append(f"{where}: expected a table with any of {', '.join(GROUP_FIELDS)}, and text as name")
        return None
    before = len(problems)
    unknown = [name for name in entry if name not in GROUP_FIELDS]
    problems += [f"{where}: expected any of {', '.join(GROUP_FIELDS)}, got {str(name)[:40]!r}" for name in unknown]

    def number(name: str, least: str, most: Decimal) -> Decimal | None:
        given = entry.get(name)
        return None if given is None else _number(f"{where}, {name}", given, Decimal(least), most, problems)

    weight = number("weight", "0", Decimal(10) ** 9)
    is_line = "line" in entry
    table, place = entry.get("table" if is_line else "tabulation"), entry.get("line" if is_line else "cell")
    label = str(entry.get("name") or f"{table} {place} {entry.get('level')}")[:MAX_NAME]
    group = Group(
        label, str(entry.get("level")), str(table), place if is_line else None, None if is_line else place,
        number("people", "1e-9", Decimal(10) ** 10), number("households", "1e-9", Decimal(10) ** 10),
        Decimal(1) if weight is None else weight, number("worse", "0", MAX_WORSE), number("moe", "1e-9", MAX_TARGET),
    )  # fmt: skip
    parts = parts_of(config, group) if isinstance(place, int) and not isinstance(place, bool) else None
    if parts is None:
        expected = "table and line of a published table, or tabulation and cell"
        problems.append(f"{where}: expected {expected}, got {str(table)[:40]!r} and {str(place)[:40]!r}")
        return None
    published = [
        {level.key for level in config.catalog.levels_of(config.catalog.tabulation(part.tabulation))}
        for part in parts
        if part is not None
    ]
    if group.level not in set.intersection(*published):
        problems.append(f"{where}: expected a level of {group.table}, got {group.level[:40]!r}")
    if parts[1] is not None and (group.people is None or group.households is None):
        problems.append(f"{where}: expected people and households, which the margin of an average depends on")
    return None if len(problems) > before else group
