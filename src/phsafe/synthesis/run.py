"""Making a whole folder: chunks composed by all cores, written in order by this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from phsafe.errors import PHSafeError
from phsafe.synthesis.chunk import Tables, compose
from phsafe.synthesis.plan import Chunk, parse_states, plan
from phsafe.workers import cores, in_order

#: Marks a folder as safe to show: what may see single records may see these.
MARK = "PUBLIC"
MARK_TEXT = "These records are made up by phsafe synth: nobody is described by them, and anyone may see them.\n"
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
        jobs = 1 if few else min(cores(), MOST_JOBS)
    return zip(chunks, in_order(compose, chunks, min(jobs, len(chunks))), strict=True)
