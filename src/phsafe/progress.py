"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

#: Called with a stage, in words that say nothing of the data, and the share that is done.
Progress = Callable[[str, float], None]


def silent(stage: str, done: float) -> None:
    """Tell nobody."""


def part(progress: Progress, start: float, end: float) -> Progress:
    """The progress of a part of some work, from share `start` to share `end` of the whole.

    >>> seen = []
    >>> part(lambda stage, done: seen.append((stage, done)), 0.5, 1.0)("counting", 0.5)
    >>> seen
    [('counting', 0.75)]
    """
    return lambda stage, done: progress(stage, start + (end - start) * done)
