"""The real engine over frames in memory."""

from __future__ import annotations

from phsafe.engines import EngineOptions, open_engine
from phsafe.readers import load
from phsafe.scan import scan_tables


def count(config, frames, *, threads: int = 1):
    """Exact truncated counts: {(tabulation, level key): vector}."""
    with open_engine(EngineOptions(threads=threads)) as engine:
        return scan_tables(load(frames, engine), config, engine).counts()
