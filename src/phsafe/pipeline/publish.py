"""Publishing a release: only here exact counts meet noise. Reserve disk space, count, charge, add noise, verify, write.

Exact counts stay in memory. The whole privacy loss is on the ledger's disk before any noise is drawn (claim C12), and
it stays charged if something fails afterwards. The folder gets its final name only after it has passed verification.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.engines import EngineOptions, started
from phsafe.errors import ChargedError, FinishedError, OutputError, PHSafeError, Reasons
from phsafe.model.exact_numbers import dumps, text
from phsafe.pipeline.fingerprint import fingerprint_chunks
from phsafe.pipeline.release_ledger import LedgerChoice, open_ledger, population_of
from phsafe.pipeline.scan import Settings, Source, count_source, open_source
from phsafe.privacy.accountant import Account, account_of, noise_by_level, plan
from phsafe.privacy.ledger import Ledger
from phsafe.privacy.mechanism import Session, open_session
from phsafe.readers import DataSource
from phsafe.releases.file_layout import write_table
from phsafe.releases.manifest import MANIFEST, check_readable, hash_file, manifest_of, write_manifest
from phsafe.releases.provenance import made_with
from phsafe.releases.release_folder import Release
from phsafe.releases.verify import problems
from phsafe.system.atomic_writes import check_new_folder, draft
from phsafe.system.interrupts import FinishedInterrupt, keep_ignored, restored_interrupt, uninterrupted
from phsafe.system.progress import Progress, part, silent

#: Twice the most bytes that a row of a release takes; and room for the manifest and partly filled disk blocks.
ROW_BYTES = 200
OTHER_BYTES = 100_000


def publish(
    config: Config,
    data: DataSource,
    out: Path,
    ledger_choice: LedgerChoice,
    settings: Settings,
    options: EngineOptions | None = None,
    progress: Progress = silent,
) -> Release:
    """Publish a release.

    Args:
        config: The parameters.
        data: The confidential data.
        out: The release folder to write; it must not exist yet.
        ledger_choice: The population's ledger.
        settings: How to count.
        options: Which engine counts, and its settings.
        progress: Called with the current stage and the share of the work done.

    Returns:
        The release, opened.

    Raises:
        PHSafeError: The release was refused or failed. The message says whether its loss was charged.

    """
    if not settings.truncate:
        raise PHSafeError("a release is always truncated, because its noise is calibrated to the thresholds")
    with ExitStack() as stack:
        with started(options) as running, ExitStack() as reading:
            account, ledger, source = _prepare(config, data, out, ledger_choice, running, reading)
            stack.enter_context(explained_interrupt(out))
            # Reserve the name and the disk space before anything is charged.
            folder = stack.enter_context(draft(out, private=False))
            reserve = _reserve(config, out, folder.path)
            counts = count_source(config, source, settings, part(progress, 0.0, 0.85))
            chunks = fingerprint_chunks(data, running)
        progress("charging the ledger", 0.85)
        with uninterrupted():
            session = open_session(config, counts)
        release_id = str(uuid.uuid4())
        fingerprint = None if chunks is None else ledger.fingerprint(chunks)
        made = made_with(running.engine)
        details = {"config": _plain(config.to_production()), "settings": asdict(settings)}
        with ExitStack() as section:
            # An interrupt stops a release that waits for the ledger; once charged, a release is finished.
            locked = partial(section.enter_context, uninterrupted())
            ledger.charge(
                account.total, release_id, details, fingerprint, locked,
                population=population_of(config), max_rho=ledger_choice.max_rho,
            )  # fmt: skip
            with _charged(account, folder.path, out):
                tell = _undisturbed(progress)
                tell("adding noise", 0.9)
                noisy = {key: np.array(values, dtype=np.int64) for key, values in _measure(session, config)}
                tell("writing and checking", 0.95)
                reserve.unlink()
                taken = account_of(config, session.completed)
                files = write_release(config, taken, noisy, release_id, folder.path, made)
                folder.finish()
                with complete(out, "the hashes of its files could not be added to the ledger"):
                    ledger.finish(release_id, files)
                tell("released", 1.0)
                return Release.read(out)


def _prepare(
    config: Config, data: DataSource, out: Path, choice: LedgerChoice, options: EngineOptions, reading: ExitStack
) -> tuple[Account, Ledger, Source]:
    """Check all that can be checked before counting, and raise every problem together.

    The source stays open until `reading` ends.
    """
    if not config.measurements():
        raise PHSafeError("every budget of the config is 0, so there is nothing to release; set at least one above 0")
    reasons = Reasons()
    reasons.check(_check_geography, config)
    account = reasons.check(plan, config)
    source = reasons.check(reading.enter_context, open_source(data, options, config.reader))
    reasons.check(check_new_folder, out)
    reasons.settle()
    assert account is not None
    assert source is not None
    check_readable(config, account)
    return account, open_ledger(choice, config, account.total), source


def _check_geography(config: Config) -> None:
    """Refuse counts without the unit table if the reader takes a household's region from that table (assumption G)."""
    if config.reader == "cef" and config.counts_without_units:
        raise PHSafeError(
            "reader: expected csv, with a geo table of its own, for dropped persons and for the structured mode, got "
            "cef, which finds the region of a household through its unit; set those budgets to 0 and use another mode"
        )


