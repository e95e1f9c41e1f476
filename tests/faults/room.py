"""Full and read-only disks, and the limits that a system sets."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
from functools import partial
from pathlib import Path

from fault import fault, needs_root, refused
from place import CAP, Ending, Place, fill, sharing, small_disk, spilling

from phsafe.privacy.ledger import Ledger


@fault("a disk that fills up under the output")
def full_output(place: Place, chance: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(place.out_folder, 2000):
        ballast = fill(place.out_folder, chance.randrange(300_000))
        ending = place.run(place.release())
        ballast.unlink()
        if ending.code:
            refused(ending, "No space left", "room")
            assert place.book.entries() == () or "stays charged" in ending.said
            assert place.run(place.release()).code == 0
        shutil.rmtree(place.out())
    return [ending]


@fault("a disk that is full when the charge is written")
def full_ledger(place: Place, chance: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(place.ledger_folder, 300):
        book = Ledger.create(place.ledger, CAP)
        ballast = fill(place.ledger_folder, chance.randrange(12_000))
        ending = place.run(place.release())
        ballast.unlink()
        if ending.code:
            refused(ending, "disk is full", "can't use the ledger")
            assert book.entries() == ()
        found = place.problems([ending])
        assert not found, found
    shutil.rmtree(place.out_folder)
    place.out_folder.mkdir()
    return [ending]


@fault("a disk that is full when the ledger is made")
def full_new_ledger(place: Place, chance: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(place.ledger_folder, 300):
        ballast = fill(place.ledger_folder, chance.randrange(30_000))
        ending = place.run(place.release())
        ballast.unlink()
        if ending.code:
            refused(ending, "disk is full", "can't use the ledger", "can't make the file")
            found = place.problems([ending])
            assert not found, found
    shutil.rmtree(place.out_folder)
    place.out_folder.mkdir()
    return [ending]


@fault("no room in the temp folder")
def full_temp(place: Place, chance: random.Random) -> list[Ending]:
    needs_root()
    with small_disk(place.temp, 64):
        ballast = fill(place.temp, chance.randrange(20_000))
        before, processes = chance.choice([(spilling, 1), (sharing, 2)])
        ending = place.run(place.release("out", "--temp-dir", place.temp, "--threads", processes), before)
        ballast.unlink()
        if ending.code:
            refused(ending, "temp", "room")
            assert place.book.entries() == ()
    return [ending]


@fault("a temp folder that is not there")
def no_temp(place: Place, chance: random.Random) -> list[Ending]:
    ending = place.run(place.release("out", "--temp-dir", str(place.root / f"none{chance.random()}")))
    refused(ending, "temporary folder")
    assert place.book.entries() == ()
    return [ending]


def _read_only(which: str, place: Place, chance: random.Random) -> list[Ending]:
    needs_root()
    folder = getattr(place, which)
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    with small_disk(folder, 2000):
        for name, content in kept.items():
            (folder / name).write_bytes(content)
            (folder / name).chmod(0o600)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        ending = place.run(place.release("out", "--temp-dir", place.temp))
        refused(ending, "can't write", "can't be written", "temporary folder")
        assert place.book.entries() == ()
    return [ending]


fault("a read-only folder for the output")(partial(_read_only, "out_folder"))
fault("a read-only ledger")(partial(_read_only, "ledger_folder"))
fault("a read-only temp folder")(partial(_read_only, "temp"))


@fault("standard output on a full disk")
def full_stdout(place: Place, chance: random.Random) -> list[Ending]:
    ending = place.run(place.release(), _stdout_full)
    assert place.out().exists()
    return [ending]


def _stdout_full() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


@fault("a memory limit of the engine that is too low")
def low_memory_limit(place: Place, chance: random.Random) -> list[Ending]:
    ending = place.run(place.release("out", "--memory-limit", f"{chance.randrange(1, 3000)}KB"))
    if ending.code:
        refused(ending, "memory")
        assert place.book.entries() == ()
    return [ending]


@fault("too little memory for the process, at any point of the run")
def little_memory(place: Place, chance: random.Random) -> list[Ending]:
    """Libraries abort or panic in words of their own; ours are demanded where ours is the last word."""
    ending = place.run(place.release(), partial(_limit_memory, chance.randrange(4, 400) * 2**20))
    ours = [line for line in ending.said.splitlines() if line.startswith("phsafe: ")]
    return [Ending(ending.code, "\n".join(ours).replace("an internal fault", "a fault"))]


def _limit_memory(more: int) -> None:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


@fault("a limit on the size of files, as a quota has")
def file_size(place: Place, chance: random.Random) -> list[Ending]:
    book = place.book
    limit = chance.randrange(1, 200_000)
    ending = place.run(place.release(), partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)))
    if ending.code:
        assert book.entries() == () or "stays charged" in ending.said, ending
    return [ending]


@fault("a limit on open files")
def open_files(place: Place, chance: random.Random) -> list[Ending]:
    book = place.book
    limit = chance.randrange(8, 120)
    ending = place.run(place.release(), partial(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, limit)))
    if ending.code == 1:
        assert book.entries() == () or "stays charged" in ending.said, ending
    return [ending]
