"""A workspace to inject faults in: data, config and ledger in one folder, commands run there, and checks afterwards."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from phsafe.errors import PHSafeError
from phsafe.privacy.ledger import Ledger
from phsafe.releases.release_folder import Release

ROOT = Path(__file__).resolve().parents[2]
#: Texts that no message to a user may contain.
FORBIDDEN = ("Traceback", "Exception ignored", "panicked", "internal error", "terminate called")
#: A command that takes longer than this has hung.
SECONDS = 300
HUNG = -99
CAP = Decimal(1_000_000)


class Ending(NamedTuple):
    """How a command ended: its exit code (negative for a signal) and its output."""

    code: int
    output: str


#: The suffix of the file beside a log that exists once its command has begun.
BEGUN = ".begun"


class Running:
    """A command running in a separate process."""

    def __init__(self, process: BaseProcess, log: Path) -> None:
        self._process, self._log = process, log

    def signal(self, number: int) -> None:
        """Send a signal if the command still runs; not before it has begun, when the bench itself would get it."""
        while self.alive and not self._log.with_suffix(BEGUN).exists():
            time.sleep(0.001)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid or 0, number)

    @property
    def alive(self) -> bool:
        """Whether the command still runs."""
        return self._process.is_alive()

    def end(self) -> Ending:
        """Wait for the command to end."""
        self._process.join(SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            return Ending(HUNG, f"the command hung: {self._log.read_text(errors='replace')}")
        return Ending(self._process.exitcode, self._log.read_text(errors="replace"))


class Workspace:
    """Everything that one repetition needs."""

    #: Seconds that a release takes on this machine; measured at the start of a run.
    release_seconds = 4.0

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.temp = root / "temp"
        self.temp.mkdir()
        self.ledger_folder = root / "ledgers"
        self.ledger_folder.mkdir()
        self.out_folder = root / "outputs"
        self.out_folder.mkdir()
        self.data = ROOT / "tests" / "data" / "small"
        self.config = root / "config.json"
        self.config.write_text(json.dumps(_document()))
        self._logs = root / "logs"
        self._logs.mkdir()
        self.ledger = Ledger.create(self.ledger_path, CAP)

    @property
    def ledger_path(self) -> Path:
        """The ledger's file."""
        return self.ledger_folder / "population.ledger"

    def forget_ledger(self) -> None:
        """Delete the ledger and its keys, so that the next release creates its own."""
        for file in self.ledger_folder.iterdir():
            file.unlink()

    def out(self, name: str = "out") -> Path:
        """The path of an output."""
        return self.out_folder / name

    def release(self, name: str = "out", *more: object) -> list[str]:
        """The arguments of a release command."""
        arguments = [
            "release",
            self.config,
            self.data,
            self.out(name),
            "--ledger",
            self.ledger_path,
            "--skip-validation",
            *([] if self.ledger_path.exists() else ["--new-ledger"]),
        ]
        return [*map(str, arguments), *map(str, more)]

    def start(self, arguments: list[str], before: Callable[[], object] | None = None) -> Running:
        """Start a command in a separate process, where `before` runs first."""
        log = self._logs / f"{len(list(self._logs.iterdir()))}.log"
        log.touch()
        process = _processes().Process(target=_command, args=(arguments, log, self.temp, before))
        process.start()
        return Running(process, log)

    def run(self, arguments: list[str], before: Callable[[], object] | None = None) -> Ending:
        """Run a command to its end."""
        return self.start(arguments, before).end()

    def shell(self, prefix: list[str], arguments: list[str], **environment: str) -> subprocess.Popen[str]:
        """Start the installed command under another program."""
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "phsafe", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"TMPDIR": str(self.temp)} | environment,
        )  # fmt: skip

    def problems(self, endings: list[Ending]) -> list[str]:
        """List all violated promises, now and after the next run, which must succeed."""
        found = [problem for ending in endings for problem in message_problems(ending)]
        found += self._charged_and_complete()
        name = "out" if not os.path.lexists(self.out()) else "next"
        after = self.run(self.release(name))
        if after.code:
            found.append(f"the next run ended with {after.code}: {after.output.strip()[-300:]}")
        found += self._charged_and_complete()
        left = [path.name for path in (*self.temp.iterdir(), *self.ledger_folder.iterdir())]
        left += [path.name for path in self.out_folder.iterdir() if path.name.startswith(".")]
        found += [
            f"{name} was left behind"
            for name in left
            if name not in (self.ledger_path.name, f"{self.ledger_path.name}.key", f"{self.ledger_path.name}.pub")
        ]
        return found

    def _charged_and_complete(self) -> Iterator[str]:
        """Check that outputs under final names are complete, releases were charged, and the ledger is intact."""
        if not self.ledger_path.exists():
            return
        ledger = Ledger(self.ledger_path)
        yield from ledger.verify()
        charged = {entry.release_id for entry in ledger.charges()}
        for path in self.out_folder.iterdir():
            if path.name.startswith(".") or (path / "NOT_PRIVATE").exists() or (path / "PUBLIC").exists():
                continue
            try:
                if Release.open(path).release_id not in charged:
                    yield f"{path.name} was published but not charged"
            except PHSafeError as error:
                yield f"{path.name} is incomplete: {error}"


