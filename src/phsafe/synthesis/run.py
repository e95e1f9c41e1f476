"""Making a whole folder: chunks composed by all cores, written in order by this process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from phsafe.errors import PHSafeError
from phsafe.stopping import SIGNALS
from phsafe.synthesis.chunk import Tables, compose
from phsafe.synthesis.plan import Chunk, parse_states, plan

#: Marks a folder as safe to show: what may see single records may see these.
MARK = "PUBLIC"
MARK_TEXT = (
    "These records are made up by phsafe synth: nobody is described by them, and anyone may see them.\n"
)
FORMATS = ("csv", "parquet")
DEFAULT_SEED = 0
#: Fewer households than this are made before other processes would have started.
ALONE_BELOW = 300_000
#: The one process that writes can't keep up with more, and each takes about 0.2 GB.
MOST_JOBS = 8

Progress = Callable[[int, int], None]


def synth(
    out: str | Path,
    households: int,
    states: str | Sequence[str] = "us",
    seed: int = DEFAULT_SEED,
    format: str = "parquet",
    progress: Progress | None = None,
    jobs: int | None = None,
) -> Path:
    """Make a folder of made-up microdata: persons, units and geo in the Census Edited File layout.

    `households` counts occupied housing units over all `states` ("us", "pr" or FIPS codes); vacant units and
    group quarters come on top. The same arguments give the same bytes, whatever the machine and `jobs`
    (processes; unless told, one for each core, at most eight). `progress` is called with chunks done and
    chunks in all. `out` must not exist; it appears only when it is complete. Returns its path. Raises
    `PHSafeError` with the reason.
    """
    out = Path(out)
    if format not in FORMATS:
        raise PHSafeError(f"format: expected one of {', '.join(FORMATS)}, got {format}")
    if jobs is not None and jobs < 1:
        raise PHSafeError(f"jobs: expected 1 or more, got {jobs}")
    chunks = plan(households, parse_states(states), seed)
    # Imported here because Polars and Arrow are slow to load, and the processes that compose need neither.
    from phsafe.files import new_folder  # noqa: PLC0415
    from phsafe.synthesis.write import SINKS  # noqa: PLC0415

    with new_folder(out, private=False) as folder:
        (folder / MARK).write_text(MARK_TEXT, encoding="utf-8")
        with SINKS[format](folder) as sink:
            for done, (chunk, tables) in enumerate(_composed(chunks, jobs), start=1):
                sink.write(chunk.state, tables)
                if progress is not None:
                    progress(done, len(chunks))
    return out


def _composed(chunks: list[Chunk], jobs: int | None) -> Iterator[tuple[Chunk, Tables]]:
    """The chunks with their rows, in order."""
    if jobs is None:
        few = sum(chunk.households for chunk in chunks) < ALONE_BELOW
        jobs = 1 if few else min(_cores(), MOST_JOBS)
    jobs = min(jobs, len(chunks))
    if jobs <= 1:
        for chunk in chunks:
            yield chunk, compose(chunk)
    else:
        yield from _composed_by_many(chunks, jobs)


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _composed_by_many(chunks: list[Chunk], jobs: int) -> Iterator[tuple[Chunk, Tables]]:
    # "spawn", because forking a process that has threads (Arrow's, a progress bar's) can lock up.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker)
    # A window of chunks keeps all processes busy, and the memory from growing while this one writes.
    waiting: deque[tuple[Chunk, Future[Tables]]] = deque()
    try:
        for chunk in chunks:
            waiting.append((chunk, pool.submit(compose, chunk)))
            if len(waiting) > jobs + 1:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)
    except BrokenProcessPool:
        raise PHSafeError(
            "a process that made households ended early: out of memory, or a script without "
            'if __name__ == "__main__"; try jobs=1'
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _next(waiting: deque[tuple[Chunk, Future[Tables]]]) -> tuple[Chunk, Tables]:
    chunk, future = waiting.popleft()
    return chunk, future.result()


def _start_worker() -> None:
    """Leave signals to the parent, and end when the parent is gone."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
