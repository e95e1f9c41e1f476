"""The runbook's story with real processes and, where the tests run as root, with another user as the auditor."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from phsafe.privacy.ledger import Ledger

ROOT = Path(__file__).resolve().parents[2]
CONFIG, DATA = ROOT / "examples" / "acs-ri.json", ROOT / "tests" / "data" / "small"
LOSS = "1.073554"
#: Another user of this machine, without any group or privilege.
STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]


def run(*words, prefix=(), code=0):
    command = [*prefix, sys.executable, "-m", "phsafe", *map(str, words)]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp"}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd="/", env=environment)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def auditor():
    """How to run a command as another user; as the same one where that isn't possible."""
    probe = [*STRANGER, sys.executable, "-c", "import phsafe.privacy.ledger"]
    if os.geteuid() == 0 and subprocess.run(probe, check=False, capture_output=True, cwd="/").returncode == 0:
        return STRANGER
    return []


@pytest.fixture
def desk():
    """A folder that every user of the machine can enter; the folders of pytest are for their owner."""
    folder = Path(tempfile.mkdtemp(prefix="phsafe-audit-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def hand_over(ledger, desk, name):
    """A copy for the auditor: the ledger and the public key."""
    copy = desk / name / ledger.name
    copy.parent.mkdir()
    copy.parent.chmod(0o755)
    for file, mode in ((ledger, 0o640), (Path(f"{ledger}.pub"), 0o644)):
        shutil.copyfile(file, copy.parent / file.name)
        (copy.parent / file.name).chmod(mode)
        if os.geteuid() == 0:
            os.chown(copy.parent / file.name, 65534, 65534)
    return copy


def test_another_user_audits_with_the_public_key_only(auditor, desk, tmp_path):
    """Release, corrected data refused, cap amended, second release, audit, and a rolled-back copy found."""
    ledger = tmp_path / "ri.ledger"
    words = ("--ledger", ledger, "--skip-validation")
    first = run("release", CONFIG, DATA, tmp_path / "first", *words, "--new-ledger", "--cap", "1.5")
    assert "Created the ledger" in first
    corrected = shutil.copytree(DATA, tmp_path / "corrected")
    refused = run("release", CONFIG, corrected, tmp_path / "second", *words, code=1)
    assert f"needs {LOSS} ρ, but 0.426446 of 1.5 ρ is left" in refused
    run("ledger", "amend", ledger, "--cap", "2.2", "--by", "the board", "--reason", "corrected data")
    old = hand_over(ledger, desk, "old")
    run("release", CONFIG, corrected, tmp_path / "second", *words)
    copy, head = hand_over(ledger, desk, "new"), Ledger.open(ledger).read().head

    verified = run("ledger", "verify", copy, "--head", head, prefix=auditor)
    assert f"complete and unmodified, releases: 2, head {head}" in verified
    published = desk / "second"
    shutil.copytree(tmp_path / "second", published)
    assert "which recorded these files" in run("check", published, "--ledger", copy, prefix=auditor)
    shown = run("ledger", "show", copy, "--json", prefix=auditor)
    assert '"corrected data"' in shown and '"the board"' in shown
    assert "complete and unmodified, releases: 1" in run("ledger", "verify", old, prefix=auditor)
    assert "an older copy" in run("ledger", "verify", old, "--head", head, prefix=auditor, code=1)
    assert "key is missing" in run("ledger", "note", copy, "--by", "auditor", "--text", "x", prefix=auditor, code=1), (
        "without the private key nothing can be added"
    )


def test_the_auditor_cannot_read_what_the_owner_keeps(auditor, desk):
    """File modes stop another user from opening the ledger itself and its key."""
    ledger = Ledger.create(desk / "ledger", 1)
    if not auditor:
        Path(f"{ledger.path}.key").unlink()
    message = run("ledger", "note", ledger.path, "--by", "x", "--text", "y", prefix=auditor, code=1)
    assert ("can't use the ledger: unable to open" if auditor else "key is missing") in message
    assert ledger.read().entries == ()
