"""HTML representations of results for notebooks: short summary tables. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from phsafe.display.html import Child, Html, el, join, printable
from phsafe.model.exact_numbers import round_up, text

if TYPE_CHECKING:
    from phsafe.estimation import Estimates
    from phsafe.privacy.accountant import Loss
    from phsafe.privacy.budgets import Budget, BudgetRow
    from phsafe.privacy.mode_comparison import Comparison
    from phsafe.releases.release_folder import Release


def release_html(release: Release) -> str:
    """Summarise a release: id, privacy loss and files."""
    from phsafe.configs import grid  # noqa: PLC0415  (displaying a budget needs no NumPy)

    config = release.config
    rows = [
        (output.name, ", ".join(level.key for level in levels), f"{grid.rows(config, output).height:,}")
        for output, levels in config.outputs()
    ]
    note = f"release.table({_example(release.tables)}) returns the noisy measurements behind a table"
    return join(
        el("p", el("b", "Release "), el("code", printable(release.release_id, 80))),
        el("p", _loss(release.budget.loss)),
        _table(("Noisy measurements", "Levels", "Rows"), rows, text_columns=2),
        el("p", el("small", note)),
    )


def estimates_html(estimates: Estimates) -> str:
    """Summarise finished tables: method, noise test, and how many cells are unreliable."""
    rows = []
    for table in estimates.config.catalog.tables:
        if table.name in estimates.tables:
            frame = estimates.tables[table.name]
            wide = int((frame["UPPER_90"] - frame["LOWER_90"] > frame["ESTIMATE"]).sum())
            groups = frame.select("REGION_TYPE", "REGION_ID", "ITERATION_CODE").n_unique()
            rows.append((f"{table.name} {table.title}", f"{groups:,}", f"{frame.height:,}", f"{wide:,}"))
    test = estimates.diagnostics.get("noise_test")
    verdict = f" Noise test: {printable(test.get('verdict'))}." if isinstance(test, dict) else ""
    note = f"estimates.table({_example(estimates.tables)}) returns a table, estimates.plot(…) a chart"
    return join(
        el("p", el("b", "Finished tables"), f", {estimates.method} method, with 90 % intervals.{verdict}"),
        _table(("Table", "Groups", "Cells", "Interval wider than estimate"), rows),
        el("p", el("small", note)),
    )


def budget_html(budget: Budget) -> str:
    """Summarise a budget: the privacy loss of the run, and the margin of error and loss of each level."""
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
    """Compare sensitivity modes: privacy losses, then margins of error."""
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
        _table(("90 % MOE", "Level", *names), margins, text_columns=2),
    )


def _level(row: BudgetRow | None) -> str:
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


def _amount(loss: Loss, neighbours: str) -> str:
    return round_up(loss.unbounded if neighbours == "unbounded" else loss.bounded, 6)


def _example(names: Iterable[str]) -> str:
    return next((f'"{name}"' for name in names), "…")


def _table(head: Sequence[str], rows: Iterable[Sequence[Child]], text_columns: int = 1) -> Html:
    """A table whose first columns are left-aligned text; the others are right-aligned numbers."""

    def cells(name: str, row: Sequence[Child]) -> Html:
        return el(
            "tr",
            *(
                el(name, cell, style=f"text-align: {'left' if i < text_columns else 'right'}")
                for i, cell in enumerate(row)
            ),
        )

    return el("table", el("thead", cells("th", head)), el("tbody", *(cells("td", row) for row in rows)))
