"""`phsafe explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explore(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="Config to start from: production JSON, or TOML."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port (default: 8765, or any free port; 0: any free port)."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; with any but the default, protecting the page is up to you.")
    ] = "127.0.0.1",
    shares: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Shares of people beyond each threshold, as JSON, instead of the built-in ones."
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a web page for weighing accuracy against privacy. Needs no data and no network."""
    from phsafe.cli.console import note, result, warn
    from phsafe.configs.config import Config
    from phsafe.errors import Reasons
    from phsafe.system.optional_packages import require

    reasons = Reasons()
    loaded = reasons.check(Config.load, config) if config is not None else None
    reasons.check(require, "starlette", "uvicorn")
    from phsafe.explorer.public_tables import truncation

    table = reasons.check(truncation, shares)
    reasons.settle()
    assert table is not None
    from phsafe.explorer.launch import LOOPBACK, Service

    if host not in LOOPBACK:
        warn(f"Listening on {host}: others on the network can reach this page, and the connection is not encrypted.")
    with Service(loaded, table, host=host, port=port, name=config.stem if config is not None else "") as service:
        result({"link": service.link}, service.link)
        note("Open this link in a browser; anyone who has it can use the page. Stop with Ctrl+C.")
        service.run(browser=browser)
