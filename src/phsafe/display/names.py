"""What regions, iterations and whole configs are called, in words that are true of a partial run too."""

from __future__ import annotations

from phsafe.config import Config
from phsafe.schema import STATES, US_STATES

#: (region type, region code).
Region = tuple[str, str]
NATION: Region = ("USA", "1")
#: So many states are counted rather than listed.
MANY = 6


def region_names(config: Config) -> dict[Region, str]:
    """The regions of a config by type and code; a nation of some states only is called by those.

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
    """The race and ethnicity iterations of a catalog, by code."""
    return {i.code: i.label for level in config.catalog.levels for i in level.iteration_level.iterations}


def places(config: Config) -> str:
    """What a config covers.

    >>> places(Config.load("examples/us.json")), places(Config.load("examples/pr.json"))
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
    """What the nation's figures of a config cover: its states, which need not be all."""
    if _is_whole(config):
        return "the United States"
    return f"{_listed(config)} together" if len(config.states) > 1 else _listed(config)


def _is_whole(config: Config) -> bool:
    return set(config.states) == set(US_STATES)


def _listed(config: Config) -> str:
    names = [STATES[state] for state in config.states]
    if len(names) > MANY:
        return f"{len(names)} states"
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
