"""Stopping well: Ctrl-C, SIGTERM and a closed terminal end a run at a moment when nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds between two moments at which a signal is heard. Polars has the system go on waiting after a Ctrl-C, so a wait
#: without end would not hear it before the work is done.
HEARING = 0.1


class StoppedError(Exception):
    """A command was stopped; the text says what it had done by then, if there is anything to say."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Take the first of these signals as a KeyboardInterrupt, and no other: it would interrupt the cleaning up."""

    def stop(number: int, frame: FrameType | None) -> None:
        for other in taken:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    taken = _taken()
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        _give_back(taken)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Finish what is inside; a signal that came meanwhile is heard at the end, unless that ends with an error.

    Signals are the main thread's; in another thread this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    taken = _taken()
    for number in taken:
        signal.signal(number, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        _give_back(taken)
    for number in heard[:1]:
        signal.raise_signal(number)


def wait_for(futures: Collection[Future[Any]]) -> None:
    """Wait until all futures are done or one has failed, with an ear for signals."""
    while True:
        done, running = wait(futures, HEARING, FIRST_EXCEPTION)
        if not running or any(future.exception() for future in done):
            return


def _taken() -> dict[int, Any]:
    """The signals that are heard now, with their handlers. What is ignored stays ignored: that is how nohup works."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    return {number: now for number, now in handlers.items() if now not in (signal.SIG_IGN, None)}


def _give_back(taken: dict[int, Any]) -> None:
    for number, handler in taken.items():
        signal.signal(number, handler)
