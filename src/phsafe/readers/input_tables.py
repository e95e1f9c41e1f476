"""The three input tables (persons, units, geo), as every reader returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from phsafe.readers.interfaces import EngineTable


@dataclass(frozen=True)
class Tables:
    """Persons, units and geo as an engine has opened them, with the column types of their source.

    Attributes:
        tables: The tables by name.
        extra: For each table with columns that are not in its layout, how many. Their names are not kept, because a
            damaged header may be a record.

    """

    tables: Mapping[str, EngineTable]
    extra: Mapping[str, int] = field(default_factory=dict)
