"""How results show themselves in a notebook: small tables of what they hold. Every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from phsafe.display.html import Child, Html, el, join, printable
from phsafe.exact import round_up, text

if TYPE_CHECKING:
    from phsafe.budgets import Budget, Comparison, Row
    from phsafe.estimation import Estimates
    from phsafe.folder import Release
    from phsafe.privacy.accountant import Loss


def release_html(release: Release) -> str:
    """A release: its id, its loss, and its files."""
    from phsafe import grid  # noqa: PLC0415  (budgets are shown without NumPy)

    config = release.config
    rows = [
        (output.name, ", ".join(level.key for level in levels), f"{grid.rows(config, output).height:,}")
        for output, levels in config.outputs()
    ]
    note = f"release.table({_example(release.tables)}) gives the measurements behind a table"
    return join(
        el("p", el("b", "Release "), el("code", printable(release.release_id, 80))),
        el("p", _loss(release.budget.loss)),
        _table(("Noisy measurements", "Levels", "Rows"), rows, words=2),
        el("p", el("small", note)),
    )


def estimates_html(estimates: Estimates) -> str:
    """Finished tables: how they were made, and how many of their cells say little."""
    rows = []
    for table in estimates.config.catalog.tables:
        if table.name in estimates.tables:
            frame = estimates.tables[table.name]
            wide = int((frame["UPPER_90"] - frame["LOWER_90"] > frame["ESTIMATE"]).sum())
            groups = frame.select("REGION_TYPE", "REGION_ID", "ITERATION_CODE").n_unique()
            rows.append((f"{table.name} {table.title}", f"{groups:,}", f"{frame.height:,}", f"{wide:,}"))
    test = estimates.diagnostics.get("noise_test")
    verdict = f" Noise test: {printable(test.get('verdict'))}." if isinstance(test, dict) else ""
    note = f"estimates.table({_example(estimates.tables)}) gives a table, estimates.plot(…) a chart of it"
    return join(
        el("p", el("b", "Finished tables"), f", {estimates.method} method, with 90 % intervals.{verdict}"),
        _table(("Table", "Groups", "Cells", "Interval wider than estimate"), rows),
        el("p", el("small", note)),
    )


def budget_html(budget: Budget) -> str:
    """A budget: the loss of the run, and each level's part of it with its margin of error."""
    cells = {(row.event.tabulation, row.event.level): row for row in budget.rows}
    levels = [level.key for level in budget.config.catalog.levels if level.key in {key for _, key in cells}]
    rows = [
        (name, *(_level(cells.get((name, key))) for key in levels)) for name in dict.fromkeys(name for name, _ in cells)
    ]
    unit = "ρ" if budget.config.privacy == "zcdp" else "ε"
    return join(
        el("p", _loss(budget.loss), f" Sensitivity: {budget.config.sensitivity}."),
        _table((f"90 % MOE ({unit})", *levels), rows),
    )


def comparison_html(comparison: Comparison) -> str:
    """The modes side by side: losses, then margins of error."""
    budgets = comparison.budgets
    names = [str(b.config.sensitivity) for b in budgets]
    losses = [
        (name, _amount(b.loss, "unbounded"), _amount(b.loss, "bounded")) for name, b in zip(names, budgets, strict=True)
    ]
    margins = [
        (rows[0].event.tabulation, rows[0].event.level, *(f"{row.moe:,.2f}" for row in rows))
        for rows in zip(*(b.rows for b in budgets), strict=True)
    ]
    return join(
        _table(("Mode", "Unbounded loss", "Bounded loss"), losses),
        _table(("90 % MOE", "Level", *names), margins, words=2),
    )


def _level(row: Row | None) -> str:
    return "–" if row is None else f"{row.moe:,.2f} ({text(row.event.loss.unbounded)})"


def _loss(loss: Loss) -> Html:
    unit = "ρ" if loss.definition == "zcdp" else "ε"
    return join(
        "Privacy loss ",
        el("b", f"{unit} = {_amount(loss, 'unbounded')}"),
        " (one person added or removed), ",
        el("b", f"{unit} = {_amount(loss, 'bounded')}"),
        " (one person’s record replaced).",
    )


def _amount(loss: Loss, kind: str) -> str:
    return round_up(loss.unbounded if kind == "unbounded" else loss.bounded, 6)


def _example(names: Iterable[str]) -> str:
    return next((f'"{name}"' for name in names), "…")


def _table(head: Sequence[str], rows: Iterable[Sequence[Child]], words: int = 1) -> Html:
    def cells(name: str, row: Sequence[Child]) -> Html:
        return el(
            "tr",
            *(el(name, cell, style=f"text-align: {'left' if i < words else 'right'}") for i, cell in enumerate(row)),
        )

    return el("table", el("thead", cells("th", head)), el("tbody", *(cells("td", row) for row in rows)))
