"""Full and read-only disks, and limits set by the system."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
from functools import partial
from pathlib import Path

from fault import fault, needs_root, refused
from place import CAP, Ending, Workspace, fill, sharing, small_disk, spilling

from phsafe.privacy.ledger import Ledger


@fault("an output disk that fills up")
def full_output(workspace: Workspace, rng: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(workspace.out_folder, 2000):
        ballast = fill(workspace.out_folder, rng.randrange(300_000))
        ending = workspace.run(workspace.release())
        ballast.unlink()
        if ending.code:
            refused(ending, "No space left", "disk space")
            assert workspace.ledger.charges() == () or "stays charged" in ending.output
            assert workspace.run(workspace.release()).code == 0
        shutil.rmtree(workspace.out())
    return [ending]


@fault("a full disk when the charge is written")
def full_ledger(workspace: Workspace, rng: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(workspace.ledger_folder, 300):
        ledger = Ledger.create(workspace.ledger_path, CAP)
        ballast = fill(workspace.ledger_folder, rng.randrange(12_000))
        ending = workspace.run(workspace.release())
        ballast.unlink()
        if ending.code == 3:  # Full when the hashes of the finished release are added.
            (charge,) = ledger.charges()
            assert charge.files is None and "is charged and complete" in ending.output, ending
        elif ending.code:
            refused(ending, "disk is full", "can't use the ledger")
            assert ledger.charges() == ()
        found = workspace.problems([ending])
        assert not found, found
    shutil.rmtree(workspace.out_folder)
    workspace.out_folder.mkdir()
    return [ending]


@fault("a full disk when the ledger is created")
def full_new_ledger(workspace: Workspace, rng: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(workspace.ledger_folder, 300):
        ballast = fill(workspace.ledger_folder, rng.randrange(30_000))
        ending = workspace.run(workspace.release())
        ballast.unlink()
        if ending.code:
            refused(ending, "disk is full", "can't use the ledger", "can't create the file")
            found = workspace.problems([ending])
            assert not found, found
    shutil.rmtree(workspace.out_folder)
    workspace.out_folder.mkdir()
    return [ending]


@fault("no disk space in the temporary folder")
def full_temp(workspace: Workspace, rng: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(workspace.temp, 64):
        ballast = fill(workspace.temp, rng.randrange(20_000))
        before, processes = rng.choice([(spilling, 1), (sharing, 2)])
        ending = workspace.run(workspace.release("out", "--temp-dir", workspace.temp, "--threads", processes), before)
        ballast.unlink()
        if ending.code:
            refused(ending, "temp", "disk space")
            assert workspace.ledger.charges() == ()
    return [ending]


@fault("a missing temporary folder")
def no_temp(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ending = workspace.run(workspace.release("out", "--temp-dir", str(workspace.root / f"none{rng.random()}")))
    refused(ending, "temporary folder")
    assert workspace.ledger.charges() == ()
    return [ending]


def _read_only(which: str, workspace: Workspace, rng: random.Random) -> list[Ending]:
    needs_root()
    folder = getattr(workspace, which)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    with small_disk(folder, 2000):
        for name, content in kept.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        ending = workspace.run(workspace.release("out", "--temp-dir", workspace.temp))
        refused(ending, "can't write", "not writable", "temporary folder")
        assert workspace.ledger.charges() == ()
    return [ending]


fault("a read-only output folder")(partial(_read_only, "out_folder"))
fault("a read-only ledger")(partial(_read_only, "ledger_folder"))
fault("a read-only temporary folder")(partial(_read_only, "temp"))


@fault("standard output on a full disk")
def full_stdout(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ending = workspace.run(workspace.release(), _stdout_full)
    assert workspace.out().exists()
    return [ending]


def _stdout_full() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


@fault("an engine memory limit that is too low")
def low_memory_limit(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ending = workspace.run(workspace.release("out", "--memory-limit", f"{rng.randrange(1, 3000)}KB"))
    if ending.code:
        refused(ending, "memory")
        assert workspace.ledger.charges() == ()
    return [ending]


@fault("too little memory for the process at any point of the run")
def little_memory(workspace: Workspace, rng: random.Random) -> list[Ending]:
    """Libraries may abort or panic with messages of their own; only our messages are checked."""
    ending = workspace.run(workspace.release(), partial(_limit_memory, rng.randrange(4, 400) * 2**20))
    ours = [line for line in ending.output.splitlines() if line.startswith("phsafe: ")]
    return [Ending(ending.code, "\n".join(ours).replace("internal error", "a fault"))]


def _limit_memory(more: int) -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


@fault("a file size limit, as with a quota")
def file_size(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ledger = workspace.ledger
    limit = rng.randrange(1, 200_000)
    ending = workspace.run(workspace.release(), partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)))
    if ending.code:
        assert ledger.charges() == () or "stays charged" in ending.output, ending
    return [ending]


@fault("a limit on open files")
def open_files(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ledger = workspace.ledger
    limit = rng.randrange(8, 120)
    ending = workspace.run(workspace.release(), partial(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, limit)))
    if ending.code == 1:
        assert ledger.charges() == () or "stays charged" in ending.output, ending
    return [ending]
