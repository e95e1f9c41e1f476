"""Where the budget went, and how accurate every noisy count is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from phsafe.budgets import UNITS
from phsafe.display.html import Child, Html, el, join
from phsafe.display.numbers import NOTHING, share
from phsafe.levels import Level
from phsafe.reporting.parts import section, table
from phsafe.reporting.privacy import amount
from phsafe.reporting.subject import Subject

#: Colours that the page has for levels; more levels take them again.
COLOURS = 6


def levels_of(subject: Subject) -> tuple[Level, ...]:
    """The levels that have a budget, in the catalog's order."""
    used = {m.level.key for m in subject.config.measurements()}
    return tuple(level for level in subject.config.catalog.levels if level.key in used)


def name_of(level: Level) -> str:
    """A level in words: geography and who is told apart."""
    codes = [i.code for i in level.iteration_level.iterations]
    if level.iteration_level.is_total:
        who = "everyone"
    else:
        who = f"{codes[0]} to {codes[-1]}" if len(codes) > 2 else " and ".join(codes)
    return f"{level.geography.label}, {who}"


def spending(subject: Subject) -> Html:
    """The section that shows which table and level took which part of the privacy loss."""
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
            f"{name_of(level)} ",
            el("b", share(float(by_level[level.key].unbounded / total))),
        )
        for level in levels
    ]
    return section(
        "budget",
        "Where the privacy budget went",
        el(
            "p",
            f"The loss {unit} = {amount(total)} (one person added or removed) is the sum of what every table costs at "
            "every level. What costs more is more accurate.",
        ),
        el("ul", *legend, class_="legend"),
        table(
            "Privacy loss by tabulation and level",
            ["Tabulation", el("span", "Share, by level", class_="sr"), "Share", unit],
            rows,
            class_="budget",
            words=2,
        ),
    )


def _bar(parts: Sequence[tuple[str, Fraction]], name: str) -> Html:
    """A stacked bar on a scale from 0 to 1; decorative, because the numbers stand beside it."""
    left = Fraction(0)
    pieces = []
    for colour, width in parts:
        pieces.append(
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
    return el("svg", *pieces, viewBox="0 0 1000 10", preserveAspectRatio="none", class_="bar", aria_hidden="true")


def margins(subject: Subject) -> Html:
    """The section with the margin of error of a noisy count, by tabulation and level."""
    levels = levels_of(subject)
    unit = UNITS[subject.config.privacy]
    return section(
        "accuracy",
        "How accurate the noisy counts are",
        el(
            "p",
            "The 90 % margin of error (MOE) of one noisy count: in nine of ten cases the noise is no larger. Below it "
            f"the budget {unit} of that level. It does not depend on how large the count is, so large groups come out "
            "precise and small ones don’t. Finished tables combine several counts and are often more accurate.",
        ),
        table(
            "90 % margin of error of a basis cell",
            [
                "Tabulation",
                el("abbr", "τ", title="people counted of one household, at most"),
                *map(name_of, levels),
            ],
            _margin_rows(subject, levels),
            class_="moe",
        ),
    )


def _margin_rows(subject: Subject, levels: Sequence[Level]) -> Iterator[list[Child]]:
    config = subject.config
    rows = {(row.event.tabulation, row.event.level): row for row in subject.budget.rows}
    for output, _ in config.outputs():
        source = config.catalog.measured(output).name
        if source != output.name:
            note = el("small", f"added up from {source}, at no cost")
            yield [join(output.name, note), *[""] * (len(levels) + 1)]
            continue
        tau = config.tau.get(source)
        cells: list[Child] = [source, str(tau) if tau else NOTHING]
        for level in levels:
            row = rows.get((source, level.key))
            if row is None:
                cells.append(NOTHING)
            else:
                moe = f"{row.moe:,.0f}" if row.moe >= 10 else f"{row.moe:,.1f}"
                cells.append(join(f"±\u202f{moe}", el("small", amount(row.event.loss.unbounded))))
        yield cells
