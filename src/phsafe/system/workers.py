"""Worker processes that share the work and return results in order, and the number of cores.

Workers are plain child processes that read tasks from a pipe. Unlike those of `multiprocessing`, they never import the
calling script, so it needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from phsafe.errors import PHSafeError
from phsafe.system.interrupts import uninterrupted, wait_for

T = TypeVar("T")
R = TypeVar("R")
#: The worker's program. Its argument is the descriptor of a pipe that closes when the parent ends.
START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from phsafe.system.workers import serve; serve(int(sys.argv[1]))"
)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Generator[R]:
    """Yield a function's results in the order of the items.

    If the loop may end early, wrap the generator in `contextlib.closing`, which ends the workers.

    Args:
        function: A module-level function, or another callable that can be pickled. Each worker receives it once.
        items: The arguments. They are consumed lazily, just fast enough to keep all workers busy.
        jobs: The number of workers; with one, the work is done in this process.

    Raises:
        PHSafeError: A worker could not be started, or ended early.

    Example:
        >>> list(in_order(abs, [-1, 2], jobs=1))
        [1, 2]

    """
    return (function(item) for item in items) if jobs <= 1 else _by_workers(function, items, jobs)


def _by_workers(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Generator[R]:
    waiting: deque[Future[R]] = deque()
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    workers: list[_Worker] = []

    def call(item: T) -> R:
        worker = idle.get()
        try:
            result: R = worker.call(item)
        finally:
            idle.put(worker)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        try:
            with uninterrupted():  # An interrupt while a process starts would leave it orphaned.
                for _ in range(jobs):
                    workers.append(_Worker(function))
            for worker in workers:
                idle.put(worker)
            for item in items:
                with uninterrupted():
                    waiting.append(pool.submit(call, item))
                if len(waiting) > jobs + 1:
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())
        finally:
            for future in waiting:
                future.cancel()
            for worker in workers:
                worker.end()


def _result(future: Future[R]) -> R:
    wait_for([future])
    return future.result()


class _Worker:
    """A child process and the pipes to it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._first: list[Any] | None = [sys.path, function]
        silent = None if os.environ.get("PHSAFE_DEBUG") == "1" else subprocess.DEVNULL
        pipe: tuple[int, ...] = ()
        try:
            life, self._alive = pipe = os.pipe()
            # A session of its own, so that Ctrl-C reaches only this process. With -P, the worker imports nothing from
            # the current folder.
            self._process = subprocess.Popen(  # noqa: S603  (a fixed command)
                [sys.executable, "-P", "-c", START, str(life)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=silent, pass_fds=[life], start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            for descriptor in pipe:
                os.close(descriptor)
            raise PHSafeError(f"can't start a worker process: {error.strerror}; try fewer processes") from None
        os.close(life)

    def call(self, item: Any) -> Any:  # noqa: ANN401
        """Return the function's result, or raise its error."""
        tasks, results = self._process.stdin, self._process.stdout
        assert tasks is not None
        assert results is not None
        try:
            for message in [*(self._first or ()), item]:
                pickle.dump(message, tasks, pickle.HIGHEST_PROTOCOL)
            self._first = None
            tasks.flush()
            done, result = pickle.load(results)  # noqa: S301  (written by our own child)
        except (OSError, EOFError, pickle.UnpicklingError):
            raise PHSafeError("a worker process ended early, perhaps for lack of memory; try fewer processes") from None
        if not done:
            raise result
        return result

    def end(self) -> None:
        """End the process immediately."""
        self._process.kill()
        self._process.wait()
        os.close(self._alive)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # Data that the child hasn't read are discarded, as intended.
                    pipe.close()


def serve(life: int) -> None:
    """Run a worker: read the function, then tasks, and write results.

    Args:
        life: The descriptor of a pipe that closes when the parent ends.

    """
    threading.Thread(target=_end_with_parent, args=[life], daemon=True).start()
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Redirect what libraries print, so that it can't mix with the results.
    os.dup2(2, 1)
    function = pickle.load(tasks)  # noqa: S301  (written by our own parent)
    while True:
        try:
            item = pickle.load(tasks)  # noqa: S301
        except EOFError:
            return
        pickle.dump(_outcome(function, item), results, pickle.HIGHEST_PROTOCOL)
        results.flush()


def _outcome(function: Callable[[Any], Any], item: Any) -> tuple[bool, Any]:  # noqa: ANN401
    """Whether the function succeeded, with its result or error; drop foreign messages, which may quote records."""
    try:
        return True, function(item)
    except PHSafeError as error:
        return False, error
    except MemoryError:
        return False, MemoryError()
    except Exception as error:
        traceback.print_exc()
        return False, RuntimeError(f"{type(error).__name__} in a worker process")


def _end_with_parent(life: int) -> None:
    os.read(life, 1)
    os._exit(1)
