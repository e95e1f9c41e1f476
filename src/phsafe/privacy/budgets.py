"""The privacy loss and the accuracy of a config, level by level, computed without data.

All figures come from the planned account (`phsafe.privacy.accountant.plan`), which uses the same noise as a release of
the config, so they are the figures of the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phsafe.configs.config import Config
from phsafe.display import Svg
from phsafe.display.frames import Frames
from phsafe.display.notebook import budget_html
from phsafe.model.exact_numbers import dumps, round_up, text
from phsafe.model.spec import CatalogSource
from phsafe.privacy.accountant import DEFAULT_DELTA, Account, BlockEvent, Event, Loss, plan
from phsafe.privacy_math import margins

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType
    from rich.table import Table

    from phsafe.privacy_math.sensitivity import Definition, Mode

UNITS: Mapping[Definition, str] = {"zcdp": "ρ", "puredp": "ε"}
MODE_NOTES: Mapping[Mode, str] = {
    "published": "published (the paper's Δ)",
    "tight": "tight (calibrated to the unbounded loss)",
    "tight-bounded": "tight-bounded (calibrated to the bounded loss)",
    "structured": "structured (unbounded loss; cells that read only the person are counted without the unit table)",
}
#: What every mode but the published one assumes, and where it protects less.
MODE_CAVEAT = (
    "Assumes that the geography of an address is public. The loss is about one person; where the unit can't move "
    "people between cells, a change of a whole household can cost more."
)
NEIGHBOURS_NOTE = "unbounded: one person added or removed; bounded: one person's record changed"


@dataclass(frozen=True)
class BudgetRow:
    """The loss and accuracy of one tabulation at one level."""

    event: Event

    @property
    def moe(self) -> float:
        """The 90 % margin of error by the paper's formula, 1.645 σ (two-sided geometric: b·ln 10)."""
        noise = self.event.noise
        if self.event.definition == "zcdp":
            return margins.gaussian_moe(noise.variance)
        return margins.geometric_moe(noise.scale)

    @property
    def moe_exact(self) -> int:
        """The exact 90 % margin of error: the smallest m with the noise within ±m at least 90 % of the time."""
        noise = self.event.noise
        if self.event.definition == "zcdp":
            return margins.gaussian_quantile(noise.variance)
        return margins.geometric_quantile(noise.scale)

    def to_dict(self) -> dict[str, Any]:
        """The row as a dictionary, as written to JSON."""
        return {
            "tabulation": self.event.tabulation,
            "level": self.event.level,
            "tau": self.event.tau,
            "sensitivity": self.event.sensitivity,
            **loss_keys(self.event.loss),
            "sigma2": self.event.noise.variance,
            "moe": self.moe,
            **({} if len(self.event.blocks) == 1 else {"blocks": [_block_keys(one) for one in self.event.blocks]}),
        }


