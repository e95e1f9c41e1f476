"""Opening each format as tables of an engine."""

from phsafe.readers.read import DataSource, Source, load, open_source
from phsafe.readers.tables import Tables

__all__ = ["DataSource", "Source", "Tables", "load", "open_source"]
