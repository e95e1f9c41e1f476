"""Public microdata of the American Community Survey (PUMS) as a data folder that every other command reads.

See docs/pums.md for the mapping, its choices and its limits.
"""

from __future__ import annotations

from phsafe.microdata.run import Conversion, pums

__all__ = ["Conversion", "pums"]
