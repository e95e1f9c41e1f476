"""Reading each format into the canonical Ibis tables."""

from phsafe.source.read import DataSource, Source, load, open_source
from phsafe.source.tables import Tables

__all__ = ["DataSource", "Source", "Tables", "load", "open_source"]
