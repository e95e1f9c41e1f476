"""Trading accuracy against privacy by hand: numbers, a solver, a web page and a workbook, from a config alone.

Nothing here can see data: it imports neither readers nor tabulation, and import-linter holds it to that.
"""

from __future__ import annotations
