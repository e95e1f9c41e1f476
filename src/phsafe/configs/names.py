"""Display names of regions and iterations, and of the area that a config covers, which may be a part of the country."""

from __future__ import annotations

from phsafe.configs.config import Config
from phsafe.model.schema import STATES, US_STATES

#: (region type, region code).
Region = tuple[str, str]
NATION: Region = ("USA", "1")
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
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