def _reserve(config: Config, out: Path, folder: Path) -> Path:
    """Write a file as large as the release can become, so that a full disk is found before the charge."""
    rows = sum(grid.size(config, output) for output, _ in config.outputs())
    size = rows * ROW_BYTES + OTHER_BYTES + len(dumps(config.catalog.to_document()).encode())
    reserve = folder / "reserve"
    try:
        with reserve.open("wb") as stream:
            stream.write(bytes(size))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise OutputError(
            f"{out}: expected {size} bytes of free disk space, got an error: "
            f"{error.strerror}; free some space. Nothing was charged"
        ) from None
    return reserve


def _measure(session: Session, config: Config) -> Iterator[tuple[tuple[str, str], list[int]]]:
    """Take every measurement of the config once."""
    for m in config.measurements():
        yield (m.tabulation.name, m.level.key), session.measure(m)


def write_release(
    config: Config, account: Account, noisy: grid.Counts, release_id: str, folder: Path, made: Mapping[str, Any]
) -> dict[str, str]:
    """Write all files of a release, verify them as `phsafe check` does, and return the SHA-256 of each.

    `made` is what made it (`made_with`).
    """
    noise = noise_by_level(account)
    files = {}
    for output, _ in config.outputs():
        frame = grid.output_frame(config, output, noisy, noise)
        frame = frame.with_columns(VARIANCE=pl.Series([*map(repr, frame["VARIANCE"])]))
        path = write_table(folder, config.catalog, output, frame)
        files[str(path)] = hash_file(folder / path)
    write_manifest(folder, manifest_of(config, account, release_id, files, made))
    found = problems(Release.read(folder))
    if found:
        raise OutputError([f"the release failed its own verification: {problem}" for problem in found])
    _date(folder)
    return {**files, MANIFEST: hash_file(folder / MANIFEST)}


def _date(folder: Path) -> None:
    """Set all file times to the start of the day: finer times would reveal how long counting took."""
    day = int(time.time()) // 86_400 * 86_400
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, (day, day))


@contextmanager
def _charged(account: Account, draft_folder: Path, out: Path) -> Iterator[None]:
    """Add to every error after the charge that the loss stays charged, and whether the release is complete."""
    stays = f"the loss of {text(account.total.unbounded)} was charged before noise was drawn and stays charged"
    try:
        yield
    except FinishedError:
        raise
    except BaseException as error:  # A panic in Rust is not an `Exception`.
        if not os.path.lexists(draft_folder):  # It has its final name.
            with complete(out, "a step after it failed"):
                raise
        if isinstance(error, PHSafeError):
            raise ChargedError([*error.reasons, stays]) from None
        # The message of another library might contain a count.
        raise ChargedError([f"internal error ({type(error).__name__}); please report it", stays]) from None


@contextmanager
def complete(out: Path, failure: str) -> Iterator[None]:
    """Report every failure after a release as such, so that nothing repeats a release that is charged and complete."""
    try:
        yield
    except BaseException as error:
        raise FinishedError(
            f"{out} is charged and complete, but {failure} ({type(error).__name__}); do not repeat the release"
        ) from None


def _undisturbed(progress: Progress) -> Progress:
    """A progress callback whose failure, such as a closed pipe, doesn't cost a release that is charged."""

    def tell(stage: str, done: float) -> None:
        with suppress(Exception):
            progress(stage, done)

    return tell


@contextmanager
def explained_interrupt(out: Path) -> Iterator[None]:
    """Add to an interrupt whether the release was charged and finished.

    The folder appears under its final name only after the charge, so its name shows whether it was.
    """
    keep_ignored()
    existed = os.path.lexists(out)
    try:
        with restored_interrupt():
            yield
    except FinishedInterrupt:
        raise
    except KeyboardInterrupt:
        if os.path.lexists(out) and not existed:
            raise FinishedInterrupt(f"{out} was already charged, so it was finished and is complete") from None
        raise KeyboardInterrupt("nothing was charged") from None


def _plain(document: Any) -> Any:  # noqa: ANN401
    """Convert a config for the ledger: numbers become text with all their digits."""
    if isinstance(document, dict):
        return {key: _plain(value) for key, value in document.items()}
    return document if isinstance(document, str | int | list) else text(document)
