"""Faults of files damaged at a random offset, as after a power cut."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from fault import fault, refused
from place import Ending, Workspace

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _tear(file: Path, rng: random.Random) -> bytes:
    """Truncate a file, or zero or scramble a block, as a power cut may; return the original content."""
    content = file.read_bytes()
    offset, size = rng.randrange(len(content)), rng.choice([1, 512, 4096])
    torn = bytearray(content)
    damage = rng.randrange(3)
    torn[offset : offset + size if damage else None] = [b"", bytes(size), rng.randbytes(size)][damage]
    file.write_bytes(torn)
    return content


@fault("a ledger torn at a random offset")
def torn_ledger(workspace: Workspace, rng: random.Random) -> list[Ending]:
    assert workspace.run(workspace.release("before")).code == 0
    before = workspace.ledger.read()
    content = _tear(workspace.ledger_path, rng)
    shown = workspace.run(["ledger", "verify", str(workspace.ledger_path)])
    ending = workspace.run(workspace.release())
    if shown.code:
        refused(ending, "ledger")
        assert not workspace.out().exists()
        workspace.ledger_path.write_bytes(content)
        assert workspace.ledger.read() == before
    else:
        assert workspace.ledger.read().entries[: len(before.entries)] == before.entries
    return [shown, ending]


@fault("a ledger's journal torn at a random offset after kill -9 during a charge")
def torn_journal(workspace: Workspace, rng: random.Random) -> list[Ending]:
    ledger = workspace.ledger
    journal = workspace.ledger_path.with_name(f"{workspace.ledger_path.name}-journal")
    code = (
        "import sys, uuid; from fractions import Fraction; from phsafe.privacy.accountant import Loss;"
        "from phsafe.privacy.ledger import Ledger\n"
        "for _ in range(10**6):\n"
        "    Ledger(sys.argv[1]).charge(Loss('zcdp', Fraction(1), Fraction(2)), str(uuid.uuid4()), {})"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(workspace.ledger_path)], stderr=subprocess.PIPE)
    while len(ledger.charges()) < 3:
        time.sleep(0.01)
    while not journal.exists():
        pass
    process.kill()
    process.communicate()
    content = workspace.ledger_path.read_bytes()
    kept = journal.read_bytes() if journal.exists() else None
    if kept:
        _tear(journal, rng)
    shown = workspace.run(["ledger", "verify", str(workspace.ledger_path)])
    if shown.code:  # An operator restores both files.
        workspace.ledger_path.write_bytes(content)
        if kept:
            journal.write_bytes(kept)
        assert workspace.ledger.verify() == []
    return [Ending(-signal.SIGKILL, ""), shown]


@fault("a ledger's key torn at a random offset")
def torn_key(workspace: Workspace, rng: random.Random) -> list[Ending]:
    key = workspace.ledger.path.with_name(f"{workspace.ledger_path.name}.key")
    content = _tear(key, rng)
    ending = workspace.run(workspace.release())
    if key.read_bytes() != content:
        refused(ending, "key")
    key.write_bytes(content)
    return [ending]


def _torn_release(which: str, workspace: Workspace, rng: random.Random) -> list[Ending]:
    assert workspace.run(workspace.release()).code == 0
    file = rng.choice(sorted(workspace.out().glob(which)))
    content = _tear(file, rng)
    changed = not _same(file.read_bytes(), content)
    endings = [workspace.run(["check", str(workspace.out())])]
    endings += [workspace.run(["estimate", str(workspace.out()), str(workspace.out("tables"))])]
    for ending in endings:
        assert ending.code == changed, ending
    file.write_bytes(content)
    shutil.rmtree(workspace.out("tables"), ignore_errors=True)
    return endings


def _same(torn: bytes, content: bytes) -> bool:
    """Whether all verifiable content is unchanged; versions and the random id of a manifest can't be verified."""
    try:
        documents = [json.loads(part) for part in (torn, content)]
    except ValueError:
        return torn == content
    for document in documents:
        versions, release_id = document.pop("versions", {}), document.pop("release_id", "")
        if not all(isinstance(value, str) for value in versions.values()) or not UUID.fullmatch(release_id):
            return False
    return documents[0] == documents[1]


fault("a release's manifest torn at a random offset")(partial(_torn_release, "manifest.json"))
fault("a release's table torn at a random offset")(partial(_torn_release, "*/*.csv"))


@fault("an input file torn at a random offset")
def torn_input(workspace: Workspace, rng: random.Random) -> list[Ending]:
    """The input is refused, or counted if only complete lines are left."""
    intact, workspace.data = workspace.data, workspace.root / "data"
    shutil.copytree(intact, workspace.data)
    _tear(workspace.data / f"{rng.choice(['persons', 'units', 'geo'])}.csv", rng)
    arguments = [argument for argument in workspace.release() if argument != "--skip-validation"]
    ending = workspace.run(arguments)
    if ending.code:
        assert workspace.ledger.charges() == (), ending
    workspace.data = intact
    return [ending]


@fault("a config torn at a random offset")
def torn_config(workspace: Workspace, rng: random.Random) -> list[Ending]:
    content = _tear(workspace.config, rng)
    ending = workspace.run(workspace.release())
    workspace.config.write_bytes(content)
    return [ending]
