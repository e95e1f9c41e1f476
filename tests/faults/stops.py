"""Faults of being stopped or killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import time
from collections.abc import Callable
from functools import partial

from fault import fault
from place import Ending, Workspace, sharing, spilling


def _signalled(
    number: int, workspace: Workspace, rng: random.Random, times: int = 1, before: Callable[[], None] | None = None
) -> list[Ending]:
    running = workspace.start(workspace.release(), before)
    # Workers take longer to start than the work takes.
    time.sleep(rng.uniform(0.0, 1.1) * workspace.release_seconds * (2 if before else 1))
    for _ in range(times):
        running.signal(number)
        time.sleep(0.01 * (times > 1))
    ending = running.end()
    if ending.code > 0:
        assert ending.code in (3, 130) and "stopped" in ending.output, ending
        finished = ending.code == 3
        assert finished == workspace.out().exists() == bool(workspace.ledger.charges()), ending
    return [ending]


for signal_name, title in (
    ("SIGKILL", "kill -9"),
    ("SIGTERM", "SIGTERM"),
    ("SIGINT", "Ctrl-C"),
    ("SIGHUP", "a closed terminal"),
):
    fault(f"{title} at a random moment of a release")(partial(_signalled, getattr(signal, signal_name)))
fault("SIGTERM three times in a row, at a random moment")(partial(_signalled, signal.SIGTERM, times=3))
fault("kill -9 while several workers run")(partial(_signalled, signal.SIGKILL, before=sharing))
fault("Ctrl-C while several workers run")(partial(_signalled, signal.SIGINT, before=sharing))


@fault("kill -9 between the charge and the rename")
def killed_when_charged(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ledger = workspace.ledger
    running = workspace.start(workspace.release())
    while running.alive and not ledger.charges():
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.05))
    running.signal(signal.SIGKILL)
    ending = running.end()
    assert len(ledger.charges()) == 1
    return [ending]


@fault("kill -9 of the first release while it creates the ledger")
def killed_creating_the_ledger(workspace: Workspace, rng: random.Random) -> list[Ending]:
    workspace.forget_ledger()
    running = workspace.start(workspace.release())
    while running.alive and not any(workspace.ledger_folder.iterdir()):
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, 0.02))
    running.signal(signal.SIGKILL)
    ending = running.end()
    if workspace.ledger_path.exists():  # Its cap allows one release; the next run needs a new ledger.
        workspace.forget_ledger()
    return [ending]


@fault("kill -9 of a tabulation with partial exact counts and records in the temporary folder")
def killed_tabulation(workspace: Workspace, rng: random.Random) -> list[Ending]:
    arguments = ["tabulate", str(workspace.config), str(workspace.data), str(workspace.out()), "--threads", "1"]
    running = workspace.start([*arguments, "--skip-validation"], spilling)
    time.sleep(rng.uniform(0.1, 0.9) * workspace.release_seconds)
    running.signal(signal.SIGKILL)
    ending = running.end()
    for path in (*workspace.temp.iterdir(), *workspace.out_folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    if workspace.out().exists():
        shutil.rmtree(workspace.out())
    return [ending]


@fault("SIGTERM to all processes of a parallel synth")
def stopped_synth(workspace: Workspace, rng: random.Random) -> list[Ending]:
    command = workspace.shell(["setsid"], ["synth", str(workspace.out()), "--households", "3000000", "--states", "06"])
    while command.poll() is None and not list(workspace.out_folder.glob(".out.*/units/06.parquet")):
        time.sleep(0.05)
    time.sleep(rng.uniform(0, 0.5))
    os.killpg(command.pid, signal.SIGTERM)
    output, _ = command.communicate(timeout=120)
    assert list(workspace.out_folder.iterdir()) == [], "something was left behind"
    return [Ending(command.returncode, output)]
