"""How the running command reports: `--json`, `--quiet`, and the run log that `--log` appends to."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

from phsafe.errors import OutputError

#: Packages whose versions the log records: those that read, count and draw noise.
PACKAGES = ("phsafe", "opendp", "duckdb", "numpy", "pyarrow")
#: The most bytes of an existing file's first line that are read to recognise a log.
MAX_LINE = 100_000


class RunLog:
    """A file of JSON lines that several runs may append to. It holds no values of records and no arguments.

    Args:
        path: The file: a log, or a new file, which only its owner can read.
        command: The name of the command.

    Raises:
        OutputError: The file can't be appended to, or isn't a log.

    """

    def __init__(self, path: Path, command: str) -> None:
        self._path = path
        self._run = {"run": secrets.token_hex(4), "command": command}
        # Not through a link, and without waiting for the reader of a pipe.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._file: int | None = os.open(path, flags, 0o600)
        except OSError as error:
            raise OutputError(f"{path}: can't append to the log: {error.strerror}; name another file") from None
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        from importlib.metadata import version

        assert self._file is not None
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise OutputError(f"{self._path}: expected a regular file as the log, got something else")
        versions = {name: version(name) for name in PACKAGES} | {"python": sys.version.split()[0]}
        try:
            self._check(self._file)
            self._append("start", "info", versions=versions)
        except OSError as error:
            raise OutputError(f"{self._path}: can't append to the log: {error.strerror}; name another file") from None

    def _check(self, file: int) -> None:
        """Refuse a file that is not a log, such as a ledger; end a line that a full disk cut off."""
        from phsafe.system.format_versions import RUN_LOG

        size = os.fstat(file).st_size
        if not size:
            return
        try:
            first = json.loads(os.pread(file, MAX_LINE, 0).split(b"\n")[0])
        except (ValueError, RecursionError):
            first = None
        RUN_LOG.check(self._path, first.get("format") if isinstance(first, dict) else None)
        if os.pread(file, 1, size - 1) != b"\n":
            os.write(file, b"\n")

    def write(self, event: str, level: str, **details: object) -> None:
        """Append a line. If that fails, standard error says so, once, and the command goes on."""
        if self._file is None:
            return
        try:
            self._append(event, level, **details)
        except OSError as error:
            self.close()
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"phsafe: error: {self._path}: can't write the log: {error.strerror}\n")

    def _append(self, event: str, level: str, **details: object) -> None:
        from phsafe.system.format_versions import RUN_LOG

        assert self._file is not None
        time = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"format": str(RUN_LOG), "time": time, **self._run, "event": event, "level": level, **details}
        # One write for each line, so that runs which append at the same time don't mix theirs.
        content = (json.dumps(line) + "\n").encode()
        if os.write(self._file, content) < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


class Output:
    """The choices of the running command; without one, the defaults."""

    json = False
    quiet = False
    log: RunLog | None = None

    def start(self, command: str, *, json: bool, quiet: bool, log: Path | None) -> None:
        """Take the options of a command that begins.

        Raises:
            OutputError: The log can't be written.

        """
        self.json, self.quiet = json, quiet
        self.log = None if log is None else RunLog(log, command)

    def record(self, event: str, level: str, text: str) -> None:
        """Write an event to the log, if there is one: a stage of the work, a notice, a warning or an error."""
        if self.log is not None:
            self.log.write(event, level, text=text)

    def end(self, exit_code: int) -> None:
        """Write the exit code to the log, and return to the defaults."""
        if self.log is not None:
            self.log.write("end", "error" if exit_code else "info", exit_code=exit_code)
            self.log.close()
        self.json, self.quiet, self.log = False, False, None


#: How the command of this process reports.
OUTPUT = Output()
