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
from phsafe.explorer.error_curve import dropped_share
from phsafe.explorer.figures import Figures
from phsafe.explorer.group_margins import is_published, margin
from phsafe.explorer.pinned_groups import defaults
from phsafe.explorer.public_tables import truncation
from phsafe.explorer.solve_targets import budget_for
from phsafe.explorer.workbook import workbook
from phsafe.explorer.workbook_decision import DEFINITION, MODE, TOTALS, Content, totals_of
from phsafe.explorer.workbook_levels import LETTERS
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


BASE = Figures(US)
PINS = defaults(CENSUS_2020, puerto_rico=False)


def made(config: Config) -> tuple[bytes, Content]:
    """Return the workbook of a config beside that of 2020, and where things are in it."""
    content = Content(Figures(config), BASE, "2020", PINS, truncation())
    return workbook(content.figures, BASE, "2020", PINS), content


def place(content: Content, key, name: str) -> tuple[str, str]:
    return "Decision", f"{LETTERS[name]}{content.levels().rows[key]}"


def check(book, config: Config, content: Content | None = None) -> None:
    """Check that every number in the workbook equals that of `phsafe budget`, and of the page for the pinned groups."""
    figures = Figures(config)
    content = content or made(config)[1]
    rows, sheet = content.levels().rows, book["Decision"]

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
        if content.base is not None and key in content.base.rows:
            was = content.base.rows[key]
            assert cell(key, "base_moe") == pytest.approx(was.moe, rel=CLOSE)
            assert cell(key, "change") == pytest.approx(row.moe / was.moe - 1, rel=CLOSE, abs=1e-12)
    for key in rows.keys() - figures.rows.keys():
        assert cell(key, "stated") == 0
        assert cell(key, "moe") in ("", None)
    labels = [TOTALS + i for i in range(1, 8)]
    for row, expected in zip(labels, totals_of(figures), strict=True):
        assert sheet[f"B{row}"].value == pytest.approx(
            expected, rel=1e-6 if "right" in sheet[f"A{row}"].value else CLOSE
        )
    check_groups(sheet, figures, content)
    check_tables(book, figures)


def closeness(figures: Figures, close: float) -> float:
    """Sums of noise of two scales, which only the structured mode of pure DP has, have no exact formula."""
    mixed = (figures.config.privacy, figures.config.sensitivity) == ("puredp", "structured")
    return 0.03 if mixed else close


def check_groups(sheet, figures: Figures, content: Content) -> None:
    """Check the pinned groups and what thresholds leave out against the page's own numbers."""
    for i, (name, tau) in enumerate(figures.config.tau.items()):
        expected = content.shares.dropped(name, tau) / 100
        assert sheet[f"D{content.thresholds + i}"].value == pytest.approx(expected, rel=CLOSE)
    for i, pin in enumerate(content.pins):
        row = content.groups + i
        now = margin(pin, figures) if is_published(pin, figures) else None
        assert sheet[f"A{row}"].value == pin.label
        if now is None:
            assert sheet[f"F{row}"].value in ("", None)
            continue
        close = closeness(figures, 1e-6)
        assert sheet[f"F{row}"].value == pytest.approx(now["moe"], rel=close)
        size, unit = pin.sizes
        size = size if unit is None else size / unit
        assert sheet[f"G{row}"].value == pytest.approx(max(0, size - now["moe"]), rel=close)
        assert sheet[f"H{row}"].value == pytest.approx(size + now["moe"], rel=close)
        tau = figures.config.tau[pin.sums.count.tabulation]
        left_out = pin.sizes[0] * dropped_share(pin, tau, content.shares)
        assert sheet[f"M{row}"].value == pytest.approx(left_out, rel=1e-6, abs=1e-9)


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
        for level, value in zip(figures.config.catalog.levels, row[6:], strict=True):
            if (part.tabulation, level.key) in figures.rows:
                assert value == pytest.approx(figures.moe(part, level.key), rel=closeness(figures, CLOSE))
            else:
                assert value in ("", None)
    averages = [table for table in figures.config.catalog.tables if table.average is not None]
    for table, row in zip(averages, book["Group"].iter_rows(min_row=8, values_only=True), strict=True):
        for level, value in zip(figures.config.catalog.levels, row[1:], strict=True):
            if level in line_sums.table_levels(figures.config, table):
                total = line_sums.line_sums(figures.config, table)[0]
                assert value == pytest.approx(figures.average_moe(total, level.key, 1520, 648), rel=1e-6)


