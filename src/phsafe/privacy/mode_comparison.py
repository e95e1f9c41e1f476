"""The sensitivity modes compared: their losses and margins of error, and what each of them buys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phsafe.configs.config import Config
from phsafe.display.notebook import comparison_html
from phsafe.model.exact_numbers import dumps, round_up
from phsafe.model.levels import Level
from phsafe.model.spec import CatalogSource
from phsafe.privacy.accountant import DEFAULT_DELTA, Account, BlockEvent, Event, Loss, plan
from phsafe.privacy.budgets import (
    MODE_CAVEAT,
    NEIGHBOURS_NOTE,
    UNITS,
    Budget,
    budget,
    empty_table,
    loss_keys,
    loss_table,
    total_keys,
)
from phsafe.privacy_math import sensitivity

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

TIGHT_NAME = "2020 noise accounted tightly"
SOLVED_NAME = "structured, finished"


@dataclass(frozen=True)
class ModeGain:
    """A mode compared with an account of the same budgets.

    Attributes:
        loss: The loss of the mode if every cell has the margin of the other account.
        unbounded: The smallest and the largest ratio of the mode's margins to those of the other account, over all
            cells, if the budgets are scaled to the same unbounded loss.
        bounded: The same for the same bounded loss.

    """

    loss: Loss
    unbounded: tuple[float, float]
    bounded: tuple[float, float]


@dataclass(frozen=True)
class SolvedMargins:
    """The structured mode with budgets solved for finished tables, compared with the published margins.

    Attributes:
        gain: Its loss if every finished margin is at most the published one, and its finished margins at the same loss.
        margins: Tabulation and level → its finished margin at the published unbounded loss.
    """

    gain: ModeGain
    margins: Mapping[tuple[str, str], float]


@dataclass(frozen=True, repr=False)
class Comparison:
    """The budgets of a config under all sensitivity modes. Create one with `compare`.

    Also gives the loss of the published noise accounted tightly, that is, under the smallest sensitivity that holds.

    Attributes:
        budgets: One `Budget` per mode: published, tight, tight-bounded, structured.
        finished: Mode → tabulation and level → the margin of error after joint estimation, if it was computed.
        solved: The structured mode with budgets for finished tables, if it was computed.

    Example:
        >>> from phsafe.model.exact_numbers import text
        >>> modes = compare("examples/us.json")
        >>> [(b.config.sensitivity, text(b.loss.bounded)) for b in modes.budgets]  # doctest: +ELLIPSIS
        [('published', '2.514562'), ('tight', '4.8789864'), ('tight-bounded', '2.4394932'), ('structured', ...)]
    """

    budgets: tuple[Budget, ...]
    finished: Mapping[str, Mapping[tuple[str, str], float]] = field(default_factory=dict)
    solved: SolvedMargins | None = None

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
        found = {str(b.config.sensitivity): gain(b.config, self.published) for b in self.budgets}
        return found if self.solved is None else found | {SOLVED_NAME: self.solved.gain}

    @property
    def margins_at_published_loss(self) -> dict[str, Mapping[tuple[str, str], float]]:
        """For each mode, the margins by tabulation and level with budgets scaled to the published unbounded loss."""
        found: dict[str, Mapping[tuple[str, str], float]] = {}
        for b in self.budgets:
            ratio = float(b.loss.unbounded / self.published.total.unbounded)
            factor = ratio ** (0.5 if self.published.definition == "zcdp" else 1)
            found[b.config.sensitivity] = {key: moe * factor for key, moe in _moes(b).items()}
        return found if self.solved is None else found | {SOLVED_NAME: self.solved.margins}

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
                "total": total_keys(self.published_accounted_tightly, delta),
                "tabulations": {name: loss_keys(tight) for name, (_, tight) in self.by_tabulation().items()},
            },
            "gains": {
                name: {
                    "at_published_margins": total_keys(found.loss, delta),
                    "margins_at_published_loss": {"unbounded": found.unbounded, "bounded": found.bounded},
                }
                for name, found in self.gains.items()
            },
            "at_published_loss": _nested(self.margins_at_published_loss),
            **({"finished": _nested(self.finished)} if self.finished else {}),
        }

    def to_json(self) -> str:
        """The comparison as JSON."""
        return dumps(self.to_dict())

    def __repr__(self) -> str:
        losses = (f"{b.config.sensitivity} {round_up(b.loss.unbounded, 6)}" for b in self.budgets)
        return f"Comparison({UNITS[self.budgets[0].config.privacy]}: {', '.join(losses)})"

    def _repr_html_(self) -> str:
        return comparison_html(self)

    def render(self) -> RenderableType:
        """The comparison as Rich tables for a terminal: the losses by mode first, then by tabulation, and margins."""
        from rich.console import Group  # noqa: PLC0415

        keys = [(row.event.tabulation, row.event.level) for row in self.budgets[0].rows]
        tables = [
            _margins("Margin of error at 90 %", {b.config.sensitivity: _moes(b) for b in self.budgets}, keys),
            _margins("Margin of error at the published unbounded loss", self.margins_at_published_loss, keys),
        ]
        if self.finished:
            tables.append(_margins("Margin of error at 90 % after joint estimation", self.finished, keys))
        losses = {str(b.config.sensitivity): b.loss for b in self.budgets}
        losses[TIGHT_NAME] = self.published_accounted_tightly
        notes = (NEIGHBOURS_NOTE, f"All modes but published: {MODE_CAVEAT}")
        return Group(
            loss_table(losses, self.budgets[0].delta), *notes, self._gains(), self._published_losses(), *tables
        )

    def _gains(self) -> Table:
        unit = UNITS[self.published.definition]
        head = (f"unbounded {unit}", f"bounded {unit}", "margins ×, unbounded", "margins ×, bounded")
        table = empty_table("Loss at the published margins; margins at the published losses", ("Mode",), head)
        for name, found in self.gains.items():
            losses = (round_up(loss, 6) for loss in (found.loss.unbounded, found.loss.bounded))
            table.add_row(
                name, *losses, *("–".join(f"{r:.3f}" for r in one) for one in (found.unbounded, found.bounded))
            )
        return table

    def _published_losses(self) -> Table:
        columns = [f"{kind}, {mode}" for kind in ("unbounded", "bounded") for mode in ("published", "tight")]
        unit = UNITS[self.published.definition]
        table = empty_table(f"{unit} of the published noise, rounded up", ("Tabulation",), columns)
        for name, pair in self.by_tabulation().items():
            losses = [*(loss.unbounded for loss in pair), *(loss.bounded for loss in pair)]
            table.add_row(name, *(round_up(loss, 6) for loss in losses))
        return table


def _nested(margins: Mapping[str, Mapping[tuple[str, str], float]]) -> dict[str, dict[str, dict[str, float]]]:
    """Margins by mode, tabulation and level."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for mode, of_levels in margins.items():
        for (tabulation, level), moe in of_levels.items():
            found.setdefault(mode, {}).setdefault(tabulation, {})[level] = moe
    return found


