"""The one place where exact counts meet noise: validate, tabulate, charge, add noise once, derive, check, write.

Exact counts stay in memory. The whole loss is on the ledger's disk before any noise is drawn (claim C12); whatever
goes wrong afterwards, it stays charged. The folder gets its name only after it has passed its own check.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from phsafe import grid
from phsafe.config import Config
from phsafe.engines import EngineOptions, started
from phsafe.errors import OutputError, PHSafeError, Reasons
from phsafe.exact import text
from phsafe.files import check_absent, draft, write_table
from phsafe.fingerprint import fingerprint_chunks
from phsafe.folder import Release, hash_file, manifest_of, write_manifest
from phsafe.folder_check import problems
from phsafe.privacy.accountant import Account, account_of, noise_by_level, plan
from phsafe.privacy.ledger import Ledger
from phsafe.privacy.mechanism import Session, open_session
from phsafe.progress import Progress, part, silent
from phsafe.readers import DataSource
from phsafe.scan import Settings, Source, count_source, open_source
from phsafe.stopping import uninterrupted

#: Bytes that a row of a release takes at most, twice over; and the rest, with blocks that files don't fill.
ROW_BYTES = 200
OTHER_BYTES = 100_000
#: Parts of a release whose versions are worth knowing when somebody reproduces it.
PARTS = ("phsafe", "opendp")


def release_tables(
    config: Config,
    data: DataSource,
    out: Path,
    ledger_path: Path,
    settings: Settings,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> tuple[Release, Ledger]:
    """Make a release, or raise a `PHSafeError` that says why not and whether it was charged."""
    with ExitStack() as stack:
        with started(options) as running, ExitStack() as reading:
            account, ledger, source = _prepare(config, data, out, ledger_path, running, reading)
            stack.enter_context(_stopped_in_words(out))
            # The name and the room are taken before anything is charged.
            folder = stack.enter_context(draft(out, private=False))
            reserve = _reserve(config, out, folder.path)
            counts = count_source(config, source, settings, part(progress, 0.0, 0.85))
            chunks = fingerprint_chunks(data, running)
        progress("charging the ledger", 0.85)
        with uninterrupted():
            session = open_session(config, counts)
        release_id = str(uuid.uuid4())
        fingerprint = None if chunks is None else ledger.fingerprint(chunks)
        details = {"config": _plain(config.to_production()), "settings": asdict(settings)}
        with ExitStack() as section:
            # Whoever stops a release that waits for the ledger stops it; one that was charged is finished.
            locked = partial(section.enter_context, uninterrupted())
            ledger.charge(account.total, release_id, details, fingerprint, locked)
            with _charged(account):
                progress("adding noise", 0.9)
                noisy = {key: np.array(values, dtype=np.int64) for key, values in _measure(session, config)}
                progress("writing and checking", 0.95)
                reserve.unlink()
                write_release(config, account_of(config, session.made), noisy, release_id, folder.path)
                folder.finish()
                progress("released", 1.0)
                made = Release.read(out, config.catalog)
    return made, ledger


def default_ledger(data: DataSource) -> Path:
    """The ledger of a population whose data lie in a folder: beside that folder, under its name."""
    if isinstance(data, Mapping):
        raise PHSafeError("frames in memory have no place for a ledger beside them; name one with ledger=")
    if "://" in str(data):
        raise PHSafeError(f"{data}: a ledger can't stand beside such an address; name a file for it with --ledger")
    folder = Path(data).absolute()
    return folder.parent / f"{folder.name}.ledger"


def _prepare(
    config: Config, data: DataSource, out: Path, ledger_path: Path, options: EngineOptions, reading: ExitStack
) -> tuple[Account, Ledger, Source]:
    """All that can be checked before the work, every problem at once. The source is open until `reading` ends."""
    if not config.measurements():
        raise PHSafeError("every budget of the config is 0, so there is nothing to release; give one at least")
    reasons = Reasons()
    account = reasons.check(plan, config)
    source = reasons.check(reading.enter_context, open_source(data, options, config.reader))
    reasons.check(check_absent, out)
    reasons.settle()
    assert account is not None
    assert source is not None
    ledger, _ = Ledger.open_or_create(ledger_path, account.total.unbounded, config.privacy)
    ledger.check(account.total)
    return account, ledger, source


def _reserve(config: Config, out: Path, folder: Path) -> Path:
    """A file as large as the release can get: a disk that is too full says so before the charge."""
    rows = sum(len(grid.level_rows(config, output, level)) for output, levels in config.outputs() for level in levels)
    size = rows * ROW_BYTES + OTHER_BYTES
    reserve = folder / "reserve"
    try:
        with reserve.open("wb") as stream:
            stream.write(bytes(size))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise OutputError(
            f"{out}: expected room for {size} bytes on that disk, got none: "
            f"{error.strerror}; free some. Nothing was charged"
        ) from None
    return reserve


def _measure(session: Session, config: Config) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Every measurement of the plan, once."""
    for m in config.measurements():
        yield (m.tabulation.name, m.level.key), session.measure(m)


def write_release(config: Config, account: Account, noisy: grid.Counts, release_id: str, folder: Path) -> None:
    """Fill the folder, and check it as `phsafe check` will."""
    noise = noise_by_level(account)
    files = {}
    for output, _ in config.outputs():
        frame = grid.output_frame(config, output, noisy, noise)
        frame = frame.with_columns(VARIANCE=pl.Series([*map(repr, frame["VARIANCE"])]))
        path = write_table(folder, config.catalog, output, frame)
        files[str(path)] = hash_file(folder / path)
    versions = {part: version(part) for part in PARTS}
    write_manifest(folder, manifest_of(config, account, release_id, files, versions))
    found = problems(Release.read(folder, config.catalog))
    if found:
        raise OutputError([f"the release did not pass its own check: {problem}" for problem in found])
    _date(folder)


def _date(folder: Path) -> None:
    """Date everything to the start of the day: a finer time would say how long counting took, which the data decide."""
    day = int(time.time()) // 86_400 * 86_400
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (day, day))


@contextmanager
def _charged(account: Account) -> Iterator[None]:
    """Say with every problem after the charge that the loss stays charged."""
    stays = f"the loss of {text(account.total.unbounded)} was charged before noise was drawn and stays charged"
    try:
        yield
    except PHSafeError as error:
        raise PHSafeError([*error.reasons, stays]) from None
    except Exception as error:
        # Another library's text might hold a count.
        raise PHSafeError([f"an internal fault ({type(error).__name__}); please report it", stays]) from None


@contextmanager
def _stopped_in_words(out: Path) -> Iterator[None]:
    """Say to whoever stopped a release what became of it; the folder was not there before."""
    try:
        yield
    except KeyboardInterrupt:
        made = os.path.lexists(out)
        raise KeyboardInterrupt(
            f"{out} was charged already, so it was finished and is whole" if made else "nothing was charged"
        ) from None


def _plain(document: Any) -> Any:  # noqa: ANN401
    """A config as the ledger keeps it: numbers as texts with all their digits."""
    if isinstance(document, dict):
        return {key: _plain(value) for key, value in document.items()}
    return document if isinstance(document, str | int | list) else text(document)
