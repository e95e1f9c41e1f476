"""Signal handling: Ctrl-C, SIGTERM and a closed terminal stop a run only at a point where nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Collection, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from types import FrameType
from typing import Any

from phsafe.errors import FinishedError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds between checks for signals. Polars makes the system resume waiting after a Ctrl-C, so a wait without timeout
#: would not notice the signal before the work is done.
POLL_SECONDS = 0.1


#: The exit code of an interrupted command that charged nothing.
INTERRUPTED = 130


class StoppedError(Exception):
    """A command was interrupted.

    Args:
        outcome: What it had completed, if anything.
        exit_code: The exit code of the command.

    """

    def __init__(self, outcome: str, exit_code: int = INTERRUPTED) -> None:
        super().__init__(outcome)
        self.exit_code = exit_code


class FinishedInterrupt(KeyboardInterrupt):
    """An interrupt that arrived after a release was charged; the release is complete."""

    exit_code = FinishedError.exit_code


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Turn the first signal into a KeyboardInterrupt and ignore later ones, which would interrupt the cleanup."""

    def stop(number: int, frame: FrameType | None) -> None:
        for other in handlers:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    handlers = _current_handlers()
    for number in handlers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        _restore(handlers)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer signals until the context ends; they are dropped if it ends with an error.

    Only the main thread handles signals; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    keep_ignored()
    received: list[int] = []
    handlers = _current_handlers()
    for number in handlers:
        signal.signal(number, lambda number, _: received.append(number))
    try:
        yield
    finally:
        _restore(handlers)
    for number in received[:1]:
        signal.raise_signal(number)


def keep_ignored() -> None:
    """Ignore again what was ignored at the start, as in a script's background job: Polars replaces it when loaded."""
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_IGN)


def wait_for(futures: Collection[Future[Any]]) -> None:
    """Wait until all futures are done or one has failed, while staying responsive to signals."""
    while True:
        done, running = wait(futures, POLL_SECONDS, FIRST_EXCEPTION)
        if not running or any(future.exception() for future in done):
            return


def _current_handlers() -> dict[int, Any]:
    """The handled signals with their current handlers. Ignored signals stay ignored, as nohup requires."""
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    return {number: now for number, now in handlers.items() if now not in (signal.SIG_IGN, None)}


def _restore(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
