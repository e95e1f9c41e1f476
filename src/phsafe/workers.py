"""Work shared out over processes, with its results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from phsafe.errors import PHSafeError
from phsafe.stopping import SIGNALS, wait_for

T = TypeVar("T")
R = TypeVar("R")


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """The results of a function that a module holds, in the order of the items; one job is done right here.

    >>> list(in_order(abs, [-1, 2], jobs=1))
    [1, 2]
    """
    return map(function, items) if jobs <= 1 else _by_many(function, items, jobs)


def _by_many(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    # "spawn", because forking a process that has threads (Arrow's, a progress bar's) can lock up.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start)
    # A window keeps all processes busy, and the memory from growing while this one uses what they made.
    waiting: deque[Future[R]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > jobs + 1:
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())
    except BrokenProcessPool:
        raise PHSafeError(
            "a process that shared the work ended early: out of memory, or a script without "
            'if __name__ == "__main__"; try jobs=1'
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _result(future: Future[R]) -> R:
    wait_for([future])
    return future.result()


def _start() -> None:
    """Leave signals to the parent, and end when the parent is gone."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