def message_problems(ending: Ending) -> Iterator[str]:
    """List the problems with a command's exit code and output."""
    for text in FORBIDDEN:
        if text in ending.output and ending.code != HUNG:
            yield f"the output contains {text}: {ending.output.strip()[-300:]}"
    reasons = [line for line in ending.output.splitlines() if line.startswith("phsafe: ")]
    if ending.code > 0 and not reasons:
        yield f"the command ended with {ending.code} and gave no reason: {ending.output.strip()[-300:]}"
    if ending.code not in (0, 1, 3, 4, 130) and ending.code >= 0:
        yield f"the command ended with {ending.code}: {ending.output.strip()[-300:]}"
    if ending.code == HUNG:
        yield ending.output


def spilling() -> None:
    """Force rows through temporary files, even though there are few."""
    from phsafe.engines import partitions

    partitions.BUCKET_ROWS = 100


def sharing() -> None:
    """The same, with several workers."""
    from phsafe.engines import duckdb_engine

    spilling()
    duckdb_engine.PARALLEL_ROWS = 0


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a small disk at a folder for the duration of the context; needs root."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        for _ in range(50):
            if subprocess.run(["umount", folder], check=False, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)


def fill(folder: Path, leave: int) -> Path:
    """Fill a disk, leaving `leave` bytes free."""
    file = folder / "ballast"
    with file.open("wb") as stream, contextlib.suppress(OSError):
        stream.write(bytes(max(0, shutil.disk_usage(folder).free - leave)))
    return file


def _document() -> dict[str, object]:
    """The 2020 parameters for two states and two tabulations, so that a release takes well under a second."""
    document = json.loads((ROOT / "examples" / "us.json").read_text())
    kept = {"PH1_denom", "PH3"}
    budgets = {
        name: {key: budget if name in kept and key == "state_*" else 0 for key, budget in levels.items()}
        for name, levels in document["privacy_budget"].items()
    }
    return document | {"state_filter": ["44", "56"], "privacy_budget": budgets}


def _processes() -> multiprocessing.context.ForkServerContext:
    """A context for processes that have loaded the program but not started any threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["phsafe.cli.app", "phsafe.pipeline.calls", "opendp.measurements", "phsafe.engines.duckdb_engine"]
    )
    return context


def _command(arguments: list[str], log: Path, temp: Path, before: Callable[[], object] | None) -> None:
    """Run the command in this process, with its output in a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.dump_traceback_later(SECONDS - 10)
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # Until the command installs its handler, Ctrl-C ends the process silently.
    log.with_suffix(BEGUN).touch()
    tempfile.tempdir = None
    os.environ["TMPDIR"] = str(temp)
    os.environ["COLUMNS"] = "200"
    if before is not None:
        before()
    from phsafe.cli import main

    sys.argv = ["phsafe", *arguments]
    main()