def compare(
    config: str | Path | Mapping[str, Any] | Config,
    delta: Decimal = DEFAULT_DELTA,
    catalog: CatalogSource | None = None,
) -> Comparison:
    """Compare a config under all sensitivity modes, with the same budgets. Needs no data.

    To compare two published figures, see `Estimates.compare`.

    Args:
        config: A config: a JSON or TOML file, a mapping, or a loaded `Config`. Its own mode is ignored.
        delta: The δ at which a ρ is converted to ε.
        catalog: The tables and levels of the config: a `Catalog`, or a JSON or TOML file of one.

    Returns:
        The budgets of all modes, and the losses of the published noise accounted tightly.

    Raises:
        PHSafeError: The config is invalid; lists every problem.

    Example:
        >>> loss = compare("examples/us.json").published_accounted_tightly
        >>> round(float(loss.unbounded), 3), round(float(loss.bounded), 3)
        (0.473, 1.891)
    """
    loaded = Config.load(config, catalog)
    return Comparison(tuple(budget(loaded.with_sensitivity(mode), delta) for mode in sensitivity.MODES))


def gain(config: Config, other: Account) -> ModeGain:
    """Compare the mode of a config with another account of the same budgets.

    >>> us = Config.load("examples/us.json")
    >>> found = gain(us.with_sensitivity("tight"), plan(us))
    >>> round(float(found.loss.unbounded), 6), round(float(found.loss.bounded), 6)
    (0.472713, 1.890854)
    >>> [round(ratio, 3) for ratio in found.unbounded]
    [0.448, 0.696]
    """
    mine, definition = plan(config), config.privacy
    ratios = list(_ratios(mine.events, other.events))

    def scaled(own: Fraction, stated: Fraction) -> tuple[float, float]:
        factor = float(own / stated) ** (0.5 if definition == "zcdp" else 1)
        return min(ratios) * factor, max(ratios) * factor

    return ModeGain(
        at_margins(config, other),
        scaled(mine.total.unbounded, other.total.unbounded),
        scaled(mine.total.bounded, other.total.bounded),
    )


def at_margins(config: Config, other: Account) -> Loss:
    """The loss of a config's mode if each block of a level has the noise that the level has in another account."""
    levels = {level.key: level for level in config.catalog.levels}
    events = tuple(_same_noise(config, event, levels[event.level]) for event in other.events)
    return Account(config.privacy, events).total


def _same_noise(config: Config, event: Event, level: Level) -> Event:
    """An event with the noise of another one and the sensitivities of the config's mode."""
    blocks = config.blocks(config.catalog.tabulation(event.tabulation), level)
    scale = event.noisiest.block.noise_factor(config.privacy) / event.stated
    parts = tuple(
        BlockEvent(one, one.delta, event.noise, replace(one, share=Fraction(1)).noise_factor(config.privacy) / scale)
        for one in blocks
    )
    return replace(event, mode=config.sensitivity, blocks=parts)


def _ratios(events: Iterable[Event], others: Iterable[Event]) -> Iterable[float]:
    for event, other in zip(events, others, strict=True):
        for one in event.blocks:
            yield one.noise.scale / other.noise.scale


def _moes(costs: Budget) -> dict[tuple[str, str], float]:
    """The margin of error by tabulation and level."""
    return {(row.event.tabulation, row.event.level): row.moe for row in costs.rows}


def _margins(
    title: str, by_mode: Mapping[str, Mapping[tuple[str, str], float]], keys: Iterable[tuple[str, str]]
) -> Table:
    """A table of margins of error with a column for each mode."""
    table = empty_table(title, ("Tabulation", "Level"), by_mode)
    for key in keys:
        table.add_row(*key, *(f"{moes[key]:.2f}" for moes in by_mode.values()))
    return table
