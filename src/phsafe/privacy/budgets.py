"""The privacy loss and the accuracy of a config, level by level, computed without data.

All figures come from the planned account (`phsafe.privacy.accountant.plan`), which uses the same noise as a release of
the config, so they are the figures of the release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phsafe.configs.config import Config
from phsafe.display import Svg
from phsafe.display.charts import Bar, stacked
from phsafe.display.frames import Frames
from phsafe.display.notebook import budget_html, comparison_html
from phsafe.model.exact_numbers import dumps, round_up, text
from phsafe.privacy.accountant import DEFAULT_DELTA, Account, BlockEvent, Event, Loss, plan
from phsafe.privacy.mode_comparison import ModeGain, gain
from phsafe.privacy_math import margins, sensitivity

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
TIGHT_NAME = "2020 noise accounted tightly"


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
            **_loss_keys(self.event.loss),
            "sigma2": self.event.noise.variance,
            "moe": self.moe,
            **({} if len(self.event.blocks) == 1 else {"blocks": [_block_keys(one) for one in self.event.blocks]}),
        }


@dataclass(frozen=True)
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

    def to_dict(self) -> dict[str, Any]:
        """The total loss and all rows as a dictionary with exact numbers.

        Write it with `phsafe.model.exact_numbers.dumps`, which keeps all digits, or call `to_json`.
        """
        return {"total": _total(self.loss, self.delta), "levels": [row.to_dict() for row in self.rows]}

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
        """A chart of the privacy loss with one bar per tabulation and one colour per level."""
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
        return stacked("Privacy loss by tabulation and level", note, used, bars)

    def _repr_html_(self) -> str:
        return budget_html(self)

    def render(self) -> RenderableType:
        """The budget as Rich tables for a terminal."""
        from rich.console import Group  # noqa: PLC0415

        unit = UNITS[self.config.privacy]
        numbers = ("τ", "Δ", unit, f"bounded {unit}", "σ²", "MOE", "exact")
        table = _table(
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
        return Group(table, _losses({self.config.sensitivity: self.loss}, self.delta), NEIGHBOURS_NOTE, *caveat)


@dataclass(frozen=True)
class Comparison:
    """The budgets of a config under all sensitivity modes. Create one with `compare`.

    Also gives the loss of the published noise accounted tightly, that is, under the smallest sensitivity that holds.

    Attributes:
        budgets: One `Budget` per mode: published, tight, tight-bounded, structured.
        finished: Mode → tabulation and level → the margin of error after joint estimation, if it was computed.

    Example:
        >>> modes = compare("examples/us.json")
        >>> [(b.config.sensitivity, text(b.loss.bounded)) for b in modes.budgets]  # doctest: +ELLIPSIS
        [('published', '2.514562'), ('tight', '4.8789864'), ('tight-bounded', '2.4394932'), ('structured', ...)]
    """

    budgets: tuple[Budget, ...]
    finished: Mapping[str, Mapping[tuple[str, str], float]] = field(default_factory=dict)

    @property
    def published(self) -> Account:
        """The account of the noise of the `published` mode."""
        return next(b.account for b in self.budgets if b.config.sensitivity == "published")

    @property
    def published_accounted_tightly(self) -> Loss:
        """The total loss of the published noise under the smallest Δ that holds (claims C4, C5, C16 and C19)."""
        return self.published.tight_total

    @property
    def gains(self) -> dict[str, ModeGain]:
        """For each mode, its loss at the margins of the published one, and its margins at the published losses."""
        return {b.config.sensitivity: gain(b.config, self.published) for b in self.budgets}

    def by_tabulation(self) -> dict[str, tuple[Loss, Loss]]:
        """The loss of the published noise by tabulation, as (stated, accounted tightly)."""
        tight = self.published.totals("tabulation", tight=True)
        return {name: (loss, tight[name]) for name, loss in self.published.totals("tabulation").items()}

    def to_dict(self) -> dict[str, Any]:
        """The budget of each mode, and the losses of the published noise accounted tightly, as a dictionary."""
        delta = self.budgets[0].delta
        return {
            "modes": {b.config.sensitivity: b.to_dict() for b in self.budgets},
            "published_accounted_tightly": {
                "total": _total(self.published_accounted_tightly, delta),
                "tabulations": {name: _loss_keys(tight) for name, (_, tight) in self.by_tabulation().items()},
            },
            "gains": {
                name: {
                    "at_published_margins": _total(found.loss, delta),
                    "margins_at_published_loss": {"unbounded": found.unbounded, "bounded": found.bounded},
                }
                for name, found in self.gains.items()
            },
            **({"finished": self._finished()} if self.finished else {}),
        }

    def to_json(self) -> str:
        """The comparison as JSON."""
        return dumps(self.to_dict())

    def _repr_html_(self) -> str:
        return comparison_html(self)

    def render(self) -> RenderableType:
        """The comparison as Rich tables for a terminal: margins of error, and losses by tabulation and by mode."""
        from rich.console import Group  # noqa: PLC0415

        keys = [(row.event.tabulation, row.event.level) for row in self.budgets[0].rows]
        tables = [_margins("Margin of error at 90 %", {b.config.sensitivity: _moes(b) for b in self.budgets}, keys)]
        if self.finished:
            tables.append(_margins("Margin of error at 90 % after joint estimation", self.finished, keys))
        losses = {str(b.config.sensitivity): b.loss for b in self.budgets}
        losses[TIGHT_NAME] = self.published_accounted_tightly
        notes = (NEIGHBOURS_NOTE, f"All modes but published: {MODE_CAVEAT}")
        rest = (self._published_losses(), _losses(losses, self.budgets[0].delta), self._gains())
        return Group(*tables, *rest, *notes)

    def _finished(self) -> dict[str, dict[str, dict[str, float]]]:
        """The margins after joint estimation by mode, tabulation and level."""
        found: dict[str, dict[str, dict[str, float]]] = {}
        for mode, margins_of in self.finished.items():
            for (tabulation, level), moe in margins_of.items():
                found.setdefault(mode, {}).setdefault(tabulation, {})[level] = moe
        return found

    def _gains(self) -> Table:
        unit = UNITS[self.published.definition]
        head = (f"unbounded {unit}", f"bounded {unit}", "margins ×, unbounded", "margins ×, bounded")
        table = _table("Loss at the published margins; margins at the published losses", ("Mode",), head)
        for name, found in self.gains.items():
            losses = (round_up(loss, 6) for loss in (found.loss.unbounded, found.loss.bounded))
            table.add_row(
                name, *losses, *("–".join(f"{r:.3f}" for r in one) for one in (found.unbounded, found.bounded))
            )
        return table

    def _published_losses(self) -> Table:
        columns = [f"{kind}, {mode}" for kind in ("unbounded", "bounded") for mode in ("published", "tight")]
        unit = UNITS[self.published.definition]
        table = _table(f"{unit} of the published noise, rounded up", ("Tabulation",), columns)
        for name, pair in self.by_tabulation().items():
            losses = [*(loss.unbounded for loss in pair), *(loss.bounded for loss in pair)]
            table.add_row(name, *(round_up(loss, 6) for loss in losses))
        return table


def budget(config: str | Path | Mapping[str, Any] | Config, delta: Decimal = DEFAULT_DELTA) -> Budget:
    """Compute the privacy loss and the margins of error of a config. Needs no data.

    Args:
        config: A config: a JSON or TOML file, a mapping, or a loaded `Config`.
        delta: The δ at which a ρ is converted to ε.

    Returns:
        The budget, with one row per tabulation and level.

    Raises:
        PHSafeError: The config is invalid; lists every problem.

    Example:
        >>> row = budget("examples/us.json").rows[0]
        >>> row.event.tabulation, row.event.level, row.moe_exact
        ('PH1_num', 'usa_*', 500)
    """
    loaded = Config.load(config)
    return Budget(loaded, plan(loaded), delta)


def compare(config: str | Path | Mapping[str, Any] | Config, delta: Decimal = DEFAULT_DELTA) -> Comparison:
    """Compare a config under all sensitivity modes, with the same budgets. Needs no data.

    Args:
        config: A config: a JSON or TOML file, a mapping, or a loaded `Config`. Its own mode is ignored.
        delta: The δ at which a ρ is converted to ε.

    Returns:
        The budgets of all modes, and the losses of the published noise accounted tightly.

    Raises:
        PHSafeError: The config is invalid; lists every problem.

    Example:
        >>> loss = compare("examples/us.json").published_accounted_tightly
        >>> round(float(loss.unbounded), 3), round(float(loss.bounded), 3)
        (0.473, 1.891)
    """
    loaded = Config.load(config)
    return Comparison(tuple(budget(loaded.with_sensitivity(mode), delta) for mode in sensitivity.MODES))


def _moes(costs: Budget) -> dict[tuple[str, str], float]:
    """The margin of error by tabulation and level."""
    return {(row.event.tabulation, row.event.level): row.moe for row in costs.rows}


def _margins(
    title: str, by_mode: Mapping[str, Mapping[tuple[str, str], float]], keys: Iterable[tuple[str, str]]
) -> Table:
    """A table of margins of error with a column for each mode."""
    table = _table(title, ("Tabulation", "Level"), by_mode)
    for key in keys:
        table.add_row(*key, *(f"{moes[key]:.2f}" for moes in by_mode.values()))
    return table


def _block_keys(one: BlockEvent) -> dict[str, Any]:
    """A block of a level: its cells, its part of the budget and its variance."""
    return {"cells": list(one.block.cells), "budget": one.stated, "sigma2": one.noise.variance}


def _loss_keys(loss: Loss) -> dict[str, Fraction]:
    name = "rho" if loss.definition == "zcdp" else "epsilon"
    return {name: loss.unbounded, f"{name}_bounded": loss.bounded}


def _total(loss: Loss, delta: Decimal) -> dict[str, Any]:
    if loss.definition == "puredp":
        return {**_loss_keys(loss), "delta": 0}
    return {**_loss_keys(loss), "epsilon": loss.epsilon(delta), "delta": delta}


def _losses(losses: Mapping[str, Loss], delta: Decimal) -> Table:
    """A table of total losses that always shows both the unbounded and the bounded loss."""
    zcdp = next(iter(losses.values())).definition == "zcdp"
    unit = "ρ" if zcdp else "ε"
    at = f" (ε at δ = {delta:g})" if zcdp else ""
    columns = [f"unbounded {unit}", f"bounded {unit}", *(["unbounded ε", "bounded ε"] if zcdp else [])]
    table = _table(f"Loss of the whole run, rounded up{at}", ("Mode",), columns)
    for name, loss in losses.items():
        cells = [round_up(amount, 6) for amount in (loss.unbounded, loss.bounded)]
        if zcdp:
            cells += [round_up(Fraction(e), 4) for e in (loss.epsilon(delta), loss.epsilon_bounded(delta))]
        table.add_row(name, *cells)
    return table


def _table(title: str, text_columns: Iterable[str], number_columns: Iterable[str]) -> Table:
    """An empty table that fits 80 columns and wraps a long number instead of cutting it off."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=0)
    for name in text_columns:
        table.add_column(name, overflow="fold")
    for name in number_columns:
        table.add_column(name, overflow="fold", justify="right")
    return table
