"""What the noise means for pinned groups: margins of error before and after joint estimation, and a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from phsafe.explorer import plain_language
from phsafe.explorer.figures import Figures
from phsafe.explorer.finished_work import FinishedFigures
from phsafe.explorer.pinned_groups import PinnedGroup
from phsafe.explorer.scenario_changes import change
from phsafe.privacy_math.margins import Z

#: Margins that differ by less than this share are the same: budgets are rounded, so such a difference means nothing.
SMALL_MARGIN = 0.002
#: Figures of a config and, once they are known, its finished margins.
Known = tuple[Figures, FinishedFigures | None]


def pin_answers(pins: Sequence[PinnedGroup], now: Known, before: Known | None) -> list[dict[str, Any]]:
    """Return each group with its margins, as they are and as they were in the baseline."""
    return [_answer(pin, now, before) for pin in pins]


def _answer(pin: PinnedGroup, now: Known, before: Known | None) -> dict[str, Any]:
    margins, was = both_margins(pin, now), both_margins(pin, before)
    published = is_published(pin, now[0])
    problem = pin.problem
    if not published:
        problem = _not_published(pin, now[0])
    return {
        **pin.to_dict(),
        "published": published,
        "problem": problem,
        **margins,
        "before": was,
        "change": {kind: _change(margins[kind], was[kind], compared=before is not None) for kind in margins},
    }


def is_published(pin: PinnedGroup, figures: Figures) -> bool:
    """Whether a config publishes the line for this group."""
    geography = pin.level.geography
    inside = any(pin.region == code for code, _ in geography.within(figures.config.states))
    return inside and all(key in figures.rows for key in pin.keys)


def both_margins(pin: PinnedGroup, known: Known | None) -> dict[str, dict[str, Any] | None]:
    """Return the margin of the noisy counts and, if the fit is known, of finished tables."""
    if known is None or not is_published(pin, known[0]):
        return {"measured": None, "finished": None}
    figures, finished = known
    after = None if finished is None or pin.id not in finished.groups else finished.groups[pin.id]
    return {"measured": margin(pin, figures), "finished": None if after is None else margin(pin, figures, after)}


def margin(pin: PinnedGroup, figures: Figures, after: tuple[float, ...] | None = None) -> dict[str, Any] | None:
    """Return the 90 % margin of error of the group's line, with the range and a sentence; None without sizes.

    Args:
        pin: The group.
        figures: The figures of a config that publishes it.
        after: Its finished margins, to use instead of those of the noisy counts.
    """
    level, (people, units) = pin.level.key, pin.sizes
    count, per = pin.sums.count, pin.sums.per
    if per is None:
        return None if people is None else _count(people, figures.moe(count, level) if after is None else after[0])
    if people is None or units is None:
        return None
    if after is None:
        after = (
            figures.average_moe(pin.sums, level, people, units),
            float(Z) * math.sqrt(figures.variance(per, level)),
        )
    return _average(people / units, after[0], usable=after[1] / units <= plain_language.DELTA_METHOD)


def _count(size: float, moe: float) -> dict[str, Any]:
    low, high = f"{max(0.0, size - moe):,.0f}", f"{size + moe:,.0f}"
    return _margin(moe, moe / size, low, high, f"about {size:,.0f}, published as {low} to {high} in 9 of 10 releases")


def _average(ratio: float, moe: float, *, usable: bool) -> dict[str, Any]:
    if not usable:
        sentence = f"about {ratio:.2f}, but the noise on the number of households is too large for a usable average"
        return _margin(moe, max(1.0, moe / ratio), "", "", sentence)
    low, high = f"{max(0.0, ratio - moe):.2f}", f"{ratio + moe:.2f}"
    shown = low if low == high else f"{low} to {high}"
    return _margin(moe, moe / ratio, low, high, f"about {ratio:.2f}, published as {shown} in 9 of 10 releases")


def _margin(moe: float, share: float, low: str, high: str, sentence: str) -> dict[str, Any]:
    return {
        "moe": moe,
        "moe_text": plain_language.short(moe),
        "low_text": low,
        "high_text": high,
        "share": share,
        "share_text": f"{100 * share:,.0f} %" if share >= 0.1 else f"{100 * share:.2g} %",
        "verdict": plain_language.verdict(share),
        "sentence": sentence,
    }


def _change(now: dict[str, Any] | None, was: dict[str, Any] | None, *, compared: bool) -> dict[str, Any] | None:
    if not compared or (now is None and was is None):
        return None
    return change(None if now is None else now["moe"], None if was is None else was["moe"], SMALL_MARGIN)


def _not_published(pin: PinnedGroup, figures: Figures) -> str:
    if not any(pin.region == code for code, _ in pin.level.geography.within(figures.config.states)):
        return f"{pin.where} isn't part of this scenario"
    off = [name for name, level in pin.keys if (name, level) not in figures.rows]
    return f"not published: switch on {' and '.join(off)} for {pin.level.label}"
