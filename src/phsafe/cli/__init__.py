"""The `phsafe` command: parses the command line, calls the Python API, and prints any error with its exit code.

Imports heavy packages only when needed.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys

#: New objects between garbage collections. Loading libraries creates many objects and hardly any garbage: with
#: Python's default, a small run spends a seventh of its time collecting.
_BETWEEN_COLLECTIONS = 1_000_000


def program() -> None:
    """Run `main`, then end the process without Python's usual shutdown.

    By then all files are closed and flushed, and temporary ones removed. The shutdown would take half a second.
    """
    if os.name != "posix":
        sys.exit("phsafe: error: expected a POSIX system (Linux, macOS, or Linux within Windows), got another one")
    _open_closed_streams()
    try:
        main()
    except SystemExit as end:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def _open_closed_streams() -> None:
    """Open /dev/null for each closed standard stream; otherwise the next file opened would get its descriptor."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            descriptor = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode))


def main() -> None:
    """Run the command, and write its exit code to the run log.

    Exit codes: 0 success; 1 refused, nothing charged; 2 usage error; 3 the release is charged and complete, but a
    later step failed; 4 charged, but no release was written; 130 interrupted, nothing charged.
    """
    from phsafe.cli.output import OUTPUT

    code: object = 1
    try:
        _main()
    except SystemExit as end:
        code = end.code
        raise
    finally:
        OUTPUT.end(code if isinstance(code, int) else int(code is not None))


def _main() -> None:
    """Run the command, and report every error. Always raises `SystemExit`, except in debug mode."""
    from phsafe.errors import PHSafeError
    from phsafe.system.interrupts import INTERRUPTED, StoppedError

    code = PHSafeError.exit_code

    # Matrices are small: threads of the linear algebra would mostly wait for each other, above all on a busy machine.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_BETWEEN_COLLECTIONS, 20, 20)
    try:
        _run()
    except PHSafeError as error:
        for reason in error.reasons:
            _complain(f"error: {reason}")
        code = error.exit_code
    except (KeyboardInterrupt, StoppedError) as stop:
        code = getattr(stop, "exit_code", INTERRUPTED)
        _complain(f"stopped: {stop}" if str(stop) else "stopped")
    except MemoryError:
        _complain("error: out of memory; provide more, or set a lower --memory-limit")
    except SystemExit:
        raise
    except BaseException as error:  # A panic in Rust is not an `Exception`.
        if isinstance(error, OSError):
            discard_output()
        if os.environ.get("PHSAFE_DEBUG") == "1":
            raise
        _complain_of(error)
    sys.exit(code)


def _run() -> None:
    """Run the command, interruptibly. Always raises: `SystemExit`, or the error."""
    from phsafe.system.interrupts import INTERRUPTED, stoppable

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # A file name may be any bytes.
    with stoppable():
        from phsafe.cli.app import app_for

        try:
            app_for(sys.argv[1:])()
        except SystemExit as end:
            if end.code == INTERRUPTED:  # Typer was interrupted while it parsed the command line.
                raise KeyboardInterrupt from None
            raise
        finally:
            sys.stdout.flush()  # Here, a full disk can still be reported.


def _complain_of(error: BaseException) -> None:
    """Report an internal error by its type only, because its message may quote a record."""
    if isinstance(error, BrokenPipeError):
        return  # The reader closed the pipe and needs no message.
    if isinstance(error, OSError) and error.errno is not None:
        _complain(f"error: the operating system reported: {os.strerror(error.errno)}")
        return
    _complain(
        f"error: internal error ({type(error).__name__}); please report it. "
        "PHSAFE_DEBUG=1 shows a traceback, which may contain records: use it on public data only"
    )


def _complain(text: str) -> None:
    """Print an error, which is never silent, and log it."""
    from phsafe.cli.output import OUTPUT

    event, _, reason = text.partition(": ")
    OUTPUT.record(event, "error", reason)
    with contextlib.suppress(OSError, ValueError):  # Standard error may already be closed.
        sys.stderr.write(f"phsafe: {text}\n")


def discard_output() -> None:
    """Discard what is left of standard output, because flushing it again would fail again."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
