"""`phsafe workbook`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def workbook(
    config: arg.ConfigPath,
    out: Annotated[Path, typer.Argument(metavar="OUT.xlsx", help="The workbook to make; it must not exist yet.")],
) -> None:
    """Write a workbook with live formulas: change a budget, a threshold or a target, and every number follows."""
    from phsafe.cli.console import note
    from phsafe.config import Config
    from phsafe.errors import Reasons
    from phsafe.explorer.extra import needed
    from phsafe.explorer.figures import Figures
    from phsafe.newfile import check_absent, write_new

    reasons = Reasons()
    loaded = reasons.check(Config.load, config)
    reasons.check(check_absent, out)
    reasons.check(needed, "xlsxwriter")
    reasons.settle()
    assert loaded is not None
    from phsafe.explorer.workbook import workbook as make

    write_new(out, make(Figures(loaded)))
    note(f"Wrote {out}: yellow cells are inputs; open it in Excel or LibreOffice.")
