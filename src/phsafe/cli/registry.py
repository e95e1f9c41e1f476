"""`phsafe registry`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli.estimate import ReleasePath


def registry(
    release: ReleasePath,
    out: Annotated[Path, typer.Argument(metavar="OUT.yaml", help="The entry to make; it must not exist yet.")],
    name: Annotated[str, typer.Option(metavar="TEXT", help="The name of the data product.")] = "",
    curator: Annotated[str, typer.Option(metavar="TEXT", help="Who publishes it.")] = "",
    curator_type: Annotated[str, typer.Option(metavar="TYPE", help="Government, Industry or Nonprofit.")] = "",
    intended_use: Annotated[str, typer.Option(metavar="TEXT", help="What the tables are for.")] = "",
    publication_date: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="When it is published.")] = "",
    author: Annotated[str, typer.Option(metavar="TEXT", help="Who fills in the entry.")] = "",
) -> None:
    """Write an entry for the OpenDP registry of deployments; what a release can't know is marked TODO."""
    from phsafe.cli.console import note
    from phsafe.reporting import registry as make

    left = make(
        release,
        out,
        name=name,
        curator=curator,
        curator_type=curator_type,
        intended_use=intended_use,
        publication_date=publication_date,
        author=author,
    )
    note(f"Wrote {out}. Still to be filled in, marked TODO:")
    for path in left:
        note(f"  {path}")
