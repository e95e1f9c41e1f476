"""Start the page: listen on a port, create the link with its token, and open a browser."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import uvicorn

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.public_tables import Truncation, truncation
from phsafe.explorer.scenario import Scenario
from phsafe.explorer.scenario_files import ScenarioFile
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.explorer.web_server import Start, application
from phsafe.model.tables import CENSUS_2020

LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Addresses that mean "every interface". With them the server couldn't check that the Host header names it.
WILDCARDS = ("", "0.0.0.0", "::", "*")  # noqa: S104
DEFAULT_PORT = 8765


class Service:
    """The page's server on a port. `link` has the token in its fragment, which browsers never send to a server."""

    def __init__(
        self,
        config: Config | None = None,
        shares: Truncation | None = None,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        name: str = "",
        first: ScenarioFile | None = None,
    ) -> None:
        if host in WILDCARDS:
            raise PHSafeError(f"--host {host}: expected the one address or host name that users will open, got all")
        self._socket = _listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        names = {f"{shown}:{self.port}"}
        if host in LOOPBACK:
            names |= {f"127.0.0.1:{self.port}", f"localhost:{self.port}", f"[::1]:{self.port}"}
        self.token = secrets.token_urlsafe(32)
        self.link = f"http://{shown}:{self.port}/#token={self.token}"
        catalog = CENSUS_2020 if config is None else config.catalog
        if first is None:
            scenarios = [] if config is None else [Scenario.from_config(config, name or "Your config")]
            scenarios += [scenario_2020()] if catalog == CENSUS_2020 else []
            first = ScenarioFile(tuple(scenarios))
        start = Start(catalog, first, shares or truncation())
        settings = uvicorn.Config(
            application(start, self.token, tuple(names)),
            # Uvicorn's own settings would replace, and close, the log handlers of the whole process.
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
        self.server = uvicorn.Server(settings)

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def run(self, *, browser: bool = False) -> None:
        """Serve until stopped."""
        with contextlib.ExitStack() as stack:
            if browser and sys.stdout.isatty():
                stack.enter_context(_opened(self.link))
            with contextlib.suppress(KeyboardInterrupt):
                self.server.run(sockets=[self._socket])


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a listening socket. A requested port must be free; the default port falls back to any free one."""
    for number in (DEFAULT_PORT, 0) if port is None else (port,):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if port is None and number != 0 and error.errno == errno.EADDRINUSE:
                continue
            busy = error.errno == errno.EADDRINUSE
            why = "it is in use" if busy else (error.strerror or str(error))
            raise PHSafeError(
                f"port {number} of {host}: can't listen: {why}; choose another --port (0: any free port) or --host"
            ) from None
        return listener
    raise AssertionError


@contextlib.contextmanager
def _opened(link: str) -> Iterator[None]:
    """Open the browser through a file only this user can read: other users could see the token on a command line."""
    with tempfile.TemporaryDirectory(prefix="phsafe-") as folder:
        page = Path(folder) / "open.html"
        page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0;url={link}">', encoding="utf-8")
        page.chmod(0o600)
        webbrowser.open(page.as_uri())
        yield
