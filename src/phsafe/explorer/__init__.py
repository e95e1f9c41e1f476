"""PHExplore: choose budgets and thresholds interactively, with a web page, a solver and a workbook.

Everything is computed from a config. Nothing here can see data: the package imports neither readers nor tabulation,
and an import contract enforces that.
"""

from __future__ import annotations
