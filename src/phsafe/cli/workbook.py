"""`phsafe workbook`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from phsafe.cli import arguments as arg


def workbook(
    config: arg.ConfigPath,
    out: Annotated[Path, typer.Argument(metavar="OUT.xlsx", help="Workbook to create; it must not exist yet.")],
    catalog: arg.CatalogPath = None,
) -> None:
    """Write an Excel workbook with live formulas: change a budget, a threshold or a target, and all figures update."""
    from phsafe.cli.console import note, result
    from phsafe.configs.config import Config
    from phsafe.errors import Reasons
    from phsafe.system.atomic_writes import check_new_file, write_new_file
    from phsafe.system.optional_packages import require

    reasons = Reasons()
    loaded = reasons.check(Config.load, config, catalog)
    reasons.check(check_new_file, out)
    reasons.check(require, "xlsxwriter")
    reasons.settle()
    assert loaded is not None
    from phsafe.explorer.workbook import config_workbook

    write_new_file(out, config_workbook(loaded))
    result({"file": str(out)})
    note(f"Wrote {out}: yellow cells are inputs; open it in Excel or LibreOffice.")
