"""Small public tables that ship with the program: sizes of groups, and the share of people that thresholds drop.

Group sizes are rounded products of American Community Survey 2024 figures (households and shares of householders by
race and ethnicity; people are households times the state's persons per household), and for Puerto Rico the 2020
Census. Shares per threshold come from a million made-up households, unless a person brings their own.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from phsafe.config import MAX_BYTES
from phsafe.errors import ConfigError


@dataclass(frozen=True)
class Truncation:
    """Tabulation → threshold → the share, in percent, of its people who stand beyond the threshold."""

    source: str
    shares: Mapping[str, Mapping[int, float]]

    def dropped(self, tabulation: str, tau: int) -> float | None:
        """The share that a threshold drops; above the table's last one, at most the share there."""
        known = self.shares.get(tabulation)
        if not known:
            return None
        return known.get(tau, known[max(known)] if tau > max(known) else None)

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON has it."""
        shares = {name: {str(tau): share for tau, share in of.items()} for name, of in self.shares.items()}
        return {"source": self.source, "shares": shares}


def truncation(path: Path | None = None) -> Truncation:
    """The shares that ship with the program, or those of a JSON file of the same form."""
    try:
        if path is None:
            text = _shipped("truncation.json")
        elif path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: expected shares of at most {MAX_BYTES} bytes, got a larger file")
        else:
            text = path.read_text(encoding="utf-8")
        document = json.loads(text)
        shares = {
            str(name): {int(tau): float(share) for tau, share in of.items()} for name, of in document["shares"].items()
        }
        if not all(0 <= share <= 100 for of in shares.values() for share in of.values()):
            raise ValueError
        return Truncation(str(document.get("source", path))[:300], shares)
    except OSError as error:
        raise ConfigError(f"{path}: can't read the shares: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigError(
            f'{path}: expected {{"source": …, "shares": {{tabulation: {{threshold: percent}}}}}} as JSON'
        ) from None


@cache
def groups() -> Mapping[tuple[str, str], tuple[int, int]]:
    """(region, iteration code) → (households, people in them)."""
    return {
        (row["REGION_ID"], row["ITERATION_CODE"]): (int(row["HOUSEHOLDS"]), int(row["PEOPLE"]))
        for row in csv.DictReader(_shipped("groups.csv").splitlines())
    }


@cache
def universes() -> Mapping[str, Mapping[str, float]]:
    """Table → the share of people (and of households) that its total line counts, to guess at a group's numbers."""
    found: dict[str, dict[str, float]] = json.loads(_shipped("truncation.json"))["universes"]
    return found


def _shipped(name: str) -> str:
    return files("phsafe.explorer").joinpath(name).read_text(encoding="utf-8")
