"""The sheet “Decision”: inputs, totals, pinned groups and levels with the baseline beside them, and charts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phsafe.explorer.error_curve import dropped_share
from phsafe.explorer.figures import Figures
from phsafe.explorer.group_margins import is_published, margin
from phsafe.explorer.pinned_groups import PinnedGroup
from phsafe.explorer.plain_language import guesses
from phsafe.explorer.public_tables import Truncation
from phsafe.explorer.workbook_formulas import letters
from phsafe.explorer.workbook_levels import HEAD_HEIGHT, SHEET, Levels
from phsafe.model.exact_numbers import text
from phsafe.privacy_math.margins import Z

if TYPE_CHECKING:
    from xlsxwriter import Workbook
    from xlsxwriter.format import Format
    from xlsxwriter.worksheet import Worksheet

    from phsafe.explorer.workbook import Styles

MODES = ["published", "tight", "tight-bounded", "structured"]
DEFINITIONS = ["zcdp", "puredp"]
#: Rows of the inputs and of the first total, threshold and group; later ones follow from the config.
MODE, DEFINITION, DELTA, TOTALS = 4, 5, 6, 8
LOST = "Left out"
#: Thresholds of the table of shares on the hidden sheet; a larger threshold counts as the last.
LAST_TAU = 20


@dataclass(frozen=True)
class Content:
    """What a workbook shows: figures, those of the baseline with its name, pinned groups, and shares of truncation."""

    figures: Figures
    base: Figures | None
    base_name: str
    pins: list[PinnedGroup]
    shares: Truncation

    @property
    def thresholds(self) -> int:
        """The row of the first threshold."""
        return TOTALS + 10

    @property
    def groups(self) -> int:
        """The row of the first pinned group."""
        return self.thresholds + len(self.figures.config.tau) + 3

    def levels(self) -> Levels:
        """Return the table of levels, at its place on the sheet."""
        rows = {name: f"$B${self.thresholds + i}" for i, name in enumerate(self.figures.config.tau)}
        return Levels(self.figures, self.groups + len(self.pins) + 3, self.base, rows)


def decision(book: Workbook, sheet: Worksheet, styles: Styles, content: Content) -> Levels:
    """Write the sheet."""
    levels = content.levels()
    sheet.set_column(0, 0, 58)
    sheet.set_column(1, 1, 26)
    sheet.set_column(2, 17, 13)
    sheet.write_string(0, 0, "PHExplore: what to publish, and how accurately", styles.title)
    sheet.write_string(1, 0, "Yellow cells are inputs. Grey numbers are the baseline and don't change.", styles.text)
    _parameters(book, sheet, styles, content)
    _totals(book, sheet, styles, content, levels)
    _thresholds(sheet, styles, content)
    _groups(sheet, styles, content, levels)
    levels.write(book, sheet, styles)
    _charts(book, sheet, content)
    _lost(book, content)
    sheet.freeze_panes(2, 1)
    sheet.protect("", {"format_columns": True, "format_rows": True})
    return levels


def _heads(sheet: Worksheet, styles: Styles, row: int, *heads: str) -> None:
    for i, head in enumerate(heads):
        sheet.write_string(row - 1, i, head, styles.head)


def _parameters(book: Workbook, sheet: Worksheet, styles: Styles, content: Content) -> None:
    config, base = content.figures.config, content.base
    _heads(sheet, styles, MODE - 1, "Parameters", "Now", content.base_name)
    for row, label, value, choices in (
        (MODE, "Sensitivity", config.sensitivity, MODES),
        (DEFINITION, "Privacy definition", config.privacy, DEFINITIONS),
    ):
        sheet.write_string(row - 1, 0, label, styles.text)
        sheet.write_string(row - 1, 1, value, styles.input)
        _validate(sheet, row, 1, {"validate": "list", "source": choices})
    sheet.write_string(DELTA - 1, 0, "δ (for ε)", styles.text)
    sheet.write_number(DELTA - 1, 1, float(content.figures.delta), styles.input)
    _validate(sheet, DELTA, 1, {"validate": "decimal", "criteria": "between", "minimum": 1e-300, "maximum": 0.5})
    if base is not None:
        sheet.write_string(MODE - 1, 2, base.config.sensitivity, styles.base)
        sheet.write_string(DEFINITION - 1, 2, base.config.privacy, styles.base)
        sheet.write_string(DELTA - 1, 2, str(base.delta).lower(), styles.base)
    for name, row in (("mode", MODE), ("definition", DEFINITION), ("delta", DELTA)):
        book.define_name(name, f"={SHEET}!$B${row}")


def totals_of(figures: Figures) -> list[float]:
    """Return the totals that the sheet shows, in its order."""
    loss, config = figures.loss, figures.config
    return [
        float(config.total),
        float(loss.unbounded),
        float(loss.bounded),
        loss.epsilon(figures.delta),
        loss.epsilon_bounded(figures.delta),
        guesses(config.privacy, loss.unbounded),
        guesses(config.privacy, loss.bounded),
    ]


def _totals(book: Workbook, sheet: Worksheet, styles: Styles, content: Content, levels: Levels) -> None:
    _heads(sheet, styles, TOTALS, "Privacy loss of the whole run", "Now", content.base_name, "Change", "What it means")
    unbounded = levels.joint("staying", "entering")
    bounded = levels.joint("staying_bounded", "entering_bounded")
    lines: list[tuple[str, str, Format, str]] = [
        ("Sum of stated budgets", f"=ROUND(SUM({levels.column('stated')}),12)", styles.budget, "as in the config"),
        ("Unbounded loss", f"=ROUND({unbounded},12)", styles.budget, "one person added or removed"),
        ("Bounded loss", f"=ROUND({bounded},12)", styles.budget, "one person's record changed"),
        ("ε at δ, unbounded", '=IF(definition="zcdp",Epsilon!$B$4,loss_unbounded)', styles.epsilon,
         "smallest over all Rényi orders α"),
        ("ε at δ, bounded", '=IF(definition="zcdp",Epsilon!$I$4,loss_bounded)', styles.epsilon, ""),
        ("Attacker is right, unbounded", _guess("loss_unbounded"), styles.share, "whether a person was counted"),
        ("Attacker is right, bounded", _guess("loss_bounded"), styles.share,
         "which of two values a person's record holds"),
    ]  # fmt: skip
    now = totals_of(content.figures)
    was = None if content.base is None else totals_of(content.base)
    for i, (label, formula, style, note) in enumerate(lines):
        row = TOTALS + i
        sheet.write_string(row, 0, label, styles.text)
        sheet.write_formula(row, 1, formula, style, now[i])
        if was is not None:
            grey = {id(styles.share): styles.base_share, id(styles.epsilon): styles.base_epsilon}
            sheet.write_number(row, 2, was[i], grey.get(id(style), styles.base_budget))
            sheet.write_formula(row, 3, f"=$B{row + 1}/$C{row + 1}-1", styles.change, now[i] / was[i] - 1)
        sheet.write_string(row, 4, note, styles.note)
    book.define_name("loss_unbounded", f"={SHEET}!$B${TOTALS + 2}")
    book.define_name("loss_bounded", f"={SHEET}!$B${TOTALS + 3}")


def _thresholds(sheet: Worksheet, styles: Styles, content: Content) -> None:
    heads = ("Thresholds (most people counted per household)", "τ now", content.base_name, "People left out")
    _heads(sheet, styles, content.thresholds - 1, *heads)
    for i, (name, tau) in enumerate(content.figures.config.tau.items()):
        row = content.thresholds + i
        sheet.write_string(row - 1, 0, name, styles.text)
        sheet.write_number(row - 1, 1, tau, styles.input)
        _validate(sheet, row, 1, {"validate": "integer", "criteria": "between", "minimum": 1, "maximum": 99999})
        if content.base is not None and name in content.base.config.tau:
            sheet.write_number(row - 1, 2, content.base.config.tau[name], styles.base_whole)
        dropped = content.shares.dropped(name, min(tau, LAST_TAU))
        if dropped is not None:
            sheet.write_formula(row - 1, 3, f"={_lost_share(i, f'$B${row}')}", styles.small_share, dropped / 100)


def _groups(sheet: Worksheet, styles: Styles, content: Content, levels: Levels) -> None:
    """Write the pinned groups: sizes are inputs, and margins follow the levels below."""
    heads = (
        "Pinned groups (before joint estimation)", "Table and line", "People", "Households", "Count or average",
        "MOE now", "From", "To", f"MOE, {content.base_name}", "Change", "MOE, % of it", f"{content.base_name}, %",
        "People left out",
    )  # fmt: skip
    _heads(sheet, styles, content.groups - 1, *heads)
    sheet.set_row(content.groups - 2, HEAD_HEIGHT)
    for i, pin in enumerate(content.pins):
        row = content.groups + i
        people, units = pin.sizes
        sheet.write_string(row - 1, 0, pin.label, styles.wrap)
        sheet.set_row(row - 1, 30)
        sheet.write_string(row - 1, 1, f"{pin.table.name}, line {pin.line.number}", styles.text)
        _size(sheet, styles, row, 2, people)
        if pin.sums.per is not None:
            _size(sheet, styles, row, 3, units)
        _group_formulas(sheet, styles, content, levels, (i, row, pin))


def _group_formulas(
    sheet: Worksheet, styles: Styles, content: Content, levels: Levels, group: tuple[int, int, PinnedGroup]
) -> None:
    i, row, pin = group
    count, per, level = pin.sums.count, pin.sums.per, pin.level.key
    average = per is not None
    size = f"$C{row}/$D{row}" if average else f"$C{row}"
    households = f",N($D{row})>0" if average else ""
    known = f"AND({levels.published(pin.parts, level)},N($C{row})>0{households})"
    if per is None:
        moe = levels.moe(count, level)
    else:
        noise = f"{levels.variance(count, level)}+($C{row}/$D{row})^2*{levels.variance(per, level)}"
        moe = f"{text(Z)}*SQRT({noise})/$D{row}"
    number = styles.small if average else styles.whole
    now = margin(pin, content.figures) if is_published(pin, content.figures) else None
    formulas: list[tuple[int, str, Any]] = [
        (4, f'=IF({known},{size},"")', styles.number if average else styles.whole),
        (5, f'=IF({known},{moe},"")', styles.small if average else styles.number),
        (6, f'=IF({known},MAX(0,$E{row}-$F{row}),"")', number),
        (7, f'=IF({known},$E{row}+$F{row},"")', number),
        (9, f'=IF(AND({known},N($I{row})>0),$F{row}/$I{row}-1,"")', styles.change),
        (10, f'=IF({known},$F{row}/$E{row},"")', styles.share),
    ]
    base = content.base
    was = margin(pin, base) if base is not None and is_published(pin, base) else None
    values = _stored(pin, now, was)
    for column, formula, style in formulas:
        sheet.write_formula(row - 1, column, formula, style, values.get(column, ""))
    if was is not None:
        sheet.write_number(row - 1, 8, was["moe"], styles.base_small if average else styles.base)
        sheet.write_number(row - 1, 11, was["moe"] / values[4], styles.base_share)
    if count.tabulation in content.figures.config.tau:
        tau = list(content.figures.config.tau).index(count.tabulation)
        share = _lost_share(len(content.figures.config.tau) + i, f"$B${content.thresholds + tau}")
        known_share = dropped_share(pin, content.figures.config.tau[count.tabulation], content.shares)
        left_out = "" if known_share is None or pin.sizes[0] is None else pin.sizes[0] * known_share
        sheet.write_formula(row - 1, 12, f'=IF(N($C{row})>0,$C{row}*{share},"")', styles.number, left_out)


def _stored(pin: PinnedGroup, now: dict[str, Any] | None, was: dict[str, Any] | None) -> dict[int, float]:
    """Return the results of a group's formulas by column, for viewers that don't calculate."""
    people, units = pin.sizes
    if people is None or (pin.sums.per is not None and units is None):
        return {}
    size = people if units is None else people / units
    if now is None:
        return {4: size}
    moe = now["moe"]
    found = {4: size, 5: moe, 6: max(0.0, size - moe), 7: size + moe, 10: moe / size}
    return found if was is None else {**found, 9: moe / was["moe"] - 1}


def _size(sheet: Worksheet, styles: Styles, row: int, column: int, size: float | None) -> None:
    if size is None:
        sheet.write_blank(row - 1, column, None, styles.input)
    else:
        sheet.write_number(row - 1, column, size, styles.input)
    _validate(sheet, row, column, {"validate": "decimal", "criteria": ">", "value": 0})


def _lost_share(column: int, tau: str) -> str:
    """Return the formula of the share of people that a threshold drops, from the hidden sheet."""
    letter = letters(1 + column)
    return f"INDEX('{LOST}'!${letter}$2:${letter}${LAST_TAU + 1},MIN({tau},{LAST_TAU}))"


def _lost(book: Workbook, content: Content) -> None:
    """Write the hidden sheet with the shares that each threshold drops, of each tabulation and pinned group."""
    sheet = book.add_worksheet(LOST)
    sheet.write_string(0, 0, "τ")
    names = list(content.figures.config.tau)
    for tau in range(1, LAST_TAU + 1):
        sheet.write_number(tau, 0, tau)
        for i, name in enumerate(names):
            sheet.write_number(tau, 1 + i, (content.shares.dropped(name, tau) or 0) / 100)
        for i, pin in enumerate(content.pins):
            sheet.write_number(tau, 1 + len(names) + i, dropped_share(pin, tau, content.shares) or 0)
    for i, name in enumerate((*names, *(pin.id for pin in content.pins))):
        sheet.write_string(0, 1 + i, name)
    sheet.protect()
    sheet.hide()


def _charts(book: Workbook, sheet: Worksheet, content: Content) -> None:
    """Draw the totals, and the margins of the pinned groups in percent, each beside the baseline."""
    first, last = content.groups, content.groups + len(content.pins) - 1
    plots = [("ε and losses", "A", (TOTALS + 1, TOTALS + 5), ("B", "C"), "General")]
    if content.pins:
        plots.append(("Margin of error of the pinned groups, % of their size", "A", (first, last), ("K", "L"), "0%"))
    for i, (title, names, (top, bottom), columns, form) in enumerate(plots):
        chart = book.add_chart({"type": "bar"})
        for column, name in zip(columns, ("now", content.base_name or "baseline"), strict=True):
            chart.add_series(
                {
                    "name": name,
                    "categories": f"={SHEET}!${names}${top}:${names}${bottom}",
                    "values": f"={SHEET}!${column}${top}:${column}${bottom}",
                }
            )
        chart.set_title({"name": title, "name_font": {"size": 11}})
        chart.set_y_axis({"reverse": True, "num_font": {"size": 8}})
        chart.set_x_axis({"num_format": form})
        chart.set_legend({"position": "bottom"})
        chart.set_size({"width": 620, "height": 300})
        sheet.insert_chart(MODE - 2, 7 if i == 0 else 13, chart, {"object_position": 3})


def _validate(sheet: Worksheet, row: int, column: int, rule: dict[str, Any]) -> None:
    sheet.data_validation(row - 1, column, row - 1, column, {"error_title": "Invalid input", **rule})


def _guess(loss: str) -> str:
    return f'=IF(definition="zcdp",NORMSDIST(SQRT({loss}/2)),1/(1+EXP(-{loss})))'
