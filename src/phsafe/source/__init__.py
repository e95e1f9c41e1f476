"""Reading each format into the canonical Ibis tables."""

from phsafe.source.read import DataSource, check_readable, load
from phsafe.source.tables import Tables

__all__ = ["DataSource", "Tables", "check_readable", "load"]
