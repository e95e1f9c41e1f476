"""`phsafe explore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def explore(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG", help="A scenario to start with: production JSON, or TOML."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port (default: 8765, or any free one; 0: any free one)."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; anything but this machine is for you to protect.")
    ] = "127.0.0.1",
    shares: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Shares of people per threshold, as JSON, in place of the ones shipped."),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a page that trades accuracy against privacy by hand. It needs no data and no network."""
    from phsafe.cli.console import note, warn
    from phsafe.config import Config
    from phsafe.errors import Reasons
    from phsafe.explorer.extra import needed

    reasons = Reasons()
    loaded = reasons.check(Config.load, config) if config is not None else None
    reasons.check(needed, "starlette", "uvicorn")
    from phsafe.explorer.public import truncation

    table = reasons.check(truncation, shares)
    reasons.settle()
    assert table is not None
    from phsafe.explorer.serve import LOOPBACK, Service

    if host not in LOOPBACK:
        warn(f"Listening on {host}: others on the network can reach this page, and the link is not encrypted.")
    with Service(loaded, table, host=host, port=port, name=config.stem if config is not None else "") as service:
        typer.echo(service.link)
        note("Open this link in a browser; whoever has it can use the page. Stop with Ctrl+C.")
        service.run(browser=browser)
