"""Opening each format as tables of an engine."""

from phsafe.readers.read import DataSource, load, prepare
from phsafe.readers.tables import Tables

__all__ = ["DataSource", "Tables", "load", "prepare"]
