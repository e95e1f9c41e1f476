"""Words to calls: the `phsafe` command. Heavy imports wait until a command needs them."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys

#: New objects between two looks for garbage. Loading libraries and writing queries makes many objects and hardly any
#: garbage: with Python's own number, a seventh of a small run goes into looking.
_BETWEEN_COLLECTIONS = 1_000_000
#: How Typer ends, without a word, when it is stopped while it reads the command line.
_TYPER_STOPPED = 130


def program() -> None:
    """The `phsafe` command as a program of its own: `main`, and then the process ends at once.

    By then everything of ours is closed, flushed and removed. Python would take down what it has loaded piece by piece,
    which takes half a second after a small run.
    """
    try:
        main()
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def main() -> None:
    """Run the command. Exit codes: 0 done, 1 the input or the budget says no, 2 the command was wrong."""
    from phsafe.errors import PHSafeError
    from phsafe.stopping import StoppedError

    gc.set_threshold(_BETWEEN_COLLECTIONS, 20, 20)
    try:
        _run()
    except PHSafeError as error:
        for reason in error.reasons:
            _complain(f"error: {reason}")
    except (KeyboardInterrupt, StoppedError) as stop:
        _complain(f"stopped: {stop}" if str(stop) else "stopped")
    except MemoryError:
        _complain("error: there is not enough memory; give the program more, or name a lower --memory-limit")
    except SystemExit:
        raise
    except BaseException as error:  # Rust's panics are no `Exception`.
        if isinstance(error, OSError):
            # Python would complain again when it closes standard output.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if os.environ.get("PHSAFE_DEBUG") == "1":
            raise
        _complain_of(error)
    sys.exit(1)


def _run() -> None:
    """Run the command, stoppable; it ends with SystemExit or with whatever went wrong."""
    from phsafe.stopping import stoppable

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # A file's name may be any bytes.
    with stoppable():
        from phsafe.cli.app import app_for

        try:
            app_for(sys.argv[1:])()
        except SystemExit as end:
            if end.code == _TYPER_STOPPED:
                raise KeyboardInterrupt from None
            raise
        finally:
            sys.stdout.flush()  # Here, where a disk that is full can still be put in words.


def _complain_of(error: BaseException) -> None:
    """Name a fault. An exception's text may quote a record, so only its kind is shown."""
    if isinstance(error, BrokenPipeError):
        return  # Whoever left a pipe has seen enough.
    if isinstance(error, OSError) and error.errno is not None:
        _complain(f"error: the system says: {os.strerror(error.errno)}")
        return
    _complain(
        f"error: an internal fault ({type(error).__name__}); please report it. "
        "PHSAFE_DEBUG=1 shows where, and may show records: use it on public data only"
    )


def _complain(text: str) -> None:
    sys.stderr.write(f"phsafe: {text}\n")
