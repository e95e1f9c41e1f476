"""Signals that ask to stop: heard once, or at the end of what must be finished."""

import signal
import threading

import pytest

from phsafe.stopping import SIGNALS, stoppable, uninterrupted


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
