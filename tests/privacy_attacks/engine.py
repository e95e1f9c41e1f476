"""The real engine over frames in memory."""

from __future__ import annotations

from phsafe.engine import EngineOptions, open_engine
from phsafe.source import load
from phsafe.tabulation.run import tabulate_tables
from phsafe.validation.run import HouseholdRules


def count(config, frames, *, threads: int = 1, validated: bool = False):
    """Exact counts: {(tabulation, level key): vector}. Validation, if it goes along, says how large households are."""
    look = HouseholdRules() if validated else None
    with open_engine(EngineOptions(threads=threads)) as engine:
        return tabulate_tables(load(frames, engine), config, engine, look=look).counts()
