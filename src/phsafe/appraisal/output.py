"""Writing a report of errors: a page for people, tidy tables, a plot, and shares for the explorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from phsafe.appraisal.curves import curves
from phsafe.appraisal.page import page
from phsafe.appraisal.plots import matrix
from phsafe.files import SEPARATOR, new_folder

if TYPE_CHECKING:
    from phsafe.appraisal.run import Accuracy

TABLES = ("tabulations", "cells", "tables", "lines")


def write(accuracy: Accuracy, out: Path) -> Path:
    """Write everything to a new folder, which appears only when it is complete."""
    with new_folder(out, private=False) as folder:
        for name in TABLES:
            frame = getattr(accuracy, name)
            if not frame.is_empty():
                frame.write_csv(folder / f"{name}.csv", separator=SEPARATOR)
        document = {
            "source": f"phsafe accuracy on {accuracy.source}",
            "shares": {
                name: {str(tau): share for tau, share in by_tau.items()} for name, by_tau in accuracy.shares.items()
            },
        }
        (folder / "accuracy.html").write_text(page(accuracy), encoding="utf-8")
        if found := curves(accuracy):
            (folder / "tau.svg").write_text(matrix(found, *_titles(accuracy)), encoding="utf-8")
        (folder / "shares.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return out


def _titles(accuracy: Accuracy) -> tuple[str, str]:
    return (
        "Total error against the threshold τ",
        f"Root of the mean squared error of a noisy count, by tabulation and level: {accuracy.source}, sensitivity "
        f"{accuracy.config.sensitivity}, {accuracy.trials:,} releases at each τ. Large errors are cut off.",
    )
