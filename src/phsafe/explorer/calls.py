"""`phsafe solve` as a Python call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phsafe.config import Config
from phsafe.explorer.request import Request
from phsafe.explorer.solver import Solution
from phsafe.explorer.solver import solve as solve_request


def solve(config: str | Path | Mapping[str, Any] | Config, targets: str | Path | Mapping[str, Any]) -> Solution:
    """A config with other budgets: those that meet MOE targets, or the best split of a total.

    `targets` is what the command takes, as a file or a mapping; `solution.config` goes into `phsafe.budget`.

    >>> from phsafe.exact import text
    >>> text(solve("examples/us.json", {"total": 1}).config.total)
    '1'
    >>> solution = solve("examples/us.json", {"moe": {"PH3": {"state_A-G": 40}}})
    >>> solution.config.budgets["PH3"]["state_A-G"]
    Decimal('0.165744')
    """
    loaded = Config.load(config)
    return solve_request(loaded, Request.load(targets, loaded))
