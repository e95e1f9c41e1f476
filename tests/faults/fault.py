"""The list of faults. The same must hold after each of them: `Workspace.problems`."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from place import Ending, Workspace

Inject = Callable[[Workspace, random.Random], list[Ending]]
#: Name → a function that injects the fault in a workspace, repairs what an operator would repair, and returns how the
#: commands ended.
FAULTS: dict[str, Inject] = {}


class UnavailableError(Exception):
    """The fault can't be injected on this machine."""


def fault(name: str) -> Callable[[Inject], Inject]:
    """Add a fault to the list."""

    def register(inject: Inject) -> Inject:
        FAULTS[name] = inject
        return inject

    return register


def needs_root() -> None:
    """Skip a fault unless running as root."""
    if os.geteuid() != 0:
        raise UnavailableError("needs root")


def refused(ending: Ending, *texts: str) -> None:
    """Assert a refusal whose message contains one of the texts."""
    assert ending.code == 1, ending
    assert any(text in ending.output for text in texts), f"expected one of {texts}, got {ending.output[-400:]}"
