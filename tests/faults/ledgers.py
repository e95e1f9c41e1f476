"""One ledger among many processes, and clocks that jump."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

from fault import AbsentError, fault, needs_root
from place import Ending, Place

from phsafe.privacy.ledger import Ledger

#: Processes, host name and shared memory of its own.
MACHINE = ("unshare", "--pid", "--fork", "--kill-child", "--uts", "--ipc")


@fault("a clock that is years off, stands still or runs a thousand times too fast")
def clock(place: Place, chance: random.Random) -> list[Ending]:
    if shutil.which("faketime") is None:
        raise AbsentError("needs the program faketime (Debian package faketime)")
    when = f"{chance.choice('+-')}{chance.randrange(1, 40)}y"
    how = chance.choice([f"{when}", f"{when} x1000", "1971-01-01 00:00:00", f"{when} x0.001"])
    command = place.shell(["faketime", "-f", how], place.release(), FAKETIME_DONT_FAKE_MONOTONIC="1")
    said, _ = command.communicate(timeout=180)
    assert command.returncode == 0, said[-400:]
    return [Ending(command.returncode, said)]


@fault("a slow ledger: another process holds it for seconds")
def slow_ledger(place: Place, chance: random.Random) -> list[Ending]:
    book = place.book
    running = place.start(place.release())
    end = time.monotonic() + 2 * place.usual
    while running.alive and time.monotonic() < end:
        holder = sqlite3.connect(book.path, isolation_level=None, timeout=30)
        holder.execute("BEGIN EXCLUSIVE")
        time.sleep(chance.uniform(0.3, 1.5))
        holder.close()
        time.sleep(0.05)
    ending = running.end()
    assert ending.code == 0 and len(book.entries()) == 1, ending
    return [ending]


@fault("a ledger that another process never lets go, and Ctrl-C while waiting")
def locked_ledger(place: Place, chance: random.Random) -> list[Ending]:
    book = place.book
    holder = sqlite3.connect(book.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    running = place.start(place.release())
    time.sleep(place.usual + chance.uniform(0, 1))
    running.signal(signal.SIGINT)
    ending = running.end()
    holder.close()
    assert ending.code < 0 or "stopped" in ending.said, ending
    assert book.entries() == ()
    return [ending]


@fault("two machines' worth of processes at once, with room for half of them")
def two_machines(place: Place, chance: random.Random) -> list[Ending]:
    """Each machine is a namespace of its own: processes, host name, shared memory."""
    needs_root()
    assert place.run(place.release("first")).code == 0
    cost = place.book.entries()[0].loss.unbounded
    shutil.rmtree(place.out("first"))
    place.forget_ledger()
    Ledger.create(place.ledger, 2 * cost)
    commands = [
        place.shell(
            [*MACHINE, "sh", "-c", f'hostname m{i % 2}; exec "$@"', "sh"],
            place.release(f"out{i}"),
        )
        for i in range(4)
    ]  # fmt: skip
    said = [command.communicate()[0] for command in commands]
    endings = [Ending(command.returncode, text) for command, text in zip(commands, said, strict=True)]
    book = Ledger(place.ledger)
    assert sorted(ending.code for ending in endings) == [0, 0, 1, 1], endings
    assert book.left == 0 and book.verify() == []
    assert sorted(path.name for path in place.out_folder.iterdir() if path.is_dir()) == sorted(
        f"out{i}" for i, ending in enumerate(endings) if ending.code == 0
    )
    place.forget_ledger()
    shutil.rmtree(place.out_folder)
    place.out_folder.mkdir()
    return endings


@fault("many processes that make one ledger at once, some killed")
def made_at_once(place: Place, chance: random.Random) -> list[Ending]:
    code = (
        "import sys, uuid; from fractions import Fraction; from phsafe.privacy.accountant import Loss;"
        "from phsafe.privacy.ledger import Ledger; ledger, _ = Ledger.open_or_create(sys.argv[1], 1000000);"
        "print(ledger.charge(Loss('zcdp', Fraction(1), Fraction(2)), str(uuid.uuid4()), {}).release_id)"
    )
    place.forget_ledger()
    command = [sys.executable, "-c", code, str(place.ledger)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    for process in chance.sample(running, 3):
        threading.Timer(chance.uniform(0.1, 1.5), process.kill).start()
    said = [process.communicate(timeout=120) for process in running]
    charged = {entry.release_id for entry in Ledger(place.ledger).entries()}
    for process, (out, err) in zip(running, said, strict=True):
        assert process.returncode in (0, -signal.SIGKILL), err
        assert process.returncode or out.strip() in charged, "a confirmed charge is gone"
    return [Ending(process.returncode, "") for process in running]
