"""The share of people that each threshold drops, in the form that `phsafe explore --shares` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phsafe.accuracy_study.truth import Thresholds, thresholds
from phsafe.accuracy_study.variants import Variant
from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.model.levels import Level
from phsafe.model.spec import Tabulation

#: The same precision as the shares that ship with the explorer.
DECIMALS = 5


def shares(
    variants: Sequence[Variant], untruncated: grid.Counts, truncated: Mapping[Thresholds, grid.Counts]
) -> dict[str, dict[int, float]]:
    """Tabulation → threshold → percentage of people dropped, for tabulations with a level that covers everyone."""
    found: dict[str, dict[int, float]] = {}
    for variant in variants:
        counts = truncated[thresholds(variant.config)]
        for tabulation in variant.config.catalog.tabulations:
            level = _covering_level(variant.config, tabulation)
            if level is None or not tabulation.is_truncated:
                continue
            key = (tabulation.name, level.key)
            people = int(untruncated[key].sum())
            if people:
                lost = round(100 * (people - int(counts[key].sum())) / people, DECIMALS)
                found.setdefault(tabulation.name, {})[variant.config.tau[tabulation.name]] = lost
    return {name: dict(sorted(by_tau.items())) for name, by_tau in found.items()}


def _covering_level(config: Config, tabulation: Tabulation) -> Level | None:
    """A published level whose groups together cover everyone, or None."""
    return next(
        (level for level in config.levels_of(tabulation) if level.geography.covers and level.iteration_level.covers),
        None,
    )
