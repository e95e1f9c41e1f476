"""The config of a run, read from the production JSON format or from TOML.

Budgets are exact decimals with the digits of the file; nothing is read as a float.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

from phsafe.configs import config_rules as rules
from phsafe.errors import ConfigError
from phsafe.model.levels import Level, in_puerto_rico
from phsafe.model.spec import Catalog, Derived, Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy_math.level_blocks import Block, blocks_of

PrivacyDefinition = Literal["zcdp", "puredp"]
Sensitivity = Literal["published", "tight", "tight-bounded", "structured"]
Reader = Literal["csv", "cef"]
#: A config takes about a page; anything larger than this is a mistake or an attack.
MAX_BYTES = 1_000_000


class Measurement(NamedTuple):
    """A planned noisy measurement: a tabulation at a level, with its budget (ρ or ε)."""

    tabulation: Tabulation
    level: Level
    budget: Decimal


@dataclass(frozen=True)
class Config:
    """The parameters of a run. Create one with `Config.load`, which validates them.

    Attributes:
        budgets: Tabulation → level key → budget: ρ under zCDP, ε under pure DP. Complete: every measured tabulation
            has an entry for each of its levels, and 0 means that the level is not published. A document may leave out
            the tabulations of what truncation drops, which then have budgets of 0.
        tau: Tabulation of persons → truncation threshold τ.
        states: The FIPS codes of the states to publish, sorted.
        reader: The input format, "csv" (CSV or Parquet tables) or "cef" (Census Edited File).
        privacy: The privacy definition, "zcdp" or "puredp".
        sensitivity: The sensitivity mode, "published", "tight", "tight-bounded" or "structured".
        blind_share: Tabulation → the share of each level's budget that its blind cells get in the structured mode, if
            a level has others too; without an entry, the share with the smallest sum of variances.
        catalog: The tables and levels that the config refers to.

    Example:
        >>> config = Config.load("examples/us.json")
        >>> len(config.measurements()), config.total
        (46, Fraction(1257281, 1000000))
        >>> config.budgets["PH3"]["state_A-G"], config.tau["PH3"]
        (Decimal('0.662976'), 6)
    """

    budgets: Mapping[str, Mapping[str, Decimal]]
    tau: Mapping[str, int]
    states: tuple[str, ...]
    reader: Reader = "csv"
    privacy: PrivacyDefinition = "zcdp"
    sensitivity: Sensitivity = "published"
    catalog: Catalog = CENSUS_2020
    blind_share: Mapping[str, Decimal] = field(default_factory=dict)

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any] | Config, catalog: Catalog = CENSUS_2020) -> Config:
        """Read and validate a config.

        Args:
            source: A JSON or TOML file, a mapping of the same structure, or a `Config`, which is returned unchanged.
            catalog: The tables and levels that the config refers to.

        Returns:
            The config. MOE targets (`moe_target`) are converted to budgets.

        Raises:
            ConfigError: The file can't be read or the config is invalid; lists every problem.

        Example:
            >>> Config.load("examples/pr.json").states
            ('72',)
        """
        if isinstance(source, Config):
            return source
        document = source if isinstance(source, Mapping) else _parse(Path(source))
        return cls(**rules.check(document, catalog), catalog=catalog)

    def __hash__(self) -> int:
        return hash((self.states, self.total))

    def with_sensitivity(self, sensitivity: str | None) -> Config:
        """This config under another sensitivity mode.

        Args:
            sensitivity: "published", "tight", "tight-bounded" or "structured"; None returns the config unchanged.

        Raises:
            ConfigError: The mode is unknown.

        Example:
            >>> Config.load("examples/us.json").with_sensitivity("tight").sensitivity
            'tight'
        """
        if sensitivity is None:
            return self
        return replace(self, sensitivity=rules.sensitivity(sensitivity))

    @property
    def is_puerto_rico(self) -> bool:
        """Whether this config is for Puerto Rico."""
        return in_puerto_rico(self.states)

    def tau_of(self, tabulation: Tabulation) -> int | None:
        """The truncation threshold τ that applies to a tabulation; None for a tabulation of all units."""
        return self.tau.get(tabulation.threshold)

    def blocks(self, tabulation: Tabulation, level: Level) -> tuple[Block, ...]:
        """The blocks in which a level is measured: one, or in the structured mode its blind cells and the others.

        Example:
            >>> config = Config.load("examples/us.json").with_sensitivity("structured")
            >>> [block.cells for block in config.blocks(config.catalog.tabulation("PH3"), config.catalog.levels[0])]
            [(2, 9, 10), (4, 5, 6, 7)]
        """
        given = self.blind_share.get(tabulation.name)
        share = None if given is None else Fraction(given)
        return blocks_of(tabulation, level, self.tau_of(tabulation), self.sensitivity, share)

    def levels_of(self, output: Tabulation | Derived) -> tuple[Level, ...]:
        """The levels at which an output has a budget above 0, in catalog order."""
        measured = self.catalog.measured(output)
        budgets = self.budgets[measured.name]
        return tuple(level for level in self.catalog.levels_of(measured) if budgets[level.key] > 0)

    def outputs(self) -> Iterator[tuple[Tabulation | Derived, tuple[Level, ...]]]:
        """Every output that is published, with its levels."""
        for output in self.catalog.outputs:
            levels = self.levels_of(output)
            if levels:
                yield output, levels

    def measurements(self) -> tuple[Measurement, ...]:
        """The planned measurements: every tabulation and level with a budget above 0."""
        return tuple(
            Measurement(tabulation, level, self.budgets[tabulation.name][level.key])
            for tabulation in self.catalog.tabulations
            for level in self.levels_of(tabulation)
        )

    @property
    def total(self) -> Fraction:
        """The exact sum of all budgets."""
        return sum((Fraction(m.budget) for m in self.measurements()), Fraction(0))

    def to_production(self) -> dict[str, Any]:
        """The config as a production JSON document, with budgets as `Decimal`.

        Write it with `phsafe.model.exact_numbers.dumps`, which keeps all digits.

        Example:
            >>> Config.load("examples/pr.json").to_production()["state_filter"]
            ['72']
        """
        optional = {t.name for t in self.catalog.truncation if not self.levels_of(t)}
        return {
            "privacy_budget": {name: dict(levels) for name, levels in self.budgets.items() if name not in optional},
            "tau": dict(self.tau),
            "state_filter": list(self.states),
            "reader": self.reader,
            "privacy_defn": self.privacy,
            **({} if self.sensitivity == "published" else {"sensitivity": self.sensitivity}),
            **({"blind_share": dict(self.blind_share)} if self.blind_share else {}),
        }


def _parse(path: Path) -> Mapping[str, Any]:
    """Read JSON or TOML, depending on the file extension, with exact decimals."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{path}: expected a config of at most {MAX_BYTES} bytes, got a larger file")
        text = content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: can't read the config: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected a UTF-8 text file, got other bytes") from None
    toml = path.suffix.lower() == ".toml"
    try:
        if toml:
            document: Any = tomllib.loads(text, parse_float=Decimal)
        else:
            document = json.loads(text, parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=rules.no_repeats)
    except (ValueError, ArithmeticError, RecursionError) as error:
        form = "TOML" if toml else "JSON"
        why = str(error).splitlines()[0] if not isinstance(error, RecursionError) else "nested too deeply"
        ending = "" if toml else " (TOML must be in a file ending in .toml)"
        raise ConfigError(f"{path}: expected {form}{ending}, got text that can't be parsed: {why}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: expected an object with privacy_budget, tau and state_filter, got {document!r:.40}")
    return document
