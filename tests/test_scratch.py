"""Folders that last as long as their process, however it ends."""

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from phsafe import scratch
from phsafe.scratch import ScratchFolder, sweep

KIND = "phsafe-temp-"
HOLD = """
import sys
from pathlib import Path
from phsafe.scratch import ScratchFolder
made = ScratchFolder(Path(sys.argv[1]), "phsafe-temp-")
(made.path / "records.tmp").write_text("confidential")
print(made.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds a folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process, tmp_path / Path(process.stdout.readline().strip()).name
        process.kill()


def test_it_is_the_owner_s_and_goes(tmp_path):
    before = os.umask(0o277)
    try:
        made = ScratchFolder(tmp_path, KIND)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    (made.path / "a").mkdir()
    made.remove()
    made.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept_and_what_a_living_one_holds_is_not(tmp_path, holder):
    process, folder = holder
    assert sweep(tmp_path, KIND) == [folder]
    assert (folder / "records.tmp").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sweep(tmp_path, KIND) == []
    assert not folder.exists()


def test_nothing_else_is_swept(tmp_path):
    here = "".join(scratch._places())
    left = ["phsafe-demo", "phsafe-temp-mine", f"{KIND}{here}{'g' * 16}", f"other-{here}{'0' * 16}"]
    for name in left:
        (tmp_path / name).mkdir()
    elsewhere = tmp_path / f"{KIND}{'0' * 16}{'0' * 16}"  # another machine's
    elsewhere.mkdir()
    (tmp_path / "precious").mkdir()
    link, file = tmp_path / f"{KIND}{here}{'1' * 16}", tmp_path / f"{KIND}{here}{'2' * 16}"
    link.symlink_to(tmp_path / "precious")
    file.write_text("mine")
    assert sweep(tmp_path, KIND) == []
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {*left, elsewhere.name, "precious", link.name, file.name}
    assert sweep(tmp_path / "nowhere", KIND) == []


def test_a_restart_or_another_container_is_the_same_machine(tmp_path, monkeypatch):
    host, boot = scratch._places()
    for i, tag in enumerate((host + "0" * 8, "0" * 8 + boot)):
        (tmp_path / f"{KIND}{tag}{i:016x}").mkdir()
    assert sweep(tmp_path, KIND) == []
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(scratch, "_BOOT", tmp_path / "absent")
    assert scratch._places() == (scratch._short(socket.gethostname()),) * 2


def test_where_there_are_no_locks_nothing_is_swept(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(scratch.fcntl, "flock", refuse)
    made = ScratchFolder(tmp_path, KIND)
    assert sweep(tmp_path, KIND) == []
    assert made.path.exists()


@pytest.mark.parametrize("moment", ["before it is opened", "before it is locked"])
def test_a_sweep_between_making_and_locking(tmp_path, monkeypatch, moment):
    """The name is taken away before the lock is there; another is made."""
    really, times = scratch._open, []

    def open_late(path):
        times.append(path)
        if len(times) == 1 and moment == "before it is opened":
            path.rmdir()
        descriptor = really(path)
        if len(times) == 1:
            path.rmdir()
        return descriptor

    monkeypatch.setattr(scratch, "_open", open_late)
    made = ScratchFolder(tmp_path, KIND)
    assert made.path == times[1] and made.path.exists()
    monkeypatch.setattr(scratch, "_is", lambda *_: False)
    with pytest.raises(FileExistsError):
        ScratchFolder(tmp_path, KIND)