@pytest.mark.needs("soffice")
@pytest.mark.parametrize("mode", ["tight", "structured"])
def test_recalculation_equals_phsafe_budget_before_and_after_ten_changes(tmp_path, mode):
    content, where = made(US)
    check(recalculated(content, tmp_path), US, where)
    changes = {
        ("Decision", f"B{MODE}"): mode,
        ("Decision", f"B{where.thresholds}"): 7,
        ("Decision", f"B{where.thresholds + 2}"): 9,
        place(where, ("PH3", "state_A-G"), "budget"): 0.25,
        place(where, ("PH1_denom", "state_*"), "budget"): 5,
        place(where, ("PH7", "usa_*"), "target"): 123,
        place(where, ("PH3", "usa_*"), "target"): 77,
        place(where, ("PH4", "state_H,I"), "target"): 44.5,
        place(where, ("PH6", "state_*"), "on"): "no",
        place(where, ("PH8_denom", "usa_A-G"), "budget"): 0.01,
    }
    assert len(changes) == 10
    budgets = {name: dict(levels) for name, levels in US.budgets.items()}
    changed = replace(US, sensitivity=mode, tau={**US.tau, "PH1_num": 7, "PH3": 9}, budgets=budgets)
    budgets["PH3"]["state_A-G"] = Decimal("0.25")
    budgets["PH1_denom"]["state_*"] = Decimal(5)
    budgets["PH8_denom"]["usa_A-G"] = Decimal("0.01")
    budgets["PH6"]["state_*"] = Decimal(0)
    for key, target in ((("PH7", "usa_*"), "123"), (("PH3", "usa_*"), "77"), (("PH4", "state_H,I"), "44.5")):
        budgets[key[0]][key[1]] = budget_for(changed, key, Decimal(target))
    check(recalculated(content, tmp_path, changes), changed, where)


@pytest.mark.needs("soffice")
def test_the_papers_targets_give_the_papers_budgets(tmp_path):
    content, where = made(US)
    figures = Figures(US)
    changes = {place(where, key, "target"): float(figures.row(key)["target"]) for key in figures.rows}
    check(recalculated(content, tmp_path, changes), US, where)


@pytest.mark.needs("soffice")
@pytest.mark.parametrize("mode", ["published", "structured"])
def test_recalculation_under_pure_dp(tmp_path, mode):
    content, where = made(US)
    pure = {("Decision", f"B{DEFINITION}"): "puredp", ("Decision", f"B{MODE}"): mode}
    check(recalculated(content, tmp_path, pure), replace(US, privacy="puredp", sensitivity=mode), where)


@pytest.mark.needs("soffice")
def test_recalculation_of_what_truncation_drops(tmp_path):
    measured = Config.load(parameters_2020("us-measured"))
    content, where = made(measured)
    tight = {("Decision", f"B{MODE}"): "tight"}
    check(recalculated(content, tmp_path, tight), replace(measured, sensitivity="tight"), where)
    changes = {
        ("Decision", f"B{MODE}"): "tight-bounded",
        ("Decision", f"B{where.thresholds}"): 7,
        place(where, ("PH1_dropped", "state_*"), "target"): 30,
        place(where, ("PH7_oversized", "usa_*"), "on"): "no",
    }
    budgets = {name: dict(levels) for name, levels in measured.budgets.items()}
    changed = replace(measured, sensitivity="tight-bounded", tau={**measured.tau, "PH1_num": 7}, budgets=budgets)
    budgets["PH1_dropped"]["state_*"] = budget_for(changed, ("PH1_dropped", "state_*"), Decimal(30))
    budgets["PH7_oversized"]["usa_*"] = Decimal(0)
    book = recalculated(content, tmp_path, changes)
    check(book, changed, where)
    row = where.levels().rows
    thresholds = {
        t.name: book["Decision"][f"{LETTERS['tau']}{row[t.name, 'usa_*']}"].value for t in CENSUS_2020.truncation
    }
    assert thresholds == {t.name: changed.tau_of(t) for t in CENSUS_2020.truncation}


@pytest.mark.needs("soffice")
def test_a_chosen_share_of_blind_cells_and_puerto_rico(tmp_path):
    chosen = replace(US, sensitivity="structured", blind_share={"PH3": Decimal("0.25")})
    content, where = made(chosen)
    check(recalculated(content, tmp_path), chosen, where)
    puerto_rico = Config.load("examples/pr.json")
    plain = Content(Figures(puerto_rico), None, "", [], truncation())
    check(recalculated(workbook(Figures(puerto_rico)), tmp_path), puerto_rico, plain)


@pytest.mark.needs("soffice")
def test_the_size_of_a_pinned_group_is_an_input(tmp_path):
    content, where = made(US)
    book = recalculated(content, tmp_path, {("Decision", f"C{where.groups}"): 1000})
    moe = margin(PINS[0], BASE)["moe"]
    assert book["Decision"][f"G{where.groups}"].value == pytest.approx(1000 - moe, rel=1e-6)


def test_stored_results_are_right_without_recalculation(tmp_path):
    path = tmp_path / "book.xlsx"
    command(Path("examples/us.json"), path)
    book = openpyxl.load_workbook(path, data_only=True)
    sheet, rows = book["Decision"], made(US)[1].levels().rows
    for row in budget(US).rows:
        position = rows[row.event.tabulation, row.event.level]
        assert sheet[f"{LETTERS['moe']}{position}"].value == row.moe
    with pytest.raises(PHSafeError, match="doesn't exist yet"):
        command(Path("examples/us.json"), path)


def test_formulas_are_protected_and_inputs_are_not(tmp_path):
    path = tmp_path / "book.xlsx"
    path.write_bytes(made(US)[0])
    book = openpyxl.load_workbook(path)
    assert all(sheet.protection.sheet for sheet in book)
    assert len(book["Decision"]._charts) == 2
    inputs = 0
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                formula = cell.data_type == "f"
                assert not (formula and not cell.protection.locked)
                inputs += not cell.protection.locked
    levels = sum(len(US.catalog.levels_of(tabulation)) for tabulation in US.catalog.tabulations)
    sizes = sum(len(pin.parts) for pin in PINS)
    assert inputs == levels * 3 + 6 + 3 + 2 + sizes


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
