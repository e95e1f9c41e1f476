"""Reading each format into the canonical Ibis tables."""

from phsafe.source.read import DataSource, load
from phsafe.source.tables import Tables

__all__ = ["DataSource", "Tables", "load"]
