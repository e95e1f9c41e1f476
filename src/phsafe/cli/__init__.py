"""Words to calls: the `phsafe` command. Heavy imports wait until a command needs them."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command. Exit codes: 0 done, 1 the input or the budget says no, 2 the command was wrong."""
    from phsafe.errors import PHSafeError
    from phsafe.stopping import StoppedError, stoppable

    try:
        with stoppable():
            from phsafe.cli.app import app

            app()
    except PHSafeError as error:
        for reason in error.reasons:
            _complain(f"error: {reason}")
        sys.exit(1)
    except (KeyboardInterrupt, StoppedError) as stop:
        _complain(f"stopped: {stop}" if str(stop) else "stopped")
        sys.exit(1)
    except MemoryError:
        _complain("error: not enough memory; give the program more, or name a lower --memory-limit")
        sys.exit(1)
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python would complain again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:
        # An exception's text may quote a record, so only its type is shown.
        if os.environ.get("PHSAFE_DEBUG") == "1":
            raise
        _complain(
            f"error: an internal fault ({type(error).__name__}); please report it. "
            "PHSAFE_DEBUG=1 shows where, and may show records: use it on public data only"
        )
        sys.exit(1)


def _complain(text: str) -> None:
    sys.stderr.write(f"phsafe: {text}\n")
