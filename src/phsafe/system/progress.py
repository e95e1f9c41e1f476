"""The callback by which long operations report progress; console.py draws the bar, public_calls.py in notebooks."""

from __future__ import annotations

from collections.abc import Callable

#: Called with the name of the stage, which never reveals anything about the data, and the share that is done.
Progress = Callable[[str, float], None]


def silent(stage: str, done: float) -> None:
    """Report nothing."""


def part(progress: Progress, start: float, end: float) -> Progress:
    """Scale the progress of a part of the work to the range from `start` to `end` of the whole.

    >>> seen = []
    >>> part(lambda stage, done: seen.append((stage, done)), 0.5, 1.0)("counting", 0.5)
    >>> seen
    [('counting', 0.75)]
    """
    return lambda stage, done: progress(stage, start + (end - start) * done)
