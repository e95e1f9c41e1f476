"""Stop signals: handled once, or deferred until work that must be finished is done."""

import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from phsafe.system.interrupts import SIGNALS, keep_ignored, stoppable, uninterrupted, wait_for


@pytest.fixture(autouse=True)
def handlers(heard):
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in SIGNALS} == before, "all handlers are restored"


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_first_signal_stops_and_later_ones_do_not_disturb_the_cleanup(number):
    done = []
    with pytest.raises(KeyboardInterrupt), stoppable():
        try:
            signal.raise_signal(number)
            pytest.fail("the signal was not raised")
        finally:
            for again in SIGNALS:
                signal.raise_signal(again)
            done.append("cleaned up")
    assert done == ["cleaned up"]


def test_ignored_signals_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            signal.raise_signal(signal.SIGHUP)
            with uninterrupted():
                signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_uninterrupted_work_is_finished_first():
    done = []
    with pytest.raises(KeyboardInterrupt), stoppable(), uninterrupted():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        done.append("finished")
    assert done == ["finished"]


def test_an_error_takes_precedence_over_a_signal():
    with pytest.raises(ValueError, match="why"), stoppable(), uninterrupted():
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("why")


def test_other_threads_do_not_touch_signal_handlers():
    seen = []

    def work():
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_waiting_notices_a_signal_received_by_another_thread():
    """As with Polars, which makes the system resume waiting after a Ctrl-C."""
    timed_out = threading.Event()
    timers = [threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]), threading.Timer(20, timed_out.set)]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(timed_out.wait)
        for timer in timers:
            timer.daemon = True
            timer.start()
        with pytest.raises(KeyboardInterrupt), stoppable():
            wait_for([future])
        assert not timed_out.is_set()
        timed_out.set()


def test_waiting_ends_with_the_first_failure():
    release = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        running, failed = pool.submit(release.wait), pool.submit(int, "x")
        wait_for([running, failed])
        assert failed.done() and not running.done()
        release.set()
        wait_for([running])
        assert running.result()


def test_ignored_signals_stay_ignored_whatever_a_library_installs():
    """As in the background of a script, or under nohup. Polars replaces the handler when it is loaded."""
    code = """
import signal
from pathlib import Path
from phsafe.system.interrupts import keep_ignored, uninterrupted
def is_ignored():
    (mask,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("SigIgn")]
    return bool(int(mask.split()[1], 16) >> (signal.SIGINT - 1) & 1)
signal.signal(signal.SIGINT, signal.SIG_IGN)
seen = [is_ignored()]
import polars
seen.append(is_ignored())
with uninterrupted():
    seen.append(is_ignored())
print(seen)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[True, False, True]\n"


def test_ignoring_again_is_left_to_the_main_thread():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    thread = threading.Thread(target=keep_ignored)
    thread.start()
    thread.join()
    keep_ignored()
    assert signal.signal(signal.SIGHUP, before) is signal.SIG_IGN
