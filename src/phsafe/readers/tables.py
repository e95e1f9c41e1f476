"""The input tables as an engine has opened them: what every reader makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phsafe.readers.options import EngineTable


@dataclass(frozen=True)
class Tables:
    """Persons, units and geo, with the names of their layouts and the types of their source.

    Attributes:
        tables: The tables by name.
        extra: For each table with columns that its layout doesn't have, how many; their names may be anything, so they
            are not kept.

    """

    tables: Mapping[str, EngineTable]
    extra: Mapping[str, int] = field(default_factory=dict)
