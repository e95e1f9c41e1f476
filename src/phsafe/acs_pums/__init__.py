"""Conversion of the American Community Survey's public microdata (PUMS) to a data folder that other commands read.

docs/how-to/pums.md describes the mapping, its choices and its limits.
"""

from __future__ import annotations

from phsafe.acs_pums.conversion import Conversion, pums

__all__ = ["Conversion", "pums"]
