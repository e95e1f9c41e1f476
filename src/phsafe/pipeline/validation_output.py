"""A validation report as text, and a file of household keys for those who repair the data."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table

from phsafe.counting.tallies import STATE_ROWS, Rule
from phsafe.errors import OutputError
from phsafe.model.schema import STATES
from phsafe.pipeline.validation import CONTROL, ValidationReport

STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def as_table(report: ValidationReport) -> Table:
    """Return a table with a line for each finding: severity, rule, table, column, rows."""
    table = Table(title="Validation (NOT PRIVATE)", title_justify="left", expand=False)
    for name, justify in (
        ("", "left"),
        ("Rule", "left"),
        ("Table", "left"),
        ("Column", "left"),
        ("Rows", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for finding in report.findings:
        share = "" if finding.share is None else f" ({finding.share:.2%})"
        table.add_row(
            finding.severity, finding.rule, finding.table, finding.column, f"{finding.rows:,}{share}",
            style=STYLES[finding.severity],
        )  # fmt: skip
    return table


def states_table(report: ValidationReport) -> Table:
    """Return a table with the rows of each state; those without housing units or with other totals are highlighted."""
    table = Table(title="Rows by state (NOT PRIVATE)", title_justify="left", expand=False)
    table.add_column("State")
    columns = [*dict.fromkeys(name for rows in report.states.values() for name in rows)]
    for name in columns:
        table.add_column(name.replace("_", " ").capitalize(), justify="right")
    for state, rows in report.states.items():
        differs = any(rows[name] != rows.get(name + CONTROL, rows[name]) for name in STATE_ROWS)
        numbers = [f"{rows[name]:,}" if name in rows else "" for name in columns]
        style = STYLES["error"] if differs or not rows["housing_units"] else None
        table.add_row(f"{state} {STATES[state]}", *numbers, style=style)
    return table


def summary(report: ValidationReport) -> str:
    """Return the report as one sentence."""
    errors, warnings = len(report.of("error")), len(report.of("warning"))
    checked = ", ".join(f"{number:,} {name}" for name, number in report.rows.items() if name != "households")
    verdict = "Clean" if not errors and not warnings else f"{errors} errors, {warnings} warnings"
    return f"{verdict}: checked {checked} and the cells of {report.tabulations} tabulations."


def write_offenders(file: Path, offenders: Mapping[Rule, list[int | None]]) -> int:
    """Write household keys to a new file that only its owner can read, and return how many."""
    written = 0
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", newline="") as stream:
            os.fchmod(stream.fileno(), 0o600)
            writer = csv.writer(stream)
            writer.writerow(["rule", "table", "column", "MAFID"])
            for rule, keys in offenders.items():
                writer.writerows([rule.name, rule.table, rule.column, key] for key in keys)
                written += len(keys)
    except FileExistsError:
        raise OutputError(f"{file}: expected a file that doesn't exist yet; choose another name") from None
    except OSError as error:
        raise OutputError(f"{file}: can't write the household keys: {error.strerror}") from None
    return written
