"""Count in-memory frames with the real engine."""

from __future__ import annotations

from phsafe.engines import EngineOptions, open_engine
from phsafe.pipeline.scan import scan_tables
from phsafe.readers import load


def count(config, frames, *, threads: int = 1):
    """Exact counts after truncation: {(tabulation, level key): vector}."""
    with open_engine(EngineOptions(threads=threads)) as engine:
        return scan_tables(load(frames, engine), config, engine).counts()
