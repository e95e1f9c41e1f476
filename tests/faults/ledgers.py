"""Faults of a ledger shared by many processes, and of clocks."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time

from fault import UnavailableError, fault, needs_root
from place import Ending, Workspace

from phsafe.privacy.ledger import Ledger

#: Runs a command in namespaces of its own: processes, host name and shared memory.
MACHINE = ("unshare", "--pid", "--fork", "--kill-child", "--uts", "--ipc")


@fault("a clock that is years off, stopped or a thousand times too fast")
def clock(workspace: Workspace, rng: random.Random) -> list[Ending]:
    if shutil.which("faketime") is None:
        raise UnavailableError("needs the program faketime (Debian package faketime)")
    when = f"{rng.choice('+-')}{rng.randrange(1, 40)}y"
    how = rng.choice([f"{when}", f"{when} x1000", "1971-01-01 00:00:00", f"{when} x0.001"])
    command = workspace.shell(["faketime", "-f", how], workspace.release(), FAKETIME_DONT_FAKE_MONOTONIC="1")
    output, _ = command.communicate(timeout=180)
    assert command.returncode == 0, output[-400:]
    return [Ending(command.returncode, output)]


@fault("a slow ledger: another process holds it for seconds")
def slow_ledger(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ledger = workspace.ledger
    running = workspace.start(workspace.release())
    end = time.monotonic() + 2 * workspace.release_seconds
    while running.alive and time.monotonic() < end:
        holder = sqlite3.connect(ledger.path, isolation_level=None, timeout=30)
        holder.execute("BEGIN EXCLUSIVE")
        time.sleep(rng.uniform(0.3, 1.5))
        holder.close()
        time.sleep(0.05)
    ending = running.end()
    assert ending.code == 0 and len(ledger.charges()) == 1, ending
    return [ending]


@fault("a ledger locked forever by another process, and Ctrl-C while waiting")
def locked_ledger(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ledger = workspace.ledger
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    running = workspace.start(workspace.release())
    time.sleep(workspace.release_seconds + rng.uniform(0, 1))
    running.signal(signal.SIGINT)
    ending = running.end()
    holder.close()
    assert ending.code < 0 or "stopped" in ending.output, ending
    assert ledger.charges() == ()
    return [ending]


@fault("concurrent releases on two machines, with budget for half of them")
def two_machines(workspace: Workspace, rng: random.Random) -> list[Ending]:
    """Each machine is simulated by separate namespaces: processes, host name, shared memory."""
    needs_root()
    assert workspace.run(workspace.release("first")).code == 0
    cost = workspace.ledger.charges()[0].loss.unbounded
    shutil.rmtree(workspace.out("first"))
    workspace.forget_ledger()
    Ledger.create(workspace.ledger_path, 2 * cost)
    commands = [
        workspace.shell(
            [*MACHINE, "sh", "-c", f'hostname m{i % 2}; exec "$@"', "sh"],
            workspace.release(f"out{i}"),
        )
        for i in range(4)
    ]  # fmt: skip
    outputs = [command.communicate()[0] for command in commands]
    endings = [Ending(command.returncode, text) for command, text in zip(commands, outputs, strict=True)]
    ledger = Ledger(workspace.ledger_path)
    assert sorted(ending.code for ending in endings) == [0, 0, 1, 1], endings
    assert ledger.read().left == 0 and ledger.verify() == []
    assert sorted(path.name for path in workspace.out_folder.iterdir() if path.is_dir()) == sorted(
        f"out{i}" for i, ending in enumerate(endings) if ending.code == 0
    )
    workspace.forget_ledger()
    shutil.rmtree(workspace.out_folder)
    workspace.out_folder.mkdir()
    return endings


@fault("many processes creating one ledger concurrently, some killed")
def created_concurrently(workspace: Workspace, rng: random.Random) -> list[Ending]:
    code = (
        "import sys, uuid\nfrom fractions import Fraction\nfrom phsafe.privacy.accountant import Loss\n"
        "from phsafe.privacy.ledger import Ledger, LedgerError\n"
        "try:\n    ledger = Ledger.create(sys.argv[1], 1000000)\n"
        "except LedgerError:\n    ledger = Ledger.open(sys.argv[1])\n"
        "entry = ledger.charge(Loss('zcdp', Fraction(1), Fraction(2)), str(uuid.uuid4()), {})\n"
        "print(entry.fields['release_id'])"
    )
    workspace.forget_ledger()
    command = [sys.executable, "-c", code, str(workspace.ledger_path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(8)]
    for process in rng.sample(running, 3):
        threading.Timer(rng.uniform(0.1, 1.5), process.kill).start()
    outputs = [process.communicate(timeout=120) for process in running]
    charged = {entry.release_id for entry in Ledger(workspace.ledger_path).charges()}
    for process, (out, err) in zip(running, outputs, strict=True):
        assert process.returncode in (0, -signal.SIGKILL), err
        assert process.returncode or out.strip() in charged, "a confirmed charge was lost"
    return [Ending(process.returncode, "") for process in running]
