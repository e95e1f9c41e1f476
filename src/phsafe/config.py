"""One validated object for a run, from the production JSON unchanged or from TOML.

Budgets are exact decimals from the file's own digits; nothing is ever read as a float.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

from phsafe import config_rules as rules
from phsafe.errors import ConfigError
from phsafe.levels import Level, in_puerto_rico
from phsafe.spec import Catalog, Derived, Tabulation
from phsafe.tables import CENSUS_2020

PrivacyDefinition = Literal["zcdp", "puredp"]
Sensitivity = Literal["published", "tight", "tight-bounded"]
Reader = Literal["csv", "cef"]
#: A config is a page of numbers; anything larger is a mistake or an attack.
MAX_BYTES = 1_000_000


class Measurement(NamedTuple):
    """One noisy measurement of the plan: a tabulation at a level, with its budget (ρ or ε)."""

    tabulation: Tabulation
    level: Level
    budget: Decimal


@dataclass(frozen=True)
class Config:
    """The parameters of a run. `budgets` and `tau` are complete: each tabulation, each of its levels.

    >>> config = Config.load("examples/us.json")
    >>> len(config.measurements()), config.total
    (46, Fraction(1257281, 1000000))
    """

    budgets: Mapping[str, Mapping[str, Decimal]]
    tau: Mapping[str, int]
    states: tuple[str, ...]
    reader: Reader = "csv"
    privacy: PrivacyDefinition = "zcdp"
    sensitivity: Sensitivity = "published"
    catalog: Catalog = CENSUS_2020

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any] | Config, catalog: Catalog = CENSUS_2020) -> Config:
        """Read a config from a JSON or TOML file, or from a mapping of the same form."""
        if isinstance(source, Config):
            return source
        document = source if isinstance(source, Mapping) else _parse(Path(source))
        return cls(**rules.check(document, catalog), catalog=catalog)

    def __hash__(self) -> int:
        return hash((self.states, self.total))

    def with_sensitivity(self, sensitivity: str | None) -> Config:
        """The same config under another sensitivity mode (None: unchanged)."""
        if sensitivity is None:
            return self
        return replace(self, sensitivity=rules.sensitivity(sensitivity))

    @property
    def is_puerto_rico(self) -> bool:
        """Whether this is the Puerto Rico run."""
        return in_puerto_rico(self.states)

    def levels_of(self, output: Tabulation | Derived) -> tuple[Level, ...]:
        """The levels of an output that have a budget, in the catalog's order."""
        measured = self.catalog.measured(output)
        budgets = self.budgets[measured.name]
        return tuple(level for level in self.catalog.levels_of(measured) if budgets[level.key] > 0)

    def outputs(self) -> Iterator[tuple[Tabulation | Derived, tuple[Level, ...]]]:
        """Every output with at least one level, and its levels."""
        for output in self.catalog.outputs:
            levels = self.levels_of(output)
            if levels:
                yield output, levels

    def measurements(self) -> tuple[Measurement, ...]:
        """The plan: every tabulation and level with a budget above zero."""
        return tuple(
            Measurement(tabulation, level, self.budgets[tabulation.name][level.key])
            for tabulation in self.catalog.tabulations
            for level in self.levels_of(tabulation)
        )

    @property
    def total(self) -> Fraction:
        """The sum of all stated budgets, exactly."""
        return sum((Fraction(m.budget) for m in self.measurements()), Fraction(0))

    def to_production(self) -> dict[str, Any]:
        """The production JSON form, with budgets as `Decimal`s (see `phsafe.exact.dumps`)."""
        return {
            "privacy_budget": {name: dict(levels) for name, levels in self.budgets.items()},
            "tau": dict(self.tau),
            "state_filter": list(self.states),
            "reader": self.reader,
            "privacy_defn": self.privacy,
            **({} if self.sensitivity == "published" else {"sensitivity": self.sensitivity}),
        }


def _parse(path: Path) -> Mapping[str, Any]:
    """Read JSON or TOML, by the file's ending, with exact decimals; in words if it can't be."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: expected a config of at most {MAX_BYTES} bytes, got a larger file")
        text = content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: can't read the config: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected a text file in UTF-8, got other bytes") from None
    toml = path.suffix.lower() == ".toml"
    try:
        if toml:
            document: Any = tomllib.loads(text, parse_float=Decimal)
        else:
            document = json.loads(text, parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=rules.no_repeats)
    except (ValueError, ArithmeticError, RecursionError) as error:
        form = "TOML" if toml else "JSON"
        why = str(error).splitlines()[0] if not isinstance(error, RecursionError) else "nested too deeply"
        raise ConfigError(f"{path}: expected {form}, but {why}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected an object with privacy_budget, tau and state_filter, got {document!r:.40}")
    return document
