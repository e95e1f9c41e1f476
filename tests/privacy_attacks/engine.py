"""The real engine over frames in memory."""

from __future__ import annotations

from phsafe.engine import EngineOptions, open_engine
from phsafe.source import load
from phsafe.tabulation.run import tabulate_tables


def count(config, frames, *, threads: int = 1):
    """Exact counts: {(tabulation, level key): vector}."""
    with open_engine(EngineOptions(threads=threads)) as engine:
        return tabulate_tables(load(frames, engine), config, engine).counts()
