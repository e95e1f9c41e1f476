"""`phsafe workbook`: LibreOffice recalculates the numbers of `phsafe budget`, before and after inputs change."""

import os
import shutil
import subprocess
import zipfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import openpyxl
import pytest

from phsafe.cli.workbook import workbook as command
from phsafe.configs import line_sums
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.explorer.figures import Figures
from phsafe.explorer.plain_language import guesses
from phsafe.explorer.solve_targets import budget_for
from phsafe.explorer.workbook import workbook
from phsafe.explorer.workbook_levels import LETTERS, Levels
from phsafe.model.levels import H_I, STATE, IterationLevel, Level
from phsafe.model.spec import Catalog, Table
from phsafe.model.tables import CENSUS_2020, PH2
from phsafe.privacy.budgets import budget

US = Config.load("examples/us.json")
CLOSE = 1e-9


def recalculated(content: bytes, folder: Path, changes: dict[tuple[str, str], object] | None = None):
    """Return the workbook as recalculated by LibreOffice; openpyxl drops all stored results first."""
    soffice = shutil.which("soffice")
    assert soffice, "these tests need LibreOffice (apt-get install libreoffice-calc)"
    source = folder / "source.xlsx"
    source.write_bytes(content)
    book = openpyxl.load_workbook(source)
    for (sheet, cell), value in (changes or {}).items():
        assert not book[sheet][cell].protection.locked, f"{sheet}!{cell} is not an input cell"
        book[sheet][cell] = value
    book.save(source)
    (folder / "out").mkdir(exist_ok=True)
    subprocess.run(
        [soffice, f"-env:UserInstallation=file://{folder}/profile", "--headless", "--norestore",
         "--convert-to", "xlsx", "--outdir", str(folder / "out"), str(source)],
        check=True, capture_output=True, timeout=120, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    return openpyxl.load_workbook(folder / "out" / "source.xlsx", data_only=True)


def check(book, config: Config) -> None:
    """Check that every MOE, loss, variance and total in the workbook equals that of `phsafe budget`."""
    figures = Figures(config)
    rows = Levels(figures).rows
    sheet = book["Budgets"]

    def cell(key, name):
        return sheet[f"{LETTERS[name]}{rows[key]}"].value

    for row in budget(config).rows:
        key = (row.event.tabulation, row.event.level)
        assert cell(key, "stated") == pytest.approx(float(row.event.stated), rel=CLOSE)
        assert cell(key, "unbounded") == pytest.approx(float(row.event.loss.unbounded), rel=CLOSE)
        assert cell(key, "bounded") == pytest.approx(float(row.event.loss.bounded), rel=CLOSE)
        assert cell(key, "variance") == pytest.approx(row.event.noise.variance, rel=1e-6)
        assert cell(key, "moe") == pytest.approx(row.moe, rel=CLOSE)
        assert cell(key, "exact") == row.moe_exact
    for key in rows.keys() - figures.rows.keys():
        assert cell(key, "stated") == 0
        assert cell(key, "moe") in ("", None)
    values = {row[0].value: row[1].value for row in book["Parameters"].iter_rows(max_col=2)}
    loss = figures.loss
    assert values["Unbounded loss"] == pytest.approx(float(loss.unbounded), rel=CLOSE)
    assert values["Bounded loss"] == pytest.approx(float(loss.bounded), rel=CLOSE)
    assert values["Sum of stated budgets"] == pytest.approx(float(config.total), rel=CLOSE)
    assert values["ε at δ, unbounded"] == pytest.approx(loss.epsilon(), rel=CLOSE)
    assert values["ε at δ, bounded"] == pytest.approx(loss.epsilon_bounded(), rel=CLOSE)
    assert values["Attacker is right, unbounded"] == pytest.approx(guesses(config.privacy, loss.unbounded), rel=1e-6)
    check_tables(book, figures)


def check_tables(book, figures: Figures) -> None:
    parts = [
        (table.name, m.line.number, part)
        for table in figures.config.catalog.tables
        for m in line_sums.line_sums(figures.config, table)
        for part in (m.count, m.per)
        if part is not None
    ]
    rows = list(book["Tables"].iter_rows(min_row=4, values_only=True))
    assert len(rows) == len(parts)
    for (name, number, part), row in zip(parts, rows, strict=True):
        assert row[:2] == (name, str(number))
        for level, value in zip(figures.config.catalog.levels, row[7:], strict=True):
            if (part.tabulation, level.key) in figures.rows:
                assert value == pytest.approx(figures.moe(part, level.key), rel=CLOSE)
            else:
                assert value in ("", None)
    averages = [table for table in figures.config.catalog.tables if table.average is not None]
    for table, row in zip(averages, book["Group"].iter_rows(min_row=8, values_only=True), strict=True):
        for level, value in zip(figures.config.catalog.levels, row[1:], strict=True):
            if level in line_sums.table_levels(figures.config, table):
                assert value == pytest.approx(figures.group(table, level.key, 1520, 648)["moe"], rel=1e-6)


@pytest.mark.needs("soffice")
def test_recalculation_equals_phsafe_budget_before_and_after_changes(tmp_path):
    content = workbook(Figures(US))
    check(recalculated(content, tmp_path), US)
    row = Levels(Figures(US)).rows
    changes = {
        ("Parameters", "B3"): "tight",
        ("Parameters", "B9"): 7,
        ("Budgets", f"{LETTERS['budget']}{row['PH3', 'state_A-G']}"): 0.25,
        ("Budgets", f"{LETTERS['budget']}{row['PH1_denom', 'state_*']}"): 5,
        ("Budgets", f"{LETTERS['given']}{row['PH7', 'usa_*']}"): "moe",
        ("Budgets", f"{LETTERS['target']}{row['PH7', 'usa_*']}"): 123,
        ("Budgets", f"{LETTERS['on']}{row['PH6', 'state_*']}"): "no",
    }
    budgets = {name: dict(levels) for name, levels in US.budgets.items()}
    changed = replace(US, sensitivity="tight", tau={**US.tau, "PH1_num": 7}, budgets=budgets)
    budgets["PH3"]["state_A-G"] = Decimal("0.25")
    budgets["PH1_denom"]["state_*"] = Decimal(5)
    budgets["PH7"]["usa_*"] = budget_for(changed, ("PH7", "usa_*"), Decimal(123))
    budgets["PH6"]["state_*"] = Decimal(0)
    check(recalculated(content, tmp_path, changes), changed)


@pytest.mark.needs("soffice")
def test_the_papers_targets_give_the_papers_budgets(tmp_path):
    rows = Levels(Figures(US)).rows.values()
    changes = {("Budgets", f"{LETTERS['given']}{row}"): "moe" for row in rows}
    check(recalculated(workbook(Figures(US)), tmp_path, changes), US)


@pytest.mark.needs("soffice")
def test_recalculation_under_pure_dp(tmp_path):
    pure = {("Parameters", "B4"): "puredp"}
    check(recalculated(workbook(Figures(US)), tmp_path, pure), replace(US, privacy="puredp"))


@pytest.mark.needs("soffice")
def test_recalculation_of_what_truncation_drops(tmp_path):
    measured = Config.load(parameters_2020("us-measured"))
    content, row = workbook(Figures(measured)), Levels(Figures(measured)).rows
    check(recalculated(content, tmp_path, {("Parameters", "B3"): "tight"}), replace(measured, sensitivity="tight"))
    changes = {
        ("Parameters", "B3"): "tight-bounded",
        ("Parameters", "B9"): 7,
        ("Budgets", f"{LETTERS['given']}{row['PH1_dropped', 'state_*']}"): "moe",
        ("Budgets", f"{LETTERS['target']}{row['PH1_dropped', 'state_*']}"): 30,
        ("Budgets", f"{LETTERS['on']}{row['PH7_oversized', 'usa_*']}"): "no",
    }
    budgets = {name: dict(levels) for name, levels in measured.budgets.items()}
    changed = replace(measured, sensitivity="tight-bounded", tau={**measured.tau, "PH1_num": 7}, budgets=budgets)
    budgets["PH1_dropped"]["state_*"] = budget_for(changed, ("PH1_dropped", "state_*"), Decimal(30))
    budgets["PH7_oversized"]["usa_*"] = Decimal(0)
    book = recalculated(content, tmp_path, changes)
    check(book, changed)
    thresholds = {
        t.name: book["Budgets"][f"{LETTERS['tau']}{row[t.name, 'usa_*']}"].value for t in CENSUS_2020.truncation
    }
    assert thresholds == {t.name: changed.tau_of(t) for t in CENSUS_2020.truncation}


@pytest.mark.needs("soffice")
def test_puerto_rico_has_no_nation_levels(tmp_path):
    check(
        recalculated(workbook(Figures(Config.load("examples/pr.json"))), tmp_path),
        Config.load("examples/pr.json"),
    )


def test_stored_results_are_right_without_recalculation(tmp_path):
    path = tmp_path / "book.xlsx"
    command(Path("examples/us.json"), path)
    book = openpyxl.load_workbook(path, data_only=True)
    sheet, rows = book["Budgets"], Levels(Figures(US)).rows
    for row in budget(US).rows:
        position = rows[row.event.tabulation, row.event.level]
        assert sheet[f"{LETTERS['moe']}{position}"].value == row.moe
    with pytest.raises(PHSafeError, match="doesn't exist yet"):
        command(Path("examples/us.json"), path)


def test_formulas_are_protected_and_inputs_are_not(tmp_path):
    path = tmp_path / "book.xlsx"
    path.write_bytes(workbook(Figures(US)))
    book = openpyxl.load_workbook(path)
    assert all(sheet.protection.sheet for sheet in book)
    inputs = 0
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                formula = cell.data_type == "f"
                assert not (formula and not cell.protection.locked)
                inputs += not cell.protection.locked
    levels = sum(len(US.catalog.levels_of(tabulation)) for tabulation in US.catalog.tabulations)
    assert inputs == levels * 4 + 6 + 3 + 2


def test_labels_never_become_formulas(tmp_path):
    evil = "=cmd|' /C calc'!A0"
    table = Table("EVIL", evil, evil, PH2.shell, PH2.tabulations)
    level = Level(STATE, IterationLevel("=1+1", "@SUM(A1)", H_I.iterations, covers=False))
    catalog = Catalog(
        (replace(table, shell=tuple(replace(line, label=evil) for line in PH2.shell)),),
        (level, *CENSUS_2020.levels[:1]),
    )
    config = Config.load({"privacy_budget": {"PH2": {"usa_*": 1}}, "tau": {"PH2": 10}, "state_filter": ["44"]}, catalog)
    path = tmp_path / "book.xlsx"
    path.write_bytes(workbook(Figures(config)))
    book = openpyxl.load_workbook(path)
    texts = [c for sheet in book for row in sheet.iter_rows() for c in row if c.value and evil in str(c.value)]
    assert texts and all(cell.data_type == "s" for cell in texts)
    with zipfile.ZipFile(path) as archive:
        sheets = [archive.read(n).decode() for n in archive.namelist() if n.startswith("xl/worksheets/sheet")]
    assert not any("cmd|" in formula for sheet in sheets for formula in sheet.split("<f>")[1:])


def test_the_structured_mode_is_refused():
    with pytest.raises(PHSafeError, match="the workbook has formulas for the modes published, tight, tight-bounded"):
        workbook(Figures(replace(US, sensitivity="structured")))
