"""Exact counts for any spec: confidential, and nowhere else than in memory unless somebody asks for them."""

from phsafe.tabulate.run import Tabulated, tabulate_tables

__all__ = ["Tabulated", "tabulate_tables"]
