"""A workbook with live formulas: change an input in Excel or LibreOffice, and every number is recalculated.

Text is always written as text, so a spreadsheet never evaluates it. Formula cells are protected; inputs are marked and
validated. Results are stored with the formulas, so viewers that can't calculate show them too.
"""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

from phsafe.errors import PHSafeError
from phsafe.explorer import workbook_tables
from phsafe.explorer.figures import Figures
from phsafe.explorer.plain_language import guesses
from phsafe.explorer.workbook_levels import FIRST_THRESHOLD, Levels

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

MODES = ["published", "tight", "tight-bounded"]
DEFINITIONS = ["zcdp", "puredp"]
PARAMETERS = "Parameters"
#: Number of steps, and ratio, of the golden-section search for ε.
GOLDEN_STEPS = 95
GOLDEN = "0.618033988749894848"
#: Characters per line on the sheet “Read me”.
WIDTH = 110

READ_ME = (
    ("PHExplore: accuracy against privacy", True),
    ("Yellow cells are inputs; everything else is a formula and is protected (no password).", False),
    ("All numbers agree with phsafe budget. This file contains no data about any person.", False),
    ("", False),
    ("Sheet “Parameters”", True),
    ("Sensitivity: the bound on one person's effect that noise is calibrated to. published is the 2020 bound; tight is "
     "the smallest bound that keeps the stated loss for a person added or removed; tight-bounded is the smallest that "
     "keeps the bounded loss, for a changed record. The tight modes assume that geography is public, and can protect a "
     "whole household less. Within a tabulation, a household that moves between cells doesn't enter or leave, so the "
     "loss of a run can be less than the sum over its levels.", False),
    ("Privacy: zcdp (discrete Gaussian noise, budgets are ρ) or puredp (two-sided geometric noise, budgets are ε).",
     False),
    ("δ: the probability at which ρ is converted to ε. Thresholds: the maximum number of people counted per household.",
     False),
    ("Privacy loss: unbounded for one person added or removed; bounded for one person's record changed.",
     False),
    ("Attacker is right: how often the best attacker, starting at 50:50, guesses right (a coin flip: 50 %).",
     False),
    ("", False),
    ("Sheet “Budgets”", True),
    ("Published: yes or no. Input: budget (uses column F) or moe (uses column G).", False),
    ("Stated budget: the budget for the config. For a target it is z²k/MOE² with z = 1.645, rounded half-even to six "
     "decimal places; if ⌊MOE⌋ would still exceed the target, the last place goes up by one.", False),
    ("Noise factor: k in σ² = k/ρ, or Δ in the scale Δ/ε of geometric noise. MOE: the 90 % margin of error of a basis "
     "cell by the paper's formula, 1.645σ. Exact MOE: the 90 % quantile of the noise itself.", False),
    ("", False),
    ("Sheet “Tables”: the MOE of every table line; for averages, of the numerator and the denominator.",
     False),
    ("Sheet “Group”: enter the size of a population group to see the MOE of its averages (delta method).", False),
)  # fmt: skip


class Styles:
    """The cell formats of the workbook."""

    def __init__(self, book: Workbook) -> None:
        self.title: Format = book.add_format({"bold": True, "font_size": 14})
        self.head: Format = book.add_format(
            {"bold": True, "text_wrap": True, "valign": "top", "bottom": 1, "bg_color": "#E8ECF2"}
        )
        self.text: Format = book.add_format({"valign": "top"})
        self.note: Format = book.add_format({"valign": "top", "indent": 1, "font_color": "#55617A"})
        self.epsilon: Format = book.add_format({"num_format": "0.000000"})
        self.wrap: Format = book.add_format({"text_wrap": True, "valign": "top"})
        self.input: Format = book.add_format(
            {"locked": False, "bg_color": "#FFF6CC", "border": 1, "border_color": "#D9C77A"}
        )
        self.number: Format = book.add_format({"num_format": "#,##0.00"})
        self.whole: Format = book.add_format({"num_format": "#,##0"})
        self.budget: Format = book.add_format({"num_format": "0.000000######"})
        self.share: Format = book.add_format({"num_format": "0.00%"})


