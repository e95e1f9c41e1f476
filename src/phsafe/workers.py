"""Work shared out over processes, with its results in order.

The processes are plain children that read tasks from a pipe. Unlike those of `multiprocessing`, they never import the
script that uses this package, so the script needs no ``if __name__ == "__main__"``.
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
from phsafe.stopping import uninterrupted, wait_for

T = TypeVar("T")
R = TypeVar("R")
#: What a child does first. Its arguments: the pipe that closes when its parent ends.
START = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from phsafe.workers import serve; serve(int(sys.argv[1]))"
)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Generator[R]:
    """The results of a function, in the order of the items.

    Close it (`contextlib.closing`) where the loop over it may end early: that ends the processes.

    Args:
        function: A function that a module holds, or another object that can be pickled. Each process gets it once.
        items: What to call it with. They are taken one by one, and no more wait than keep all processes busy.
        jobs: How many processes to use; with one, the work is done right here.

    Raises:
        PHSafeError: A process could not be started, or ended early.

    >>> list(in_order(abs, [-1, 2], jobs=1))
    [1, 2]

    """
    return (function(item) for item in items) if jobs <= 1 else _by_many(function, items, jobs)


def _by_many(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Generator[R]:
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
            with uninterrupted():  # A process started by an interrupted call would belong to nobody.
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
    """A child process, and the pipes to it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._first: list[Any] | None = [sys.path, function]
        silent = None if os.environ.get("PHSAFE_DEBUG") == "1" else subprocess.DEVNULL
        pipe: tuple[int, ...] = ()
        try:
            life, self._alive = pipe = os.pipe()
            # In a session of its own, so that Ctrl-C reaches this process alone. With -P, it imports nothing from the
            # folder that the program happens to run in.
            self._process = subprocess.Popen(  # noqa: S603  (only our own words)
                [sys.executable, "-P", "-c", START, str(life)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=silent, pass_fds=[life], start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            for descriptor in pipe:
                os.close(descriptor)
            raise PHSafeError(
                f"can't start a process to share the work: {error.strerror}; try fewer processes"
            ) from None
        os.close(life)

    def call(self, item: Any) -> Any:  # noqa: ANN401
        """The result of the function; its error is raised here."""
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
            raise PHSafeError(
                "a process that shared the work ended early; was there enough memory? Try fewer processes"
            ) from None
        if not done:
            raise result
        return result

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        os.close(self._alive)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # What was not read by the child is lost, as intended.
                    pipe.close()


def serve(life: int) -> None:
    """The life of a child: read the function, then tasks, and write results.

    Args:
        life: A pipe that closes when the parent ends.

    """
    threading.Thread(target=_end_with_parent, args=[life], daemon=True).start()
    tasks, results = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Nothing that a library prints may get among the results.
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
    """Whether the function returned, and its result or its error; another library's text might hold a record."""
    try:
        return True, function(item)
    except PHSafeError as error:
        return False, error
    except MemoryError:
        return False, MemoryError()
    except Exception as error:
        traceback.print_exc()
        return False, RuntimeError(f"{type(error).__name__} in a process that shared the work")


def _end_with_parent(life: int) -> None:
    os.read(life, 1)
    os._exit(1)
