"""Figures in the questions from data users follow from the configs, an estimate and the measured coverage."""

import re
from pathlib import Path

import numpy as np
import pytest

import phsafe
from phsafe.estimation.densities import COVERAGE, NORMAL
from phsafe.pipeline import demo

EXPLANATION = Path(__file__).resolve().parents[2] / "docs" / "explanation"
FAQ = " ".join((EXPLANATION / "faq.md").read_text(encoding="utf-8").split())
#: Level → the number of its groups in a region.
GROUPS = {"`*`": 1, "A–G": 7, "H, I": 2}


def table(header: str) -> list[list[str]]:
    """The rows of a table of the page on estimation, the header first."""
    text = (EXPLANATION / "estimation.md").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(header)}.*\n(?:\|.*\n)+", text, re.MULTILINE)
    assert found
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in found[0].splitlines()]
    return [lines[0], *lines[2:]]


def covered(header: str, config: str, region: str, occurrence: int = 0) -> dict[tuple[str, str], float]:
    """Table and level → the coverage in percent, from one of the columns of a config."""
    names, *rows = table(header)
    column = [number for number, name in enumerate(names) if name == f"`{config}`"][occurrence]
    return {
        (row[0], row[1].removeprefix(f"{region} ")): float(row[column])
        for row in rows
        if row[1].startswith(f"{region} ")
    }


def pooled(cells: dict[tuple[str, str], float]) -> list[float]:
    """The coverage of all lines of each table."""
    found = []
    for name in {name for name, _ in cells}:
        levels = [level for table_, level in cells if table_ == name]
        weights = [GROUPS[level] for level in levels]
        found.append(float(np.average([cells[name, level] for level in levels], weights=weights)))
    return found


def span(values) -> str:
    return f"{min(values):.0f} to {max(values):.0f} %"


@pytest.mark.parametrize("config", ["us-measured", "us"])
def test_coverage_is_that_of_the_measurements(config):
    nation, real = "| table | level | nation: before", "| table | level | before | `us-measured`"
    expected = [
        span(covered(nation, config, "state").values()),
        span(pooled(covered(nation, config, "nation"))),
        span(covered(real, config, "state").values()),
    ]
    (row,) = re.findall(rf"\| `{config}`, [^|]+\| ([^|]+) \| ([^|]+) \| ([^|]+) \|", FAQ)
    assert list(row) == expected
    if config == "us-measured":
        states, usa = (covered(nation, config, region, -1) for region in ("state", "nation"))
        small = f"is {span(states.values())} in states and {span(pooled(usa))} in the nation"
        assert f"With one million synthetic households, the coverage of `{config}` {small}" in FAQ


def test_margins_are_those_of_2020():
    margins = {(row.event.tabulation, row.event.level): row.moe for row in phsafe.budget(phsafe.config("us")).rows}
    for level, margin in (("state_*", 200), ("state_A-G", 68), ("usa_*", 500)):
        found = [margins[name, level] for name in ("PH1_num", "PH4", "PH7")]
        assert found == pytest.approx([margin] * 3, rel=0.01)
        assert f"about {margin}" in FAQ or f"or {margin} if it is for one race" in FAQ
    assert margins["PH3", "state_A-G"] == pytest.approx(20, rel=0.01)
    assert "20 for the children of one race in PH3" in FAQ
    assert "For 100 people of one race it is most of what you see" in FAQ
    assert margins["PH4", "state_A-G"] > 100 / 2


def test_an_estimate_of_three_may_have_the_interval_that_is_shown():
    deviation = 68 / NORMAL.quantile(np.array((1 + COVERAGE) / 2))
    low, high = NORMAL.shortest(-3 / deviation)
    assert [round(3 + end * deviation) for end in (low, high)] == [0, 70]
    assert "an estimate of 3 may have an interval of 0–70" in FAQ


def test_own_children_of_two_tables_are_equal_and_those_of_ph3_more_precise(tmp_path):
    estimates = demo.run(tmp_path / "demo").estimates
    for region in ("US", "CA", "WY"):
        for one, other in ((3, 1), (4, 2), (5, 7), (6, 12), (7, 17)):
            sharper, vaguer = (
                estimates.interval(cell) for cell in (f"PH3[{region}, {one}]", f"PH6[{region}, {other}]")
            )
            assert sharper.estimate == vaguer.estimate
            assert 0.5 * vaguer.std_error < sharper.std_error < vaguer.std_error
