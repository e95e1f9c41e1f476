"""The share of people that each threshold drops: what `phsafe explore --shares` takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from phsafe import grid
from phsafe.appraisal.scenarios import Scenario
from phsafe.appraisal.truth import Thresholds, thresholds
from phsafe.config import Config
from phsafe.levels import Level
from phsafe.spec import Tabulation

#: As many decimals as the shares that ship with the program.
DECIMALS = 5


def shares(
    scenarios: Sequence[Scenario], everybody: grid.Counts, truncated: Mapping[Thresholds, grid.Counts]
) -> dict[str, dict[int, float]]:
    """Tabulation → threshold → percent of its people lost, for those with a level that has everybody in it."""
    found: dict[str, dict[int, float]] = {}
    for scenario in scenarios:
        counts = truncated[thresholds(scenario.config)]
        for tabulation in scenario.config.catalog.tabulations:
            level = _whole(scenario.config, tabulation)
            if level is None or not tabulation.counts_persons:
                continue
            key = (tabulation.name, level.key)
            people = int(everybody[key].sum())
            if people:
                lost = round(100 * (people - int(counts[key].sum())) / people, DECIMALS)
                found.setdefault(tabulation.name, {})[scenario.config.tau[tabulation.name]] = lost
    return {name: dict(sorted(by_tau.items())) for name, by_tau in found.items()}


def _whole(config: Config, tabulation: Tabulation) -> Level | None:
    """A published level whose groups are everybody."""
    return next(
        (level for level in config.levels_of(tabulation) if level.geography.covers and level.iteration_level.covers),
        None,
    )
