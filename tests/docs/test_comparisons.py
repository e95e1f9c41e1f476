"""Figures on the pages that compare PHSafe with the 2020 product and with other systems."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from phsafe.configs.config import Config
from phsafe.configs.grid import size
from phsafe.configs.parameters import parameters_2020
from phsafe.privacy.accountant import plan

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "explanation"


def rows(page: str) -> list[list[str]]:
    text = (PAGES / page).read_text()
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.MULTILINE)
    ]


def test_the_rows_of_a_release():
    config = Config.load(parameters_2020("us"))
    stated = {row[0]: int(row[1]) for row in rows("2020-published.md") if row[0].startswith("PH") and len(row) == 2}
    catalog = config.catalog
    outputs = [*catalog.tabulations, *(derived for table in catalog.tables for derived in table.derived)]
    counted = {output.name: size(config, output) for output in outputs}
    assert stated == {name: number for name, number in counted.items() if number}


def test_the_noise_of_the_same_work():
    document = parameters_2020("us")
    budgets = {
        name: {key: Decimal("0.1") if (name, key) == ("PH7", "state_*") else 0 for key in levels}
        for name, levels in document["privacy_budget"].items()
    }
    table = {row[0]: row[2] for row in rows("peers.md") if len(row) == 5}
    for mode in ("published", "tight"):
        (event,) = plan(Config.load(document | {"privacy_budget": budgets, "sensitivity": mode})).events
        assert table[f"PHSafe, `{mode}`"] == f"{event.noise.scale:.2f}"
    # Δ of a private join is 2 (changes of persons + τ changes of units), and OpenDP's is what the user states.
    for name, delta in (("added", 22), ("replaced", 42)):
        assert table[f"Tumult Analytics, a unit's row {name}"] == f"{delta / 0.2**0.5:.2f}"
    assert table["OpenDP, a person contributes 2τ rows"] == f"{20 / 0.2**0.5:.2f}"
    assert table["OpenDP, τ rows in each of two groups"] == f"{(2 * 10**2 / 0.2) ** 0.5:.2f}"


def test_sensitivities_and_margins_of_2020():
    events = plan(Config.load(parameters_2020("us"))).events
    text = (PAGES / "2020-noise.md").read_text()
    found = {(event.kind, event.tau): event.sensitivity for event in events}
    assert found == {("persons", 10): 22, ("persons", 6): 14, ("units", None): 2}
    assert "22 for people (τ = 10), 14 for children (τ = 6), 2 for units" in text
    margins = {round(1.645 * event.noise.scale) for event in events}
    stated = [int(n) for n in re.findall(r"\b(\d+) (?:in|by|for)\b", rows("2020-margins.md")[2][1])]
    assert {500, 200, 68, 20} <= margins and stated == [500, 200, 68, 20]
    assert 100 * (1 - 2 * _upper(1.64)) == pytest.approx(89.9, abs=0.05)


def _upper(z: float) -> float:
    from math import erfc, sqrt

    return erfc(z / sqrt(2)) / 2
