"""Files torn at a random offset, as after a power cut."""

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
from place import Ending, Place

UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _tear(file: Path, chance: random.Random) -> bytes:
    """Cut a file off, or zero or scramble a block, as a power cut may; returns what it was."""
    content = file.read_bytes()
    place, size = chance.randrange(len(content)), chance.choice([1, 512, 4096])
    torn = bytearray(content)
    kind = chance.randrange(3)
    torn[place : place + size if kind else None] = [b"", bytes(size), chance.randbytes(size)][kind]
    file.write_bytes(torn)
    return content


@fault("a ledger torn at a random offset")
def torn_ledger(place: Place, chance: random.Random) -> list[Ending]:
    assert place.run(place.release("before")).code == 0
    before = place.book.read()
    content = _tear(place.ledger, chance)
    shown = place.run(["ledger", "verify", str(place.ledger)])
    ending = place.run(place.release())
    if shown.code:
        refused(ending, "ledger")
        assert not place.out().exists()
        place.ledger.write_bytes(content)
        assert place.book.read() == before
    else:
        assert place.book.entries()[: len(before.entries)] == before.entries
    return [shown, ending]


@fault("a ledger's journal torn at a random offset after kill -9 in a charge")
def torn_journal(place: Place, chance: random.Random) -> list[Ending]:
    book = place.book
    journal = place.ledger.with_name(f"{place.ledger.name}-journal")
    code = (
        "import sys, uuid; from fractions import Fraction; from phsafe.privacy.accountant import Loss;"
        "from phsafe.privacy.ledger import Ledger\n"
        "for _ in range(10**6):\n"
        "    Ledger(sys.argv[1]).charge(Loss('zcdp', Fraction(1), Fraction(2)), str(uuid.uuid4()), {})"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(place.ledger)], stderr=subprocess.PIPE)
    while len(book.entries()) < 3:
        time.sleep(0.01)
    while not journal.exists():
        pass
    process.kill()
    process.communicate()
    content = place.ledger.read_bytes()
    kept = journal.read_bytes() if journal.exists() else None
    if kept:
        _tear(journal, chance)
    shown = place.run(["ledger", "verify", str(place.ledger)])
    if shown.code:  # A person puts both files back as they were.
        place.ledger.write_bytes(content)
        if kept:
            journal.write_bytes(kept)
        assert place.book.verify() == []
    return [Ending(-signal.SIGKILL, ""), shown]


@fault("a ledger's key torn at a random offset")
def torn_key(place: Place, chance: random.Random) -> list[Ending]:
    key = place.book.path.with_name(f"{place.ledger.name}.key")
    content = _tear(key, chance)
    ending = place.run(place.release())
    if key.read_bytes() != content:
        refused(ending, "key")
    key.write_bytes(content)
    return [ending]


def _torn_release(which: str, place: Place, chance: random.Random) -> list[Ending]:
    assert place.run(place.release()).code == 0
    file = chance.choice(sorted(place.out().glob(which)))
    content = _tear(file, chance)
    changed = not _same(file.read_bytes(), content)
    endings = [place.run(["check", str(place.out())])]
    endings += [place.run(["estimate", str(place.out()), str(place.out("tables"))])]
    for ending in endings:
        assert ending.code == changed, ending
    file.write_bytes(content)
    shutil.rmtree(place.out("tables"), ignore_errors=True)
    return endings


def _same(torn: bytes, content: bytes) -> bool:
    """Whether nothing was changed that anybody could check: versions and the random id are the manifest's own word."""
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
def torn_input(place: Place, chance: random.Random) -> list[Ending]:
    """What is read is refused in words, or (a whole number of lines is left) counted."""
    whole, place.data = place.data, place.root / "data"
    shutil.copytree(whole, place.data)
    _tear(place.data / f"{chance.choice(['persons', 'units', 'geo'])}.csv", chance)
    words = [word for word in place.release() if word != "--skip-validation"]
    ending = place.run(words)
    if ending.code:
        assert place.book.entries() == (), ending
    place.data = whole
    return [ending]


@fault("a config torn at a random offset")
def torn_config(place: Place, chance: random.Random) -> list[Ending]:
    content = _tear(place.config, chance)
    ending = place.run(place.release())
    place.config.write_bytes(content)
    return [ending]
