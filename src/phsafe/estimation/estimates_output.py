"""Writing finished tables: one file per table, the same with names, a workbook and the diagnostics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from phsafe.errors import PHSafeError
from phsafe.estimation.sdmx_csv import write_sdmx
from phsafe.estimation.tables_folder import write_tables_folder
from phsafe.estimation.tables_workbook import write_workbook
from phsafe.model import exact_numbers
from phsafe.releases.file_layout import SEPARATOR
from phsafe.system.atomic_writes import new_folder
from phsafe.system.format_versions import ESTIMATES

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

FORMATS = ("csv", "parquet")


def check_format(format: str) -> None:
    """Raise PHSafeError if the format is not supported."""
    if format not in FORMATS:
        raise PHSafeError(f"format: expected one of {', '.join(FORMATS)}, got {format}")


def write(estimates: Estimates, out: Path, format: str, draws: int = 0, *, sdmx: bool = False) -> Path:
    """Write everything to a new folder, which appears only once it is complete."""
    check_format(format)
    with new_folder(out, private=False) as folder:
        for name, frame in estimates.tables.items():
            if format == "csv":
                frame.write_csv(folder / f"{name}.csv", separator=SEPARATOR)
            else:
                frame.write_parquet(folder / f"{name}.parquet")
        if draws:
            estimates.draws(draws).write_parquet(folder / "draws.parquet")
        write_tables_folder(estimates, folder / "tables")
        if sdmx:
            write_sdmx(estimates, folder / "sdmx")
        write_workbook(estimates, folder / "tables.xlsx")
        text = exact_numbers.dumps({"format": str(ESTIMATES), **estimates.diagnostics})
        (folder / "diagnostics.json").write_text(text + "\n", encoding="utf-8")
    return out
