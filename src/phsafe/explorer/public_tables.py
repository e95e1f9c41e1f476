"""Small public tables that ship with the package: sizes of population groups, and shares of people truncated.

Group sizes are derived from the American Community Survey 2024 and rounded: households times the share of householders
of each race or ethnicity, and people as households times the state's persons per household. Puerto Rico's come from
the 2020 Census. The shares of people that each threshold drops come from a million synthetic households, unless the
user supplies a file.
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

from phsafe.configs.config import MAX_BYTES
from phsafe.errors import ConfigError
from phsafe.system.format_versions import SHARES


@dataclass(frozen=True)
class Truncation:
    """The share of people, in percent, that truncation drops: tabulation → threshold → share."""

    source: str
    shares: Mapping[str, Mapping[int, float]]

    def dropped(self, tabulation: str, tau: int) -> float | None:
        """Return the share that a threshold drops, or None if unknown.

        Beyond the largest threshold in the table this is an upper bound: the share at that threshold.
        """
        known = self.shares.get(tabulation)
        if not known:
            return None
        return known.get(tau, known[max(known)] if tau > max(known) else None)

    def to_dict(self) -> dict[str, Any]:
        """Return the table in its JSON form."""
        shares = {name: {str(tau): share for tau, share in of.items()} for name, of in self.shares.items()}
        return {"source": self.source, "shares": shares}


def truncation(path: Path | None = None) -> Truncation:
    """Read the shares from a JSON file, or return those that ship with the package."""
    try:
        if path is None:
            text = _shipped("truncation.json")
        elif path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: expected shares of at most {MAX_BYTES} bytes, got a larger file")
        else:
            text = path.read_text(encoding="utf-8")
        document = json.loads(text)
        if "format" in document:  # A file written by hand may have none.
            SHARES.check(path, document["format"])
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
    """Return the size of each population group: (region, iteration code) → (households, people in them)."""
    return {
        (row["REGION_ID"], row["ITERATION_CODE"]): (int(row["HOUSEHOLDS"]), int(row["PEOPLE"]))
        for row in csv.DictReader(_shipped("groups.csv").splitlines())
    }


@cache
def universes() -> Mapping[str, Mapping[str, float]]:
    """Return the share of people and of households in each table's universe, to estimate a group's counts."""
    found: dict[str, dict[str, float]] = json.loads(_shipped("truncation.json"))["universes"]
    return found


@cache
def cells() -> Mapping[str, Mapping[int, float]]:
    """Return the share of all people, or of all households, in each basis cell: tabulation → cell → share."""
    found = json.loads(_shipped("truncation.json"))["cells"]
    return {name: {int(cell): share for cell, share in of.items()} for name, of in found.items()}


def _shipped(name: str) -> str:
    return files("phsafe.explorer").joinpath(name).read_text(encoding="utf-8")
