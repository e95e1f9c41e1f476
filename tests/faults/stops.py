"""Being stopped or killed."""

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
from place import Ending, Place, sharing, spilling


def _signalled(
    number: int, place: Place, chance: random.Random, times: int = 1, before: Callable[[], None] | None = None
) -> list[Ending]:
    running = place.start(place.release(), before)
    # Processes that share the work take longer to start than the work takes.
    time.sleep(chance.uniform(0.0, 1.1) * place.usual * (2 if before else 1))
    for _ in range(times):
        running.signal(number)
        time.sleep(0.01 * (times > 1))
    ending = running.end()
    if ending.code == 1:
        assert "stopped" in ending.said, ending
        told_charged = "was charged already" in ending.said or "Released to" in ending.said
        assert told_charged == place.out().exists() == bool(place.book.entries()), ending
    return [ending]


for signal_name, title in (
    ("SIGKILL", "kill -9"),
    ("SIGTERM", "SIGTERM"),
    ("SIGINT", "Ctrl-C"),
    ("SIGHUP", "a closed terminal"),
):
    fault(f"{title} at a random moment of a release")(partial(_signalled, getattr(signal, signal_name)))
fault("SIGTERM three times in a row, at a random moment")(partial(_signalled, signal.SIGTERM, times=3))
fault("kill -9 while processes share the work")(partial(_signalled, signal.SIGKILL, before=sharing))
fault("Ctrl-C while processes share the work")(partial(_signalled, signal.SIGINT, before=sharing))


@fault("kill -9 between the charge and the name")
def killed_when_charged(place: Place, chance: random.Random) -> list[Ending]:
    book = place.book
    running = place.start(place.release())
    while running.alive and not book.entries():
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.05))
    running.signal(signal.SIGKILL)
    ending = running.end()
    assert len(book.entries()) == 1
    return [ending]


@fault("kill -9 of the first release while it makes the ledger")
def killed_making_the_ledger(place: Place, chance: random.Random) -> list[Ending]:
    place.forget_ledger()
    running = place.start(place.release())
    while running.alive and not any(place.ledger_folder.iterdir()):
        time.sleep(0.0005)
    time.sleep(chance.uniform(0, 0.02))
    running.signal(signal.SIGKILL)
    ending = running.end()
    if place.ledger.exists():  # Its cap is one release; the next run needs another.
        place.forget_ledger()
    return [ending]


@fault("kill -9 of a tabulation: exact counts half written, records in the temp folder")
def killed_tabulation(place: Place, chance: random.Random) -> list[Ending]:
    words = ["tabulate", str(place.config), str(place.data), str(place.out()), "--threads", "1"]
    running = place.start([*words, "--skip-validation"], spilling)
    time.sleep(chance.uniform(0.1, 0.9) * place.usual)
    running.signal(signal.SIGKILL)
    ending = running.end()
    for path in (*place.temp.iterdir(), *place.out_folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    if place.out().exists():
        shutil.rmtree(place.out())
    return [ending]


@fault("SIGTERM to all processes of a synth that uses several")
def stopped_synth(place: Place, chance: random.Random) -> list[Ending]:
    command = place.shell(["setsid"], ["synth", str(place.out()), "--households", "3000000", "--states", "06"])
    while command.poll() is None and not list(place.out_folder.glob(".out.*/units/06.parquet")):
        time.sleep(0.05)
    time.sleep(chance.uniform(0, 0.5))
    os.killpg(command.pid, signal.SIGTERM)
    said, _ = command.communicate(timeout=120)
    assert list(place.out_folder.iterdir()) == [], "something was left"
    return [Ending(command.returncode, said)]
