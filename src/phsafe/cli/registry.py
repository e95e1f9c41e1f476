"""`phsafe registry`: its options (name, curator, use, date, author)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def registry(
    release: arg.ReleasePath,
    out: Annotated[Path, typer.Argument(metavar="OUT.yaml", help="File to create; it must not exist yet.")],
    name: Annotated[str, typer.Option(metavar="TEXT", help="The name of the data product.")] = "",
    curator: Annotated[str, typer.Option(metavar="TEXT", help="Who publishes it.")] = "",
    curator_type: Annotated[str, typer.Option(metavar="TYPE", help="Government, Industry or Nonprofit.")] = "",
    intended_use: Annotated[str, typer.Option(metavar="TEXT", help="Intended use of the tables.")] = "",
    publication_date: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="Publication date.")] = "",
    author: Annotated[str, typer.Option(metavar="TEXT", help="Author of the entry.")] = "",
) -> None:
    """Write an entry for the OpenDP deployments registry, with TODO where a release lacks the information."""
    from phsafe.cli.console import note, result
    from phsafe.reports import registry as make

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
    result({"file": str(out), "todo": list(left)})
    note(f"Wrote {out}. Fill in the fields marked TODO:")
    for path in left:
        note(f"  {path}")
