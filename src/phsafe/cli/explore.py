"""`phsafe explore`: its options (port, host, shares, browser), and opening a config, a release or a link."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phsafe.cli import arguments as arg

if TYPE_CHECKING:
    from phsafe.configs.config import Config
    from phsafe.explorer.scenario_files import ScenarioFile


def explore(
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="CONFIG",
            help="Config to start from: JSON in the 2020 format, or TOML; a release folder; or a shared link.",
        ),
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
    catalog: arg.CatalogPath = None,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open a web page for weighing accuracy against privacy. Needs no data and no network."""
    from phsafe.cli.console import note, result, warn
    from phsafe.errors import Reasons
    from phsafe.explorer.share_links import is_link
    from phsafe.system.optional_packages import require

    reasons = Reasons()
    link = config if config is not None and is_link(config) else None
    first = None if link is None else reasons.check(_shared, link, catalog)
    loaded = reasons.check(_config, None if config is None or link else Path(config), catalog)
    reasons.check(require, "starlette", "uvicorn")
    from phsafe.explorer.public_tables import truncation

    table = reasons.check(truncation, shares)
    reasons.settle()
    assert table is not None
    from phsafe.explorer.launch import LOOPBACK, Service

    if host not in LOOPBACK:
        warn(f"Listening on {host}: others on the network can reach this page, and the connection is not encrypted.")
    name = "" if config is None else Path(config).stem
    with Service(loaded, table, host=host, port=port, name=name, first=first) as service:
        result({"link": service.link}, service.link)
        note("Open this link in a browser; anyone who has it can use the page. Stop with Ctrl+C.")
        service.run(browser=browser)


def _shared(link: str, catalog: Path | None) -> ScenarioFile:
    """The scenarios of a shared link."""
    from phsafe.explorer.scenario_files import read_scenarios
    from phsafe.model.spec import Catalog
    from phsafe.model.tables import CENSUS_2020

    return read_scenarios(link, "link", CENSUS_2020 if catalog is None else Catalog.load(catalog))


def _config(path: Path | None, catalog: Path | None) -> Config | None:
    """The config of the page: that of a file with a catalog, or of a release, which has its own. None: that of 2020."""
    from phsafe.configs.config import Config
    from phsafe.configs.parameters import parameters_2020
    from phsafe.errors import ConfigError
    from phsafe.releases.release_folder import Release

    if path is None:
        return None if catalog is None else Config.load(parameters_2020(), catalog)
    if not path.is_dir():
        return Config.load(path, catalog)
    if catalog is not None:
        raise ConfigError("--catalog: expected none with a release, which has its own catalog; leave it out")
    return Release.open(path).config
