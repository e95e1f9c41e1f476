"""What a sensitivity mode buys: its loss at the margins of another account, and its margins at the other's loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from phsafe.configs.config import Config
from phsafe.model.levels import Level
from phsafe.privacy.accountant import Account, BlockEvent, Event, Loss, plan


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
