"""Scratch folders last as long as their process, however it ends."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from phsafe.system import scratch
from phsafe.system.scratch import ScratchFolder, sweep

PREFIX = "phsafe-temp-"
HOLD = """
import sys
from pathlib import Path
from phsafe.system.scratch import ScratchFolder
scratch = ScratchFolder(Path(sys.argv[1]), "phsafe-temp-")
(scratch.path / "records.tmp").write_text("confidential")
print(scratch.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds a scratch folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, tmp_path / Path(process.stdout.readline().strip()).name
        process.kill()


def test_it_is_private_and_removable(tmp_path):
    before = os.umask(0o277)
    try:
        folder = ScratchFolder(tmp_path, PREFIX)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    (folder.path / "a").mkdir()
    folder.remove()
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_process_are_swept_and_folders_in_use_are_not(tmp_path, holder):
    process, folder = holder
    assert sweep(tmp_path, PREFIX) == [folder]
    assert (folder / "records.tmp").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sweep(tmp_path, PREFIX) == []
    assert not folder.exists()


def test_other_files_and_folders_are_not_swept(tmp_path):
    here = "".join(scratch._machine_tags())
    unrelated = ["phsafe-demo", "phsafe-temp-mine", f"{PREFIX}{here}{'g' * 16}", f"other-{here}{'0' * 16}"]
    for name in unrelated:
        (tmp_path / name).mkdir()
    elsewhere = tmp_path / f"{PREFIX}{'0' * 16}{'0' * 16}"  # another machine's
    elsewhere.mkdir()
    (tmp_path / "precious").mkdir()
    link, file = tmp_path / f"{PREFIX}{here}{'1' * 16}", tmp_path / f"{PREFIX}{here}{'2' * 16}"
    link.symlink_to(tmp_path / "precious")
    file.write_text("mine")
    assert sweep(tmp_path, PREFIX) == []
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {*unrelated, elsewhere.name, "precious", link.name, file.name}
    assert sweep(tmp_path / "nowhere", PREFIX) == []


def test_restarts_and_containers_count_as_the_same_machine(tmp_path, monkeypatch):
    host, boot = scratch._machine_tags()
    for i, tag in enumerate((host + "0" * 8, "0" * 8 + boot)):
        (tmp_path / f"{PREFIX}{tag}{i:016x}").mkdir()
    assert sweep(tmp_path, PREFIX) == []
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(scratch, "_BOOT", tmp_path / "absent")
    assert scratch._machine_tags() == (scratch._short(socket.gethostname()),) * 2


def test_without_locks_nothing_is_swept(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(scratch.fcntl, "flock", refuse)
    folder = ScratchFolder(tmp_path, PREFIX)
    assert sweep(tmp_path, PREFIX) == []
    assert folder.path.exists()


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
def test_a_sweep_between_creating_and_locking(tmp_path, monkeypatch, moment):
    """The folder is removed before it is locked, so another one is created."""
    original, times = scratch._open, []

    def open_late(path):
        times.append(path)
        if len(times) == 1 and moment == "before it is opened":
            path.rmdir()
        descriptor = original(path)
        if len(times) == 1:
            path.rmdir()
        return descriptor

    monkeypatch.setattr(scratch, "_open", open_late)
    folder = ScratchFolder(tmp_path, PREFIX)
    assert folder.path == times[1] and folder.path.exists()
    monkeypatch.setattr(scratch, "_is_same", lambda *_: False)
    with pytest.raises(FileExistsError):
        ScratchFolder(tmp_path, PREFIX)
