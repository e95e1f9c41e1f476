"""What a person asks of the solver: a small TOML or JSON file, checked, every problem reported at once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from phsafe import config_rules as rules
from phsafe.config import MAX_BYTES, Config
from phsafe.errors import ConfigError
from phsafe.explorer.targets import LEAST_TARGET, MOST_TARGET
from phsafe.privacy.sensitivity import MODES

if TYPE_CHECKING:
    from phsafe.privacy.sensitivity import Definition, Mode

#: A tabulation and the key of one of its levels.
Key = tuple[str, str]
NEIGHBOURS = ("unbounded", "bounded")
FIELDS = ("total", "neighbours", "sensitivity", "privacy", "weights", "moe", "floors", "locks")
MOST_BUDGET = Decimal(1_000_000)


@dataclass(frozen=True)
class Request:
    """MOE targets, or a total to split with `weights`; `locks` stay, `floors` (budgets) and `moe` bind.

    `total` is the loss of the whole run for the named `neighbours`. Weights are numbers of each level's squared
    MOE; "cells" weighs a level by the number of cells that it publishes.
    """

    total: Decimal | None = None
    neighbours: Literal["unbounded", "bounded"] = "unbounded"
    moe: Mapping[Key, Decimal] = field(default_factory=dict)
    floors: Mapping[Key, Decimal] = field(default_factory=dict)
    weights: Mapping[Key, Decimal] | Literal["equal", "cells"] = "equal"
    locks: frozenset[Key] = frozenset()
    sensitivity: Mode | None = None
    privacy: Definition | None = None

    def weight(self, config: Config, key: Key) -> Decimal:
        """The weight of one level's squared MOE."""
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
        document = source if isinstance(source, Mapping) else _parse(Path(source))
        return _check(document, config)


def _check(document: Mapping[str, Any], config: Config) -> Request:
    problems = [f"{str(name)[:60]}: expected one of {', '.join(FIELDS)}" for name in document if name not in FIELDS]

    def choice(name: str, choices: tuple[str, ...], default: str | None) -> Any:  # noqa: ANN401
        value = document.get(name, default)
        if value is not None and value not in choices:
            problems.append(f"{name}: expected one of {', '.join(choices)}, got {str(value)[:40]!r}")
            return default
        return value

    total = document.get("total")
    if total is not None:
        total = _number("total", total, Decimal("0.000001"), MOST_BUDGET, problems)
    weights: Any = document.get("weights", "equal")
    if not isinstance(weights, str) or weights not in ("equal", "cells"):
        weights = _spread("weights", weights, config, problems, _ranged(Decimal("1e-9"), Decimal("1e9")))
    moe = _spread("moe", document.get("moe", {}), config, problems, _target)
    floors = _spread("floors", document.get("floors", {}), config, problems, _ranged(Decimal(0), MOST_BUDGET))
    locks = frozenset(_locks(document.get("locks", {}), config, problems))
    both = sorted(", ".join(key) for key in locks & (moe.keys() | floors.keys()))
    if both:
        problems.append(f"locks: expected levels without a target or floor, got {'; '.join(both)}")
    if total is None and not moe and not floors:
        problems.append("expected MOE targets (moe), a total, or floors; got none of them")
    request = Request(
        total, choice("neighbours", NEIGHBOURS, "unbounded"), moe, floors, weights, locks,
        choice("sensitivity", MODES, None), choice("privacy", rules.PRIVACY_DEFINITIONS, None),
    )  # fmt: skip
    if problems:
        raise ConfigError(problems)
    return request


Check = Callable[[str, Any, list[str]], Decimal]


def _ranged(least: Decimal, most: Decimal) -> Check:
    return lambda place, value, problems: _number(place, value, least, most, problems)


def _target(place: str, value: Any, problems: list[str]) -> Decimal:  # noqa: ANN401
    """A margin of error; 0 leaves the level out, as in a config."""
    if value == 0 and not isinstance(value, bool):
        return Decimal(0)
    return _number(place, value, LEAST_TARGET, MOST_TARGET, problems)


def _number(place: str, value: object, least: Decimal, most: Decimal, problems: list[str]) -> Decimal:
    number = None
    if isinstance(value, int | Decimal | float) and not isinstance(value, bool):
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if number is None or not number.is_finite() or not least <= number <= most:
        problems.append(f"{place}: expected a number from {least:f} to {most:f}, got {str(value)[:40]!r}")
        return least
    return number


def _spread(name: str, value: object, config: Config, problems: list[str], check: Check) -> dict[Key, Decimal]:
    """Numbers for levels: one for everything, one for each tabulation, or one for each of its levels."""
    found: dict[Key, Decimal] = {}
    for tabulation in config.catalog.tabulations:
        of = value if not isinstance(value, Mapping) else value.get(tabulation.name)
        if of is None:
            continue
        keys = [level.key for level in config.catalog.levels_of(tabulation)]
        if isinstance(of, Mapping):
            place = f"{name}, {tabulation.name}"
            problems += [
                f"{place}: expected levels {', '.join(keys)}, got {str(k)[:40]!r}" for k in of if k not in keys
            ]
            found |= {(tabulation.name, k): check(f"{place}, {k}", of[k], problems) for k in keys if k in of}
        else:
            number = check(f"{name}, {tabulation.name}", of, problems)
            found |= {(tabulation.name, k): number for k in keys if _exists(config, tabulation.name, k)}
    _unknown(name, value, config, problems)
    return found


def _locks(value: object, config: Config, problems: list[str]) -> list[Key]:
    """Locked levels: tabulation → true, or a list of its levels."""
    if not isinstance(value, Mapping):
        problems.append(f"locks: expected a table of tabulations, got {str(value)[:40]!r}")
        return []
    _unknown("locks", value, config, problems)
    found = []
    for tabulation in config.catalog.tabulations:
        of = value.get(tabulation.name, ())
        keys = [level.key for level in config.catalog.levels_of(tabulation)]
        chosen = keys if of is True else of if isinstance(of, list | tuple) else [of]
        wrong = [k for k in chosen if k not in keys]
        problems += [
            f"locks, {tabulation.name}: expected true or levels of {', '.join(keys)}, got {str(k)[:40]!r}"
            for k in wrong
        ]
        found += [(tabulation.name, k) for k in keys if k in chosen]
    return found


def _unknown(name: str, value: object, config: Config, problems: list[str]) -> None:
    if isinstance(value, Mapping):
        names = [t.name for t in config.catalog.tabulations]
        problems += [f"{name}: expected {', '.join(names)}, got {str(k)[:40]!r}" for k in value if k not in names]


def _exists(config: Config, tabulation: str, key: str) -> bool:
    """Whether a number for a whole tabulation means this level: those that the config publishes."""
    return config.budgets[tabulation][key] > 0


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: expected targets of at most {MAX_BYTES} bytes, got a larger file")
        text = path.read_text(encoding="utf-8")
        if path.suffix.lower() == ".toml":
            return tomllib.loads(text, parse_float=Decimal)
        document = json.loads(text, parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=rules.no_repeats)
    except OSError as error:
        raise ConfigError(f"{path}: can't read the targets: {error.strerror}") from None
    except (ValueError, ArithmeticError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        raise ConfigError(f"{path}: expected TOML or JSON, but {why}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected a table with {', '.join(FIELDS)}, got {str(document)[:40]!r}")
    return document