def workbook(figures: Figures) -> bytes:
    """Return the workbook of a config as the bytes of an .xlsx file.

    Raises:
        PHSafeError: The config uses the structured mode, which has no formulas in the workbook.
    """
    if figures.config.sensitivity not in MODES:
        raise PHSafeError(
            f"the workbook has formulas for the modes {', '.join(MODES)}, got {figures.config.sensitivity}; use "
            "phsafe budget or phsafe explore, or choose another mode"
        )
    import xlsxwriter  # noqa: PLC0415

    file = BytesIO()
    book = xlsxwriter.Workbook(file, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    styles = Styles(book)
    _read_me(book, styles)
    parameters = book.add_worksheet(PARAMETERS)
    levels = Levels(figures)
    levels.write(book, styles)
    _parameters(book, parameters, styles, figures, levels)
    workbook_tables.tables(book, styles, figures, levels)
    workbook_tables.group(book, styles, figures, levels)
    _epsilon(book, styles)
    for sheet in book.worksheets():
        sheet.set_landscape()
        sheet.set_paper(9)
        sheet.fit_to_pages(1, 0)
    parameters.activate()
    book.close()
    return file.getvalue()


def _read_me(book: Workbook, styles: Styles) -> None:
    sheet = book.add_worksheet("Read me")
    sheet.set_column(0, 0, WIDTH)
    sheet.hide_gridlines(2)
    for row, (line, bold) in enumerate(READ_ME):
        sheet.write_string(row, 0, line, styles.title if bold else styles.wrap)
        if not bold and len(line) > WIDTH:
            sheet.set_row(row, 15 * math.ceil(len(line) / WIDTH))
    sheet.protect()


def _parameters(book: Workbook, sheet: Worksheet, styles: Styles, figures: Figures, levels: Levels) -> None:
    config = figures.config
    sheet.set_column(0, 0, 44)
    sheet.set_column(1, 1, 18)
    sheet.set_column(2, 2, 60)
    sheet.write_string(0, 0, "Parameters", styles.title)
    _choice(sheet, styles, 2, "Sensitivity", config.sensitivity, MODES)
    _choice(sheet, styles, 3, "Privacy definition", config.privacy, DEFINITIONS)
    sheet.write_string(4, 0, "δ (for ε)", styles.text)
    sheet.write_number(4, 1, float(figures.delta), styles.input)
    _validate(sheet, 4, {"validate": "decimal", "criteria": "between", "minimum": 1e-300, "maximum": 0.5})
    for name, row in (("mode", 3), ("definition", 4), ("delta", 5)):
        book.define_name(name, f"={PARAMETERS}!$B${row}")
    sheet.write_string(7, 0, "Thresholds (maximum people counted per household)", styles.head)
    sheet.write_string(7, 1, "τ", styles.head)
    for row, (name, tau) in enumerate(config.tau.items(), start=FIRST_THRESHOLD - 1):
        sheet.write_string(row, 0, name, styles.text)
        sheet.write_number(row, 1, tau, styles.input)
        _validate(sheet, row, {"validate": "integer", "criteria": "between", "minimum": 1, "maximum": 99999})
    totals = FIRST_THRESHOLD + len(config.tau)
    sheet.write_string(totals, 0, "Privacy loss of the whole run", styles.head)
    sheet.write_string(totals, 1, "", styles.head)
    loss = figures.loss
    lines: list[tuple[str, str, float, Format, str]] = [
        ("Sum of stated budgets", f"=ROUND(SUM({levels.column('stated')}),12)", float(config.total),
         styles.budget, "as in the config"),
        ("Unbounded loss", f"=ROUND({levels.joint('unbounded')},12)", float(loss.unbounded), styles.budget,
         "one person added or removed"),
        ("Bounded loss", f"=ROUND({levels.joint('bounded')},12)", float(loss.bounded), styles.budget,
         "one person's record changed"),
        ("ε at δ, unbounded", '=IF(definition="zcdp",Epsilon!$B$4,loss_unbounded)', loss.epsilon(figures.delta),
         styles.epsilon, "smallest over all Rényi orders α"),
        ("ε at δ, bounded", '=IF(definition="zcdp",Epsilon!$I$4,loss_bounded)',
         loss.epsilon_bounded(figures.delta), styles.epsilon, ""),
        ("Attacker is right, unbounded", _guess("loss_unbounded"), guesses(config.privacy, loss.unbounded),
         styles.share, "whether a person is in the data"),
        ("Attacker is right, bounded", _guess("loss_bounded"), guesses(config.privacy, loss.bounded),
         styles.share, "which of two values a person's record holds"),
    ]  # fmt: skip
    for row, (label, formula, value, style, note) in enumerate(lines, start=totals + 1):
        sheet.write_string(row, 0, label, styles.text)
        sheet.write_formula(row, 1, formula, style, value)
        sheet.write_string(row, 2, note, styles.note)
    book.define_name("loss_unbounded", f"={PARAMETERS}!$B${totals + 3}")
    book.define_name("loss_bounded", f"={PARAMETERS}!$B${totals + 4}")
    sheet.protect()


def _guess(loss: str) -> str:
    return f'=IF(definition="zcdp",NORMSDIST(SQRT({loss}/2)),1/(1+EXP(-{loss})))'


def _choice(sheet: Worksheet, styles: Styles, row: int, label: str, value: str, choices: list[str]) -> None:
    sheet.write_string(row, 0, label, styles.text)
    sheet.write_string(row, 1, value, styles.input)
    _validate(sheet, row, {"validate": "list", "source": choices})


def _validate(sheet: Worksheet, row: int, rule: dict[str, Any]) -> None:
    sheet.data_validation(row, 1, row, 1, {"error_title": "Invalid input", **rule})


def _epsilon(book: Workbook, styles: Styles) -> None:
    """Write the hidden sheet that computes ε: a golden-section search over orders α = 1 + e^t, one step per row."""
    sheet = book.add_worksheet("Epsilon")
    sheet.write_string(0, 0, "ε = min over α of αρ + (ln(1/δ) + (α−1)·ln(1−1/α) − ln α)/(α−1)", styles.title)
    for first, loss in ((1, "loss_unbounded"), (8, "loss_bounded")):
        low, high, left, right, f_left, f_right = (chr(ord("A") + first + i - 1) for i in range(6))
        last = 6 + GOLDEN_STEPS
        sheet.write_string(2, first, loss, styles.head)
        sheet.write_formula(3, first, f"=IF({loss}>0,MAX(0,{_epsilon_at(f'(({low}{last}+{high}{last})/2)', loss)}),0)")
        for i, head in enumerate(("low", "high", "left", "right", "f(left)", "f(right)")):
            sheet.write_string(4, first - 1 + i, head, styles.head)
        for row in range(6, last + 1):
            above = row - 1
            low_, high_ = ("=LN(0.000001)", "=LN(1000000000000)")
            if row > 6:
                low_ = f"=IF({f_left}{above}<={f_right}{above},{low}{above},{left}{above})"
                high_ = f"=IF({f_left}{above}<={f_right}{above},{right}{above},{high}{above})"
            cells = (
                low_,
                high_,
                f"={high}{row}-{GOLDEN}*({high}{row}-{low}{row})",
                f"={low}{row}+{GOLDEN}*({high}{row}-{low}{row})",
                f"={_epsilon_at(f'{left}{row}', loss)}",
                f"={_epsilon_at(f'{right}{row}', loss)}",
            )
            for i, formula in enumerate(cells):
                sheet.write_formula(row - 1, first - 1 + i, formula)
    sheet.protect()
    sheet.hide()


def _epsilon_at(t: str, loss: str) -> str:
    """Return a formula for the ε that order α = 1 + e^t gives."""
    log = f"LN(1+EXP({t}))"
    return f"((1+EXP({t}))*{loss}+(-LN(delta)+EXP({t})*({t}-{log})-{log})/EXP({t}))"
