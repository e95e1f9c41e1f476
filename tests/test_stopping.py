"""Signals that ask to stop: heard once, or at the end of what must be finished."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from phsafe.stopping import SIGNALS, stoppable, uninterrupted, wait_for


@pytest.fixture(autouse=True)
def handlers(heard):
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    assert {number: signal.getsignal(number) for number in SIGNALS} == before, "all are given back"


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_first_signal_stops_and_later_ones_leave_the_cleaning_up_alone(number):
    done = []
    with pytest.raises(KeyboardInterrupt), stoppable():
        try:
            signal.raise_signal(number)
            pytest.fail("it went on")
        finally:
            for again in SIGNALS:
                signal.raise_signal(again)
            done.append("cleaned up")
    assert done == ["cleaned up"]


def test_what_was_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            signal.raise_signal(signal.SIGHUP)
            with uninterrupted():
                signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_must_be_finished_is_finished_first():
    done = []
    with pytest.raises(KeyboardInterrupt), stoppable(), uninterrupted():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        done.append("finished")
    assert done == ["finished"]


def test_an_error_inside_says_more_than_the_signal():
    with pytest.raises(ValueError, match="why"), stoppable(), uninterrupted():
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("why")


def test_other_threads_leave_signals_alone():
    seen = []

    def work():
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_waiting_hears_a_signal_that_another_thread_got():
    """As it is with Polars, which has the system go on waiting after a Ctrl-C."""
    gave_up = threading.Event()
    timers = [threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]), threading.Timer(20, gave_up.set)]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(gave_up.wait)
        for timer in timers:
            timer.daemon = True
            timer.start()
        with pytest.raises(KeyboardInterrupt), stoppable():
            wait_for([future])
        assert not gave_up.is_set()
        gave_up.set()


def test_waiting_ends_with_the_first_failure():
    going_on = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        running, failed = pool.submit(going_on.wait), pool.submit(int, "x")
        wait_for([running, failed])
        assert failed.done() and not running.done()
        going_on.set()
        wait_for([running])
        assert running.result()
