"""A workbook with live formulas: change an input in Excel or LibreOffice, and every number is recalculated.

Text is always written as text, so a spreadsheet never evaluates it. Formula cells are protected; inputs are marked and
validated. Results are stored with the formulas, so viewers that can't calculate show them too.
"""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.explorer import workbook_tables
from phsafe.explorer.figures import Figures
from phsafe.explorer.pinned_groups import PinnedGroup, defaults
from phsafe.explorer.public_tables import Truncation, truncation
from phsafe.explorer.workbook_decision import Content, decision
from phsafe.explorer.workbook_levels import SHEET
from phsafe.model.tables import CENSUS_2020

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.format import Format

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
    ("Sheet “Decision”", True),
    ("Parameters, totals, thresholds, pinned groups and levels, each beside the baseline (grey). Change a yellow cell, "
     "and everything is recalculated.", False),
    ("Sensitivity: the bound on one person's effect that noise is calibrated to. published is the 2020 bound; tight is "
     "the smallest bound that keeps the stated loss for a person added or removed; tight-bounded is the smallest that "
     "keeps the bounded loss, for a changed record; structured is tight, but counts cells that need no unit table "
     "separately, with the least noise. All but published assume that geography is public, and can protect a whole "
     "household less. Within a tabulation, a household that moves between cells doesn't enter or leave, so the loss of "
     "a run can be less than the sum over its levels.", False),
    ("Privacy: zcdp (discrete Gaussian noise, budgets are ρ) or puredp (two-sided geometric noise, budgets are ε). "
     "Budgets are not converted when you switch.", False),
    ("δ: the probability at which ρ is converted to ε. Thresholds: the maximum number of people counted per household; "
     "the share of people left out is from public data, for thresholds up to 20.", False),
    ("Privacy loss: unbounded for one person added or removed; bounded for one person's record changed.", False),
    ("Attacker is right: how often the best attacker, starting at 50:50, guesses right (a coin flip: 50 %).", False),
    ("Pinned groups: sizes are rounded public figures, which you can change. The margins are of the noisy counts, "
     "before joint estimation, which makes them smaller; averages are by the delta method.", False),
    ("Levels: type a budget or a margin of error. If both are given, the margin is used; clear it to use the budget. "
     "For a margin, the stated budget is z²k/MOE² with z = 1.645, rounded half-even to six decimal places; if ⌊MOE⌋ "
     "would still exceed the margin, the last place goes up by one.", False),
    ("Noise factor: k in σ² = k/ρ, or Δ in the scale Δ/ε of geometric noise. MOE: the 90 % margin of error of a basis "
     "cell by the paper's formula, 1.645σ. Exact MOE: the 90 % quantile of the noise itself.", False),
    ("", False),
    ("Sheet “Tables”: the MOE of every table line; for averages, of the numerator and the denominator.", False),
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
        self.small_share: Format = book.add_format({"num_format": "0.000%"})
        self.small: Format = book.add_format({"num_format": "0.0000"})
        self.change: Format = book.add_format({"num_format": "+0.0%;−0.0%;0%"})
        grey = {"font_color": "#55617A", "align": "right"}
        self.base: Format = book.add_format({"num_format": "#,##0.00", **grey})
        self.base_budget: Format = book.add_format({"num_format": "0.000000######", **grey})
        self.base_whole: Format = book.add_format({"num_format": "#,##0", **grey})
        self.base_small: Format = book.add_format({"num_format": "0.0000", **grey})
        self.base_epsilon: Format = book.add_format({"num_format": "0.000000", **grey})
        self.base_share: Format = book.add_format({"num_format": "0.00%", **grey})


def config_workbook(config: Config) -> bytes:
    """Return the workbook of a config beside the parameters of 2020, with the default groups."""
    puerto_rico, base = config.is_puerto_rico, None
    if config.catalog == CENSUS_2020:
        base = Figures(Config.load(parameters_2020("pr" if puerto_rico else "us")))
    pins = defaults(config.catalog, puerto_rico=puerto_rico)
    return workbook(Figures(config), base, "" if base is None else "2020", pins)


def workbook(
    figures: Figures,
    base: Figures | None = None,
    base_name: str = "",
    pins: list[PinnedGroup] | None = None,
    shares: Truncation | None = None,
) -> bytes:
    """Return the workbook of a config as the bytes of an .xlsx file.

    Args:
        figures: The figures of the config.
        base: The figures of the baseline, shown beside them.
        base_name: The name of the baseline.
        pins: The pinned groups.
        shares: The shares of people that each threshold drops; by default those that ship with the package.
    """
    import xlsxwriter  # noqa: PLC0415

    file = BytesIO()
    book = xlsxwriter.Workbook(file, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False})
    styles = Styles(book)
    sheet = book.add_worksheet(SHEET)
    levels = decision(book, sheet, styles, Content(figures, base, base_name, pins or [], shares or truncation()))
    workbook_tables.tables(book, styles, figures, levels)
    workbook_tables.group(book, styles, figures, levels)
    _epsilon(book, styles)
    _read_me(book, styles)
    for one in book.worksheets():
        one.set_landscape()
        one.set_paper(9)
        one.fit_to_pages(1, 0)
    sheet.activate()
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
