"""The report sections on how the budget was spent and how accurate the noisy counts are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from phsafe.display.html import Child, Html, el, join
from phsafe.display.numbers import NOTHING, share
from phsafe.model.levels import Level
from phsafe.privacy.budgets import UNITS
from phsafe.reports.page_elements import section, table
from phsafe.reports.privacy_statement import amount
from phsafe.reports.report_subject import Subject

#: Number of level colours in the style sheet; further levels reuse them.
COLOURS = 6


def levels_of(subject: Subject) -> tuple[Level, ...]:
    """The levels that have a budget, in the catalog's order."""
    used = {m.level.key for m in subject.config.measurements()}
    return tuple(level for level in subject.config.catalog.levels if level.key in used)


def spending(subject: Subject) -> Html:
    """The section that breaks the privacy loss down by tabulation and level."""
    account, unit = subject.budget.account, UNITS[subject.config.privacy]
    total, levels = account.total.unbounded, levels_of(subject)
    colours = {level.key: f"c{i % COLOURS}" for i, level in enumerate(levels)}
    by_tabulation, by_level = account.totals("tabulation"), account.totals("level")
    most = max(loss.unbounded for loss in by_tabulation.values())
    rows: list[Sequence[Child]] = []
    for name, loss in by_tabulation.items():
        parts = [(e.level, e.loss.unbounded) for e in account.events if e.tabulation == name]
        rows.append(
            [
                name,
                _bar([(colours[key], part / most) for key, part in parts], name),
                share(float(loss.unbounded / total)),
                amount(loss.unbounded),
            ]
        )
    legend = [
        el(
            "li",
            el("i", class_=colours[level.key]),
            f"{level.label} ",
            el("b", share(float(by_level[level.key].unbounded / total))),
        )
        for level in levels
    ]
    return section(
        "budget",
        "How the privacy budget was spent",
        el(
            "p",
            f"The privacy loss {unit} = {amount(total)} (one person added or removed) is the sum of the losses of all "
            "tabulations at all levels. Of two levels of a tabulation, the one with the larger share is more accurate.",
        ),
        el("ul", *legend, class_="legend"),
        table(
            "Privacy loss by tabulation and level",
            ["Tabulation", el("span", "Share, by level", class_="sr"), "Share", unit],
            rows,
            class_="budget",
            text_columns=2,
        ),
    )


def _bar(parts: Sequence[tuple[str, Fraction]], name: str) -> Html:
    """A stacked bar on a scale from 0 to 1; hidden from screen readers, because the table gives the numbers."""
    left = Fraction(0)
    segments = []
    for colour, width in parts:
        segments.append(
            el(
                "rect",
                x=f"{float(left) * 1000:.2f}",
                y=0,
                width=f"{float(width) * 1000:.2f}",
                height=10,
                class_=colour,
            )
        )
        left += width
    return el("svg", *segments, viewBox="0 0 1000 10", preserveAspectRatio="none", class_="bar", aria_hidden="true")


def margins(subject: Subject) -> Html:
    """The section with the 90 % margin of error of a noisy count, by tabulation and level."""
    levels = levels_of(subject)
    unit = UNITS[subject.config.privacy]
    return section(
        "accuracy",
        "How accurate the noisy counts are",
        el(
            "p",
            "The 90 % margin of error (MOE) of a single noisy count: nine times out of ten the noise is no larger. The "
            f"number below it is the budget {unit} of the level. The MOE does not depend on the size of the count, so "
            "counts of large groups are relatively precise and counts of small groups are not. Finished tables combine "
            "several noisy counts and are often more accurate.",
        ),
        table(
            "90 % margin of error of a basis cell",
            [
                "Tabulation",
                el("abbr", "τ", title="truncation threshold: the most people counted in one household"),
                *(level.label for level in levels),
            ],
            _margin_rows(subject, levels),
            class_="moe",
        ),
    )


def _margin_rows(subject: Subject, levels: Sequence[Level]) -> Iterator[list[Child]]:
    config = subject.config
    rows = {(row.event.tabulation, row.event.level): row for row in subject.budget.rows}
    for output, _ in config.outputs():
        measured = config.catalog.measured(output)
        source = measured.name
        if source != output.name:
            note = el("small", f"summed from {source}, at no privacy cost")
            yield [join(output.name, note), *[""] * (len(levels) + 1)]
            continue
        tau = config.tau_of(measured)
        name = source if measured.beyond is None else join(source, el("small", config.catalog.title(measured)))
        cells: list[Child] = [name, str(tau) if tau else NOTHING]
        for level in levels:
            row = rows.get((source, level.key))
            if row is None:
                cells.append(NOTHING)
            else:
                moe = f"{row.moe:,.0f}" if row.moe >= 10 else f"{row.moe:,.1f}"
                cells.append(join(f"±\u202f{moe}", el("small", amount(row.event.loss.unbounded))))
        yield cells