@dataclass(frozen=True, repr=False)
class Budget(Frames):
    """The privacy loss and margins of error of a config. Create one with `budget`.

    Attributes:
        config: The config.
        account: The planned measurements with their noise and losses.
        delta: The δ at which a ρ is converted to ε.

    Example:
        >>> costs = budget("examples/us.json")
        >>> text(costs.loss.unbounded), text(costs.loss.bounded)
        ('1.257281', '2.514562')
        >>> costs.to_polars().filter(TABULATION="PH3", LEVEL="state_A-G").select("LOSS", "MOE_EXACT").row(0)
        (0.662976, 20)
        >>> costs.plot().title
        'Privacy loss by tabulation and level. ρ = 1.257281 in all, one person added or removed'
    """

    config: Config
    account: Account
    delta: Decimal

    @property
    def rows(self) -> tuple[BudgetRow, ...]:
        """One row per tabulation and level with a budget; of a level with two blocks, the noisiest."""
        return tuple(BudgetRow(event) for event in self.account.events)

    @property
    def loss(self) -> Loss:
        """The total privacy loss of a release of the config."""
        return self.account.total

    def __repr__(self) -> str:
        """The loss and what it is of; `to_polars` has the rows."""
        unit, loss = UNITS[self.config.privacy], self.loss
        return (
            f"Budget({unit} = {round_up(loss.unbounded, 6)} unbounded, {round_up(loss.bounded, 6)} bounded; "
            f"{len(self.rows)} measurements, {self.config.sensitivity})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The total loss and all rows as a dictionary with exact numbers.

        Write it with `phsafe.model.exact_numbers.dumps`, which keeps all digits, or call `to_json`.
        """
        return {"total": total_keys(self.loss, self.delta), "levels": [row.to_dict() for row in self.rows]}

    def to_json(self) -> str:
        """The budget as JSON. Budgets have the same digits as in the config."""
        return dumps(self.to_dict())

    def to_polars(self) -> pl.DataFrame:
        """A Polars frame with one row per tabulation and level, in floats. `to_dict` has the exact numbers."""
        import polars as pl  # noqa: PLC0415  (the command doesn't need Polars)

        rows = [
            (
                row.event.tabulation, row.event.level, row.event.tau, float(row.event.loss.unbounded),
                float(row.event.loss.bounded), float(row.event.noise.variance), row.moe, row.moe_exact,
            )
            for row in self.rows
        ]  # fmt: skip
        names = ("TABULATION", "LEVEL", "TAU", "LOSS", "LOSS_BOUNDED", "VARIANCE", "MOE", "MOE_EXACT")
        types = (pl.String, pl.String, pl.Int64, pl.Float64, pl.Float64, pl.Float64, pl.Float64, pl.Int64)
        return pl.DataFrame(rows, schema=dict(zip(names, types, strict=True)), orient="row")

    def plot(self) -> Svg:
        """A chart of the privacy loss with one bar per tabulation and one colour per level. Needs Matplotlib."""
        from phsafe.display.charts import Bar, stacked  # noqa: PLC0415  (needed for charts only)

        levels = [level.key for level in self.config.catalog.levels]
        used = [key for key in levels if key in self.account.totals("level")]
        unit, total = UNITS[self.config.privacy], self.loss.unbounded
        bars = [
            Bar(
                name,
                [(used.index(e.level), float(e.loss.unbounded)) for e in self.account.events if e.tabulation == name],
                f"{100 * float(loss.unbounded / total):.1f} %",
            )
            for name, loss in self.account.totals("tabulation").items()
        ]
        note = f"{unit} = {round_up(total, 6)} in all, one person added or removed"
        names = [level.label for level in self.config.catalog.levels if level.key in used]
        return stacked("Privacy loss by tabulation and level", note, f"Privacy loss ({unit})", names, bars)

    def _repr_html_(self) -> str:
        return budget_html(self)

    def render(self) -> RenderableType:
        """The budget as Rich tables for a terminal."""
        from rich.console import Group  # noqa: PLC0415

        unit = UNITS[self.config.privacy]
        numbers = ("τ", "Δ", unit, f"bounded {unit}", "σ²", "MOE", "exact")
        table = empty_table(
            f"Sensitivity: {MODE_NOTES[self.config.sensitivity]}; MOE at 90 %",
            ("Tabulation", "Level"),
            numbers,
        )
        for row in self.rows:
            event = row.event
            table.add_row(
                event.tabulation,
                event.level,
                "" if event.tau is None else str(event.tau),
                f"{event.sensitivity:.6g}",
                text(event.loss.unbounded),
                text(event.loss.bounded),
                f"{event.noise.variance:.2f}",
                f"{row.moe:.2f}",
                f"{row.moe_exact}",
            )
        caveat = [] if self.config.sensitivity == "published" else [MODE_CAVEAT]
        return Group(loss_table({self.config.sensitivity: self.loss}, self.delta), NEIGHBOURS_NOTE, *caveat, table)


def budget(
    config: str | Path | Mapping[str, Any] | Config,
    delta: Decimal = DEFAULT_DELTA,
    catalog: CatalogSource | None = None,
) -> Budget:
    """Compute the privacy loss and the margins of error of a config. Needs no data.

    Args:
        config: A config: a JSON or TOML file, a mapping, or a loaded `Config`.
        delta: The δ at which a ρ is converted to ε.
        catalog: The tables and levels of the config: a `Catalog`, or a JSON or TOML file of one.

    Returns:
        The budget, with one row per tabulation and level.

    Raises:
        PHSafeError: The config is invalid; lists every problem.

    Example:
        >>> row = budget("examples/us.json").rows[0]
        >>> row.event.tabulation, row.event.level, row.moe_exact
        ('PH1_num', 'usa_*', 500)
    """
    loaded = Config.load(config, catalog)
    return Budget(loaded, plan(loaded), delta)


def _block_keys(one: BlockEvent) -> dict[str, Any]:
    """A block of a level: its cells, its part of the budget and its variance."""
    return {"cells": list(one.block.cells), "budget": one.stated, "sigma2": one.noise.variance}


def loss_keys(loss: Loss) -> dict[str, Fraction]:
    """The unbounded and the bounded loss, as written to JSON."""
    name = "rho" if loss.definition == "zcdp" else "epsilon"
    return {name: loss.unbounded, f"{name}_bounded": loss.bounded}


def total_keys(loss: Loss, delta: Decimal) -> dict[str, Any]:
    """The loss of a whole run, as written to JSON: for zCDP also ε at δ."""
    if loss.definition == "puredp":
        return {**loss_keys(loss), "delta": 0}
    return {**loss_keys(loss), "epsilon": loss.epsilon(delta), "delta": delta}


def loss_table(losses: Mapping[str, Loss], delta: Decimal) -> Table:
    """A table of total losses that always shows both the unbounded and the bounded loss."""
    zcdp = next(iter(losses.values())).definition == "zcdp"
    unit = "ρ" if zcdp else "ε"
    at = f" (ε at δ = {delta:g})" if zcdp else ""
    columns = [f"unbounded {unit}", f"bounded {unit}", *(["unbounded ε", "bounded ε"] if zcdp else [])]
    table = empty_table(f"Loss of the whole run, rounded up{at}", ("Mode",), columns)
    for name, loss in losses.items():
        cells = [round_up(amount, 6) for amount in (loss.unbounded, loss.bounded)]
        if zcdp:
            cells += [round_up(Fraction(e), 4) for e in (loss.epsilon(delta), loss.epsilon_bounded(delta))]
        table.add_row(name, *cells)
    return table


def empty_table(title: str, text_columns: Iterable[str], number_columns: Iterable[str]) -> Table:
    """An empty table that fits 80 columns and wraps a long number instead of cutting it off."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for name in text_columns:
        table.add_column(name, overflow="fold")
    for name in number_columns:
        table.add_column(name, overflow="fold", justify="right")
    return table
