"""The config of a run, read from the production JSON format or from TOML.

Budgets are exact decimals with the digits of the file; nothing is read as a float.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

from phsafe.configs import config_rules as rules
from phsafe.configs.publication import Publication
from phsafe.errors import ConfigError, did_you_mean
from phsafe.model.document_files import read_document
from phsafe.model.exact_numbers import text
from phsafe.model.levels import Level, in_puerto_rico
from phsafe.model.spec import Catalog, CatalogSource, Derived, Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy_math.level_blocks import Block, blocks_of
from phsafe.system.public_calls import checked

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


@dataclass(frozen=True, repr=False)
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
        control_totals: "persons" or "units" → state → the number of rows that validation expects. Confidential, because
            they are counts of the data: `to_production` leaves them out.
        population: Whom the config is about, which must be the population of the ledger; None accepts any.
        publication: Who publishes the release and how to cite it; all of it is optional.

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
    control_totals: Mapping[str, Mapping[str, int]] = field(default_factory=dict, repr=False)
    population: str | None = None
    publication: Publication = field(default_factory=Publication)

    @classmethod
    @checked
    def load(cls, source: str | Path | Mapping[str, Any] | Config, catalog: CatalogSource | None = None) -> Config:
        """Read and validate a config.

        Args:
            source: A JSON or TOML file, a mapping of the same structure, or a `Config`, which is returned unchanged.
            catalog: The tables and levels that the config refers to: a `Catalog`, or a JSON or TOML file of one. By
                default PH1–PH8 of the 2020 Census, or the catalog of a `Config`.

        Returns:
            The config. MOE targets (`moe_target`) are converted to budgets.

        Raises:
            ConfigError: A file can't be read, or the config or the catalog is invalid; lists every problem.

        Example:
            >>> Config.load("examples/pr.json").states
            ('72',)
        """
        tables = None if catalog is None else Catalog.load(catalog)
        if isinstance(source, Config):
            if tables is not None and tables != source.catalog:
                raise ConfigError("expected the catalog of the loaded config, got another; load the config with it")
            return source
        document = source if isinstance(source, Mapping) else _read(Path(source))
        tables = CENSUS_2020 if tables is None else tables
        return cls(**rules.check(document, tables), catalog=tables)

    @classmethod
    def at_every_level(
        cls, source: str | Path | Mapping[str, Any] | Config, catalog: CatalogSource | None = None
    ) -> Config:
        """Read a config for exact counts of every level: its budgets are ignored, and may be missing.

        Args:
            source: A JSON or TOML file, a mapping of the same structure, or a `Config`.
            catalog: The tables and levels to count, as for `load`.

        Returns:
            The config, with a budget of 1 for every level that its states have. Never release with it.

        Raises:
            ConfigError: The file can't be read or the config is invalid; lists every problem.

        Example:
            >>> len(Config.at_every_level({"tau": Config.load("examples/pr.json").tau, "states": "pr"}).measurements())
            43
        """
        if not isinstance(source, Config):
            document = source if isinstance(source, Mapping) else _read(Path(source))
            catalog = CENSUS_2020 if catalog is None else Catalog.load(catalog)
            kept = {name: value for name, value in document.items() if name not in rules.BUDGET_FIELDS}
            zero = {t.name: {level.key: 0 for level in catalog.levels_of(t)} for t in catalog.tabulations}
            source = kept | {"privacy_budget": zero}
        source = cls.load(source, catalog)
        budgets = {
            t.name: {
                level.key: Decimal(level.geography.puerto_rico or not source.is_puerto_rico)
                for level in source.catalog.levels_of(t)
            }
            for t in source.catalog.tabulations
        }
        return replace(source, budgets=budgets)

    def __hash__(self) -> int:
        return hash((self.states, frozenset((name, frozenset(of.items())) for name, of in self.budgets.items())))

    def __repr__(self) -> str:
        """What the config covers and what it spends in all; its fields have the details."""
        unit = "ρ" if self.privacy == "zcdp" else "ε"
        states = f"{len(self.states)} state{'' if len(self.states) == 1 else 's'}"
        spent = f"{len(self.measurements())} measurements with {unit} = {text(self.total)}"
        return f"Config({states}, {spent}, {self.sensitivity})"

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

    @property
    def counts_without_units(self) -> bool:
        """Whether something is counted from persons and public geography alone (claims C14 and C17)."""
        return any(
            m.tabulation.kind == "dropped" or any(block.is_blind for block in self.blocks(m.tabulation, m.level))
            for m in self.measurements()
        )

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

        Control totals are left out: the document goes into public manifests, and they are exact counts of the data.
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
            **({} if self.population is None else {"population": self.population}),
            **({"publication": self.publication.to_document()} if self.publication else {}),
        }


def _read(path: Path) -> dict[str, Any]:
    """Read a config file. The name of a shipped config is not a file, and a message says where it is."""
    try:
        return read_document(path, "config", MAX_BYTES)
    except ConfigError as error:
        from phsafe.configs.shipped import shipped_names  # noqa: PLC0415  (imports this module)

        name = str(path).lower()
        if path.is_file() or not did_you_mean(name, shipped_names()):
            raise
        if name not in shipped_names():
            raise ConfigError(f"{error}; shipped configs: {', '.join(shipped_names())} (phsafe config)") from None
        shell = f"phsafe config {name} > {name}.json"
        raise ConfigError(
            f"{error}; the shipped config is phsafe.config({name!r}), or in a terminal: {shell}"
        ) from None
