"""Tables of figures, rules and tests in the documentation match the code."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from phsafe.explorer.joint_margins import with_finished_margins
from phsafe.model.exact_numbers import round_up
from phsafe.model.schema import LAYOUTS
from phsafe.model.tables import CENSUS_2020
from phsafe.pipeline.validation import (
    BEYOND,
    CONTROL_TOTAL,
    EXTRA_COLUMNS,
    NOT_EMPTY,
    OUTSIDE_FILTER,
    RULES,
    STATE_NOT_EMPTY,
    UNCLASSIFIED,
    WITHOUT_HOUSING,
)
from phsafe.privacy.mode_comparison import SOLVED_NAME, compare
from phsafe.privacy_math.level_structure import structure_of

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the table with the given first header cell, without emphasis."""
    text = (DOCS / page).read_text(encoding="utf-8")
    table = re.search(rf"^\| {re.escape(header)} \|.*\n\|[-|: ]+\|\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    assert table, f"docs/{page} has no table {header!r}"
    return [[cell.strip().strip("*") for cell in line.strip("|").split(" |")] for line in table[1].splitlines()]


#: Sets of columns as the validation page names them.
COLUMN_SETS = {
    "every column": lambda column: True,
    "every number": lambda column: column.is_integer,
    "every code": lambda column: not column.is_integer,
}


def solved_losses(found):
    return found.loss.unbounded, found.loss.bounded


def test_privacy_lists_the_loss_of_the_2020_noise():
    def cells(published, tight):
        losses = (published.unbounded, tight.unbounded, published.bounded, tight.bounded)
        return [round_up(loss, 6) for loss in losses]

    us, pr = (compare(ROOT / "examples" / f"{name}.json") for name in ("us", "pr"))
    taus = us.budgets[0].config.tau
    expected = [[name, str(taus.get(name, "–")), *cells(*pair)] for name, pair in us.by_tabulation().items()]
    expected += [
        [title, "", *cells(one.published.total, one.published_accounted_tightly)]
        for title, one in (("total", us), ("Puerto Rico, total", pr))
    ]
    assert rows("privacy.md", "United States") == expected
    total = expected[-2]
    assert [round(float(total[i]), 3) for i in (3, 2, 5, 4)] == [0.473, 1.257, 1.891, 2.515]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "ρ = 0.473 rather than the stated 1.257" in readme and "1.891 rather than 2.515" in readme.replace("\n", " ")
    gains = [
        [
            f"`{name}`",
            *(round_up(loss, 6) for loss in (found.loss.unbounded, found.loss.bounded)),
            *("–".join(f"{ratio:.3f}" for ratio in pair) for pair in (found.unbounded, found.bounded)),
        ]
        for name, found in us.gains.items()
    ]
    shown = rows("privacy.md", "sensitivity mode")
    assert shown[:-1] == gains
    solved = with_finished_margins(us).gains[SOLVED_NAME]
    name, *numbers = shown[-1]
    assert name == f"`{SOLVED_NAME}`"
    pairs = [float(bound) for pair in numbers[2:] for bound in pair.split("–")]
    # The search ends within 0.1 % of the best budgets.
    assert [float(number) for number in numbers[:2]] == pytest.approx([*map(float, solved_losses(solved))], rel=2e-3)
    assert pairs == pytest.approx([*solved.unbounded, *solved.bounded], abs=6e-3)
    linked = {
        line.split("|")[1].split("`")[1]: line.split("|")[2:-1]
        for line in readme.splitlines()
        if line.startswith("| `")
    }
    for cells in shown:
        if (mode := cells[0].strip("`")) != "tight-bounded":
            assert [cell.strip() for cell in linked[mode]] == cells[1:], mode
    margins = [
        us.margins_at_published_loss[mode]["PH1_num", "state_*"] for mode in ("published", "tight", "structured")
    ]
    stated = "± {:.0f} in `published`, {:.1f} in `tight` and {:.1f} in `structured`".format(*margins)
    assert stated in (DOCS / "privacy.md").read_text(encoding="utf-8")
    assert margins[2] <= 10
    events = us.published.events
    alone = [sum(getattr(event.tight_loss(), kind) for event in events) for kind in ("unbounded", "bounded")]
    assert [round(float(loss), 3) for loss in alone] == [0.480, 1.922]


@pytest.mark.parametrize("name", ["us", "pr"])
def test_readme_states_how_much_noise_the_tight_modes_save(name):
    """By level, at the stated budgets: the noise saved, and that the loss which the mode keeps is no larger."""
    budgets = {one.config.sensitivity: one for one in compare(ROOT / "examples" / f"{name}.json").budgets}
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for mode, neighbours in (("tight", "unbounded"), ("tight-bounded", "bounded")):
        saved = {}
        for before, after in zip(budgets["published"].rows, budgets[mode].rows, strict=True):
            assert getattr(after.event.loss, neighbours) <= getattr(before.event.loss, neighbours)
            tabulation = CENSUS_2020.tabulation(before.event.tabulation)
            level = next(level for level in CENSUS_2020.levels if level.key == before.event.level)
            moves = structure_of(tabulation, level).level_class == "moves"
            saved.setdefault((tabulation.kind, moves), set()).add(round(100 * (1 - after.moe / before.moe)))
        persons, units = saved["persons", True], saved["units", True]
        assert f"{min(persons)} to {max(persons)} % smaller" in readme
        assert mode == "tight" or (units == {0} and "(0 % for counts of units)" in readme)
        for kind in ("persons", "units"):
            assert min(saved[kind, False]) > max(saved[kind, True])


def test_every_documented_name_exists():
    named = {
        name
        for page in (*DOCS.rglob("*.md"), *ROOT.glob("*.md"))
        for name in re.findall(r"`(phsafe(?:\.\w+)+)", page.read_text(encoding="utf-8"))
    }
    assert "phsafe.configs.grid.output_frame" in named
    assert [name for name in sorted(named) if not _exists(name)] == []


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_formats_lists_what_truncation_drops():
    """Names, thresholds, cells and iterations of every tabulation of what truncation drops."""
    listed = [row for row in rows("reference/formats.md", "tabulation") if row[0].endswith(("_dropped", "_oversized"))]
    assert [row[0] for row in listed] == [t.name for t in CENSUS_2020.truncation]
    by = {None: "–", "person": "the person", "householder": "the householder"}
    for tabulation, (_, counts, cells, iterations) in zip(CENSUS_2020.truncation, listed, strict=True):
        assert counts.endswith(f"τ of {tabulation.threshold}")
        assert ("beyond" in counts) == (tabulation.kind == "dropped")
        assert iterations == by[tabulation.iterate_by]
        numbers = ", ".join(map(str, tabulation.cells))
        first, last = min(tabulation.cells), max(tabulation.cells)
        as_lines = tabulation.cells == tabulation.beyond.cells and "as the lines of" in cells
        assert as_lines or cells.split(":")[0] in (numbers, f"{first}–{last}"), tabulation.name


def test_validation_lists_every_rule():
    expected = {}
    for rule in RULES:
        expected.setdefault((rule.name, rule.severity), []).append(f"{rule.table}.{rule.column}")
    every = {
        label: [f"{t.name}.{c.name}" for t in LAYOUTS for c in t.columns if fits(c)]
        for label, fits in COLUMN_SETS.items()
    }
    expected = {
        key: next((label for label, all_of in every.items() if all_of == columns), ", ".join(columns))
        for key, columns in expected.items()
    }
    expected[UNCLASSIFIED, "error"] = "each tabulation behind a table, with a budget"
    blind = "each tabulation with cells counted [blind](../privacy.md#c17-blind-counts), and each of dropped persons"
    expected[WITHOUT_HOUSING, "error"] = blind
    expected[BEYOND, "note"] = "each tabulation of persons"
    expected[EXTRA_COLUMNS, "warning"] = "each table"
    expected[NOT_EMPTY, "error"] = "each table"
    expected[STATE_NOT_EMPTY, "error"] = "units"
    expected[CONTROL_TOTAL, "error"] = expected[OUTSIDE_FILTER, "note"] = "persons, units"
    listed = {
        (rule, severity.split(" (")[0]): where for rule, severity, where, _ in rows("reference/validation.md", "rule")
    }
    assert listed == expected


def test_the_threat_model_names_existing_tests():
    table = rows("explanation/threat-model.md", "against")
    adversaries = {name for name, *_ in rows("explanation/threat-model.md", "adversary")}
    for against, promise, control, held in table:
        assert promise and control
        assert any(name.startswith(against) for name in adversaries), against
        tests = re.findall(r"`([^`]+)::([^`]+)`", held)
        assert tests, f"{promise}: no test"
        for file, name in tests:
            assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (
                f"{file}::{name}"
            )
    assert {against for against, *_ in table} == {
        next(a for a, *_ in table if name.startswith(a)) for name in adversaries
    }
