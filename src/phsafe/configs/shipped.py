"""The configs that ship with the package: every JSON file in `phsafe/configs/parameters`."""

from __future__ import annotations

import json
from decimal import Decimal
from importlib.resources import files

from phsafe.configs.config import Config
from phsafe.errors import ConfigError, did_you_mean

_FOLDER = files("phsafe.configs.parameters")
_ENDING = ".json"


def shipped_names() -> tuple[str, ...]:
    """Return the names of all shipped configs, sorted.

    >>> {"us", "pr"} <= set(shipped_names())
    True
    """
    names = (file.name for file in _FOLDER.iterdir())
    return tuple(sorted(name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING)))


def shipped_text(name: str) -> str:
    """Return a shipped config as it is in its file.

    Raises:
        ConfigError: There is no config of this name.

    """
    known = shipped_names()
    if name not in known:
        hint = did_you_mean(name.removesuffix(_ENDING), known)
        raise ConfigError(f"expected a shipped config, one of {', '.join(known)}, got {name!r:.60}{hint}")
    return _FOLDER.joinpath(name + _ENDING).read_text(encoding="utf-8")


def config(name: str) -> Config:
    """Load a config that ships with the package.

    Args:
        name: The name of the config: ``us`` and ``pr`` are those of the United States and Puerto Rico in 2020.
            `phsafe config` lists all.

    Returns:
        The config.

    Raises:
        ConfigError: There is no config of this name; the message lists them.

    Example:
        >>> config("us").total, config("pr").states
        (Fraction(1257281, 1000000), ('72',))

    """
    return Config.load(json.loads(shipped_text(name), parse_float=Decimal))
