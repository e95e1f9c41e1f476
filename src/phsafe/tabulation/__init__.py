"""Exact counts for any spec: confidential, and nowhere else than in memory unless somebody asks for them."""

from phsafe.tabulation.output import NOT_PRIVATE, tidy, write_counts
from phsafe.tabulation.run import Tabulated, tabulate_tables

__all__ = ["NOT_PRIVATE", "Tabulated", "tabulate_tables", "tidy", "write_counts"]
