"""Parts of the input counted side by side, each by a connection of its own."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import count
from typing import Any, Protocol

from phsafe.engine.ranges import KeyRange
from phsafe.stopping import HEARING, uninterrupted, wait_for


class PartEngine(Protocol):
    """What is needed of an engine to work on parts."""

    def within(self, keys: KeyRange) -> contextlib.AbstractContextManager[None]:
        """While the context lasts, tables that were read have only the rows of a range."""

    def interrupt(self) -> None:
        """Stop the query that is running, if there is one."""


def side_by_side(
    engines: Sequence[PartEngine],
    parts: Sequence[KeyRange],
    work: Callable[[Any], None],
    progress: Callable[[float], None],
) -> None:
    """Work on every part; each engine takes the next one when it is free. The first failure stops all."""
    waiting = deque(parts)
    finished, telling = count(1), threading.Lock()

    def run(engine: PartEngine) -> None:
        while waiting:
            try:
                keys = waiting.popleft()
            except IndexError:
                return
            with engine.within(keys):
                work(engine)
            with telling:
                progress(next(finished) / len(parts))

    with ThreadPoolExecutor(len(engines)) as pool:
        running: list[Future[None]] = []
        try:
            with uninterrupted():  # A thread that is stopped while it starts would be nobody's.
                running += [pool.submit(run, engine) for engine in engines]
            wait_for(running)
            for future in running:
                if future.done():
                    future.result()
        finally:
            waiting.clear()
            # Who is between two queries doesn't hear it, so it is said until everybody has come to an end.
            while wait(running, HEARING).not_done:
                for engine in engines:
                    engine.interrupt()
