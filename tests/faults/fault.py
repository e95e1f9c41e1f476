"""The list of faults. What must hold after each of them is the same for all: `Place.problems`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from place import Ending, Place

Do = Callable[[Place, random.Random], list[Ending]]
#: Name → what breaks one thing at a place, mends what a person would mend, and says how the commands ended.
FAULTS: dict[str, Do] = {}


class AbsentError(Exception):
    """This machine can't have that fault."""


def fault(name: str) -> Callable[[Do], Do]:
    """Put a fault in the list."""

    def keep(do: Do) -> Do:
        FAULTS[name] = do
        return do

    return keep


def needs_root() -> None:
    """Leave a fault out where this is not root."""
    if os.geteuid() != 0:
        raise AbsentError("needs root")


def refused(ending: Ending, *words: str) -> None:
    """Demand a refusal that names what is wrong."""
    assert ending.code == 1, ending
    assert any(word in ending.said for word in words), f"expected one of {words}, got {ending.said[-400:]}"
