"""Exact counts for any spec: confidential, and nowhere else than in memory unless somebody asks for them."""

from phsafe.tabulation.exact import NOT_PRIVATE, exact_counts, tidy, write_counts
from phsafe.tabulation.run import Progress, Tabulated, tabulate_tables

__all__ = ["NOT_PRIVATE", "Progress", "Tabulated", "exact_counts", "tabulate_tables", "tidy", "write_counts"]
