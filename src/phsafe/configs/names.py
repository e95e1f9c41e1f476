"""Display names of regions and iterations, and of the area that a config covers, which may be a part of the country."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError, did_you_mean
from phsafe.model.schema import POSTAL_CODES, STATES, US_STATES

if TYPE_CHECKING:
    import polars as pl

#: (region type, region code).
Region = tuple[str, str]
NATION: Region = ("USA", "1")
#: Other names for the nation.
NATION_ALIASES = ("us", "usa", "united states")
#: More states than this are counted rather than listed.
MAX_LISTED_STATES = 6


def region_names(config: Config) -> dict[Region, str]:
    """The names of the regions of a config. If it covers only some states, its "nation" is named after those.

    >>> region_names(Config.load("examples/us.json"))["USA", "1"]
    'United States'
    """
    names = {
        (level.geography.region_type, code): name
        for level in config.catalog.levels
        for code, name in level.geography.within(config.states)
    }
    if NATION in names and not _is_whole(config):
        whole = nation(config)
        names[NATION] = f"{whole[0].upper()}{whole[1:]}"
    return names


def iteration_names(config: Config) -> dict[str, str]:
    """The names of the race/ethnicity iterations, by code."""
    return {i.code: i.label for level in config.catalog.levels for i in level.iteration_level.iterations}


def find_region(config: Config, region: str | int) -> Region:
    """The key of a region, given by name, postal code or FIPS code; a number is a FIPS code.

    Raises:
        PHSafeError: The config has no such region.

    >>> us = Config.load("examples/us.json")
    >>> {find_region(us, wyoming) for wyoming in ("Wyoming", "WY", "wy", "56", 56)}, find_region(us, "USA")
    ({('STATE', '56')}, ('USA', '1'))
    """
    wanted = f"{region:02d}" if isinstance(region, int) else region.strip().casefold()
    names = region_names(config)
    for key, name in names.items():
        if wanted in (name.casefold(), key[1].casefold()) or (key == NATION and wanted in NATION_ALIASES):
            return key
        if POSTAL_CODES.get(wanted.upper()) == key[1]:
            return key
    known = ", ".join(list(names.values())[:5])
    hint = did_you_mean(wanted, names.values())
    raise PHSafeError(f"region: expected a name or code, such as {known}, got {region!r:.60}{hint}")


def find_iteration(config: Config, iteration: str) -> str:
    """The code of an iteration, given by code or label, or by how only its label begins.

    Raises:
        PHSafeError: The config has no such iteration.

    >>> us = Config.load("examples/us.json")
    >>> [find_iteration(us, name) for name in ("e", "Native Hawaiian", "white alone")]
    ['E', 'E', 'A']
    """
    names, wanted = iteration_names(config), iteration.strip().casefold()
    for code, label in names.items():
        if wanted in (code.casefold(), label.casefold()):
            return code
    begun = [code for code, label in names.items() if wanted and label.casefold().startswith(wanted)]
    if len(begun) == 1:
        return begun[0]
    hint = did_you_mean(iteration, names.values())
    raise PHSafeError(f"iteration: expected one of {', '.join(names)} or its label, got {iteration!r:.60}{hint}")


def with_names(config: Config, frame: pl.DataFrame) -> pl.DataFrame:
    """Add the names of regions (REGION) and iterations (RACE_ETHNICITY) to a frame, beside their codes."""
    import polars as pl  # noqa: PLC0415  (names alone don't need it)

    regions = pl.DataFrame(
        [(*key, name) for key, name in region_names(config).items()],
        schema=["REGION_TYPE", "REGION_ID", "REGION"],
        orient="row",
    )
    found = frame.join(regions, on=["REGION_TYPE", "REGION_ID"], how="left", maintain_order="left").with_columns(
        RACE_ETHNICITY=pl.col("ITERATION_CODE").replace_strict(iteration_names(config), return_dtype=pl.String)
    )
    after = max(frame.columns.index(name) for name in ("REGION_TYPE", "REGION_ID")) + 1
    keys = [*frame.columns[:after], "REGION", "ITERATION_CODE", "RACE_ETHNICITY"]
    return found.select(*keys, *(name for name in frame.columns if name not in keys))


def coverage(config: Config) -> str:
    """The area that the figures of a config cover, as a phrase.

    >>> coverage(Config.load("examples/us.json")), coverage(Config.load("examples/pr.json"))
    ('the United States, its 50 states and the District of Columbia', 'Puerto Rico')
    """
    types = {m.level.geography.region_type for m in config.measurements()}
    if types == {NATION[0]}:
        return nation(config)
    if _is_whole(config):
        states = "50 states and the District of Columbia"
        return f"the United States, its {states}" if NATION[0] in types else f"the {states}"
    listed = _listed(config)
    return f"{listed}, alone and together" if NATION[0] in types and len(config.states) > 1 else listed


def nation(config: Config) -> str:
    """The area that the national figures of a config cover, as a phrase: its states, which need not be all of them."""
    if _is_whole(config):
        return "the United States"
    return f"{_listed(config)} together" if len(config.states) > 1 else _listed(config)


def _is_whole(config: Config) -> bool:
    return set(config.states) == set(US_STATES)


def _listed(config: Config) -> str:
    names = [STATES[state] for state in config.states]
    if len(names) > MAX_LISTED_STATES:
        return f"{len(names)} states"
    return enumerated(names)


def enumerated(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: "PH1, PH2 and PH7"."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
