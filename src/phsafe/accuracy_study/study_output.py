"""Writing an accuracy study: the report page, tidy tables, the threshold plot, and shares for the explorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from phsafe.accuracy_study.study_page import page
from phsafe.accuracy_study.study_plots import matrix
from phsafe.accuracy_study.threshold_curves import curves
from phsafe.releases.file_layout import SEPARATOR
from phsafe.system.atomic_writes import new_folder
from phsafe.system.format_versions import SHARES

if TYPE_CHECKING:
    from phsafe.accuracy_study.study import Accuracy

TABLES = ("tabulations", "cells", "tables", "lines")


def write(accuracy: Accuracy, out: Path) -> Path:
    """Write everything to a new folder, which appears only when it is complete."""
    with new_folder(out, private=False) as folder:
        for name in TABLES:
            frame = getattr(accuracy, name)
            if not frame.is_empty():
                frame.write_csv(folder / f"{name}.csv", separator=SEPARATOR)
        document = {
            "format": str(SHARES),
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
        "Total error by threshold τ",
        f"Root mean squared error of a noisy count, by tabulation and level: {accuracy.source}, sensitivity "
        f"{accuracy.config.sensitivity}, {accuracy.trials:,} releases at each τ. Large errors are cut off.",
    )
