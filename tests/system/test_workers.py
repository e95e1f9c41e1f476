"""Worker processes."""

import importlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from phsafe.errors import DataError, PHSafeError
from phsafe.system.workers import cores, in_order

SECRET = "S3CRET"
#: A timeout longer than anything here takes; reached only if something is wrong.
TIMEOUT = 60.0
#: The functions that workers call, from a module that they find on the same path as this process.
WORK = f"""
import os, signal
from pathlib import Path
from phsafe.errors import DataError

def pid(_): return os.getpid()
def session(_): return os.getsid(0)
def loud(item):
    print("printed")
    os.write(1, b"written")
    return item
def refuse(_): raise DataError(["first reason", "second reason"])
def fail(_): raise ValueError("{SECRET}")
def no_memory(_): raise MemoryError("{SECRET}")
def unpicklable(_): return lambda: 0
def die(_): os.kill(os.getpid(), signal.SIGKILL)
def stay(folder):
    (Path(folder) / str(os.getpid())).touch()
    while True:
        signal.pause()
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "phsafe_test_work.py").write_text(WORK)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("phsafe_test_work")


def running(pids):
    """The processes among these that have not ended."""
    states = {}
    for pid in pids:
        try:
            states[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
    return {pid for pid, state in states.items() if state != "Z"}


def children():
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == os.getpid():
            found.add(int(stat.parent.name))
    return found


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before, opened = children(), descriptors()
    yield
    assert children() <= before
    assert descriptors() <= opened


def wait_until(true):
    end = time.monotonic() + TIMEOUT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def run(script, **settings):
    return subprocess.run([sys.executable, *script], capture_output=True, text=True, check=True, **settings)


# --- results ------------------------------------------------------------------------------------------------------


def test_results_come_in_order():
    assert list(in_order(abs, range(-200, 0), jobs=2)) == list(range(200, 0, -1))
    assert list(in_order(abs, [], jobs=2)) == []


def test_every_worker_is_used_and_one_job_runs_in_this_process(work):
    assert len(set(in_order(work.pid, range(20), jobs=2)) - {os.getpid()}) == 2
    assert set(in_order(work.pid, range(20), jobs=1)) == {os.getpid()}


def test_large_items_and_results():
    items = [bytes([i]) * 3_000_000 for i in range(6)]
    assert list(in_order(bytearray, items, jobs=2)) == items


@pytest.mark.parametrize("jobs", [1, 2])
def test_items_are_consumed_lazily(jobs):
    items = iter(itertools.count())
    with closing(in_order(abs, items, jobs)) as results:
        assert list(itertools.islice(results, 10)) == list(range(10))
    assert next(items) < 20


def test_a_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "print('once')\nfrom phsafe.system.workers import in_order\nprint(list(in_order(abs, range(-5, 0), jobs=2)))\n"
    )
    assert run([script]).stdout == "once\n[5, 4, 3, 2, 1]\n"
    assert run(["-c", script.read_text()]).stdout == "once\n[5, 4, 3, 2, 1]\n"


def test_a_worker_imports_nothing_from_the_current_folder(tmp_path):
    """Nor does the command `phsafe`."""
    (tmp_path / "elsewhere").mkdir()
    for name in ("pickle", "phsafe", "numpy", "threading"):
        (tmp_path / "elsewhere" / f"{name}.py").write_text("raise SystemExit(7)")
    script = tmp_path / "script.py"
    script.write_text("from phsafe.system.workers import in_order\nprint(*in_order(abs, [-5], jobs=2))")
    assert run([script], cwd=tmp_path / "elsewhere").stdout == "5\n"


def test_printed_output_does_not_mix_with_results(work, capfd):
    assert list(in_order(work.loud, [1, 2, 3], jobs=2)) == [1, 2, 3]
    assert capfd.readouterr() == ("", "")


def test_ctrl_c_at_a_terminal_does_not_reach_the_workers(work):
    assert os.getsid(0) not in set(in_order(work.session, range(4), jobs=2))


# --- errors -------------------------------------------------------------------------------------------------------


def test_phsafe_errors_arrive_with_all_their_reasons(work):
    with pytest.raises(DataError) as caught:
        list(in_order(work.refuse, range(10), jobs=2))
    assert caught.value.reasons == ("first reason", "second reason")
    assert caught.value.__context__ is None and caught.value.__cause__ is None


def test_messages_of_other_errors_are_dropped(work, capfd):
    with pytest.raises(RuntimeError) as caught:
        list(in_order(work.fail, range(10), jobs=2))
    assert str(caught.value) == "ValueError in a worker process"
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert capfd.readouterr() == ("", "")


def test_a_memory_error_is_reported_as_one(work):
    with pytest.raises(MemoryError) as caught:
        list(in_order(work.no_memory, [1], jobs=2))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("way", ["os._exit", "die", "unpicklable"])
def test_a_worker_that_ends_early_raises_a_phsafe_error(work, way):
    function = os._exit if way == "os._exit" else getattr(work, way)
    with pytest.raises(PHSafeError, match="ended early") as caught:
        list(in_order(function, [3] * 10, jobs=2))
    assert len(caught.value.reasons) == 1


def test_a_worker_that_cannot_start_raises_a_phsafe_error(monkeypatch):
    """The worker that did start is ended."""
    original, started = subprocess.Popen, []

    def popen(*arguments, **settings):
        if started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        started.append(original(*arguments, **settings))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(PHSafeError, match="can't start a worker process: Resource temporarily"):
        list(in_order(abs, range(10), jobs=2))
    assert started[0].returncode == -signal.SIGKILL


# --- the end ------------------------------------------------------------------------------------------------------


def test_a_loop_that_ends_early_ends_the_workers(work):
    before = children()
    with closing(in_order(work.pid, itertools.count(), jobs=2)) as results:
        pids = set(itertools.islice(results, 10))
        assert children() - before == pids
    assert not running(pids)


def test_an_interrupt_ends_the_workers(work, tmp_path, heard):
    def stop():
        wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        list(in_order(work.stay, [tmp_path] * 5, jobs=2))
    thread.join()
    assert not running(int(path.name) for path in tmp_path.iterdir())


def test_workers_end_with_their_parent(work, tmp_path):
    """Even if it is killed."""
    script = (
        "from phsafe_test_work import stay; from phsafe.system.workers import in_order; list(in_order(stay, {!r}, 2))"
    )
    folder, path = tmp_path / "pids", Path(work.__file__).parent
    folder.mkdir()
    command = [sys.executable, "-c", script.format([str(folder)] * 5)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(path)}) as parent:
        wait_until(lambda: len(list(folder.iterdir())) == 2)
        pids = {int(path.name) for path in folder.iterdir()}
        assert running(pids) == pids
        parent.send_signal(signal.SIGKILL)
    try:
        wait_until(lambda: not running(pids))
    finally:
        for pid in running(pids):
            os.kill(pid, signal.SIGKILL)


# --- cores --------------------------------------------------------------------------------------------------------


def test_cores_respects_the_cpu_affinity():
    one = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})"
    assert run(["-c", f"{one}; from phsafe.system.workers import cores; print(cores())"]).stdout == "1\n"
    assert cores() == len(os.sched_getaffinity(0))
