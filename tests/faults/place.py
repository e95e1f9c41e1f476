"""A place to break things in: one folder with data, config and ledger, commands run in it, and what must hold after."""

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
from phsafe.folder import Release
from phsafe.privacy.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
#: What no message to a user may hold.
NOISE = ("Traceback", "Exception ignored", "panicked", "internal fault", "terminate called")
#: A command that takes longer than this has hung.
SECONDS = 300
HUNG = -99
CAP = Decimal(1_000_000)


class Ending(NamedTuple):
    """How a command ended: its exit code (a signal's number below 0) and all that it said."""

    code: int
    said: str


class Running:
    """A command in a process of its own."""

    def __init__(self, process: BaseProcess, log: Path) -> None:
        self._process, self._log = process, log

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid or 0, number)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.is_alive()

    def end(self) -> Ending:
        """Wait for the end."""
        self._process.join(SECONDS)
        if self._process.exitcode is None:
            self._process.kill()
            return Ending(HUNG, f"it hung: {self._log.read_text(errors='replace')}")
        return Ending(self._process.exitcode, self._log.read_text(errors="replace"))


class Place:
    """Everything that one repetition needs."""

    #: Seconds that a release takes here; the run measures it.
    usual = 4.0

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
        self.book = Ledger.create(self.ledger, CAP)

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.ledger_folder / "population.ledger"

    def forget_ledger(self) -> None:
        """Take the ledger and its key away: the next release makes its own."""
        for file in self.ledger_folder.iterdir():
            file.unlink()

    def out(self, name: str = "out") -> Path:
        """An output's name."""
        return self.out_folder / name

    def release(self, name: str = "out", *more: object) -> list[str]:
        """The words of a release."""
        words = [
            "release",
            self.config,
            self.data,
            self.out(name),
            "--ledger",
            self.ledger,
            "--skip-validation",
        ]
        return [*map(str, words), *map(str, more)]

    def start(self, words: list[str], before: Callable[[], object] | None = None) -> Running:
        """Start a command; `before` runs first, in its process."""
        log = self._logs / f"{len(list(self._logs.iterdir()))}.log"
        log.touch()
        process = _processes().Process(target=_command, args=(words, log, self.temp, before))
        process.start()
        return Running(process, log)

    def run(self, words: list[str], before: Callable[[], object] | None = None) -> Ending:
        """Run a command to its end."""
        return self.start(words, before).end()

    def shell(self, prefix: list[str], words: list[str], **environment: str) -> subprocess.Popen[str]:
        """Start the installed command under another program."""
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "phsafe", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=os.environ | {"TMPDIR": str(self.temp)} | environment,
        )  # fmt: skip

    def problems(self, endings: list[Ending]) -> list[str]:
        """Everything that does not hold: now, and after the next run, which must work."""
        found = [problem for ending in endings for problem in message_problems(ending)]
        found += self._charged_and_whole()
        name = "out" if not os.path.lexists(self.out()) else "next"
        after = self.run(self.release(name))
        if after.code:
            found.append(f"the next run ended with {after.code}: {after.said.strip()[-300:]}")
        found += self._charged_and_whole()
        left = [path.name for path in (*self.temp.iterdir(), *self.ledger_folder.iterdir())]
        left += [path.name for path in self.out_folder.iterdir() if path.name.startswith(".")]
        found += [f"{name} was left" for name in left if name not in (self.ledger.name, f"{self.ledger.name}.key")]
        return found

    def _charged_and_whole(self) -> Iterator[str]:
        """Every output under its final name is whole, and every release was charged; the ledger is untouched."""
        if not self.ledger.exists():
            return
        book = Ledger(self.ledger)
        yield from book.verify()
        charged = {entry.release_id for entry in book.entries()}
        for path in self.out_folder.iterdir():
            if path.name.startswith(".") or (path / "NOT_PRIVATE").exists() or (path / "PUBLIC").exists():
                continue
            try:
                if Release.open(path).release_id not in charged:
                    yield f"{path.name} was published and not charged"
            except PHSafeError as error:
                yield f"{path.name} is half a release: {error}"


def message_problems(ending: Ending) -> Iterator[str]:
    """What is wrong with how a command ended and what it said."""
    for noise in NOISE:
        if noise in ending.said and ending.code != HUNG:
            yield f"it said {noise}: {ending.said.strip()[-300:]}"
    told = [line for line in ending.said.splitlines() if line.startswith("phsafe: ")]
    if ending.code == 1 and not told:
        yield f"it ended with 1 and no word about why: {ending.said.strip()[-300:]}"
    if ending.code not in (0, 1) and ending.code >= 0:
        yield f"it ended with {ending.code}: {ending.said.strip()[-300:]}"
    if ending.code == HUNG:
        yield ending.said


def spilling() -> None:
    """Have rows go through temporary files, though they are few."""
    from phsafe.engines import duckdb

    duckdb.BUCKET_ROWS = 100


def sharing() -> None:
    """The same, by several processes."""
    from phsafe.engines import duckdb

    spilling()
    duckdb.PARALLEL_ROWS = 0


@contextlib.contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A disk of its own at a folder, for as long as the context lasts; for root only."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        for _ in range(50):
            if subprocess.run(["umount", folder], check=False, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)


def fill(folder: Path, leave: int) -> Path:
    """Fill a disk up to some bytes."""
    file = folder / "ballast"
    with file.open("wb") as stream, contextlib.suppress(OSError):
        stream.write(bytes(max(0, shutil.disk_usage(folder).free - leave)))
    return file


def _document() -> dict[str, object]:
    """The 2020 parameters for two states and two tabulations: a release in well under a second."""
    document = json.loads((ROOT / "examples" / "us.json").read_text())
    kept = {"PH1_denom", "PH3"}
    budgets = {
        name: {key: budget if name in kept and key == "state_*" else 0 for key, budget in levels.items()}
        for name, levels in document["privacy_budget"].items()
    }
    return document | {"state_filter": ["44", "56"], "privacy_budget": budgets}


def _processes() -> multiprocessing.context.ForkServerContext:
    """Processes that have loaded the program but started nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["phsafe.cli.app", "phsafe.api", "opendp.prelude", "phsafe.engines.duckdb"])
    return context


def _command(words: list[str], log: Path, temp: Path, before: Callable[[], object] | None) -> None:
    """The command in this process, with what it says in a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    faulthandler.dump_traceback_later(SECONDS - 10)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Until the command takes it, Python has nothing to add.
    tempfile.tempdir = None
    os.environ["TMPDIR"] = str(temp)
    os.environ["COLUMNS"] = "200"
    if before is not None:
        before()
    from phsafe.cli import main

    sys.argv = ["phsafe", *words]
    main()
