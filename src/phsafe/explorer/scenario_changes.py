"""Changes against a baseline: for every number that the page shows, its earlier value and whether it improved."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from phsafe.explorer import plain_language
from phsafe.explorer.figures import Figures, share_text
from phsafe.explorer.public_tables import Truncation

#: Changes smaller than this share count as none.
SMALL = 0.0005
NEW: dict[str, Any] = {"state": "new", "ratio": None, "text": "new"}
GONE: dict[str, Any] = {"state": "gone", "ratio": None, "text": "no longer published"}
OTHER: dict[str, Any] = {"state": "other", "ratio": None, "text": "not comparable"}


def change(now: float | Fraction | None, before: float | Fraction | None, small: float = SMALL) -> dict[str, Any]:
    """Return how a number changed. Losses and margins of error are better when they are smaller.

    >>> change(1.21, 1)["text"], change(0.966, 1)["text"], change(50.0, 1)["text"], change(1, None)["state"]
    ('+21 %', '−3.4 %', '× 50', 'new')
    """
    if now is None or before is None:
        return NEW if before is None else GONE
    if before == 0:
        return {"state": "same", "ratio": 1.0, "text": "same"} if now == 0 else NEW
    ratio = float(now / before)
    if abs(ratio - 1) < small:
        return {"state": "same", "ratio": ratio, "text": "same"}
    return {"state": "worse" if ratio > 1 else "better", "ratio": ratio, "text": ratio_text(ratio)}


def ratio_text(ratio: float) -> str:
    """Format a ratio as a change in percent; a very large one as a multiple."""
    if ratio >= 10:
        return f"× {ratio:,.0f}"
    percent = 100 * abs(ratio - 1)
    return (
        f"{'+' if ratio > 1 else '−'}{percent:.0f} %"
        if percent >= 10
        else f"{'+' if ratio > 1 else '−'}{percent:.1f} %"
    )


def points(now: float, before: float) -> dict[str, Any]:
    """Return how a share changed, in percentage points of the shares as shown, which are rounded up.

    >>> points(0.8246, 0.7861)["text"], points(0.5, 0.5)["text"]
    ('+3.8 points', 'same')
    """
    found = change(now, before)
    texts = [plain_language.percent_up(share).removeprefix("over ").removesuffix(" %") for share in (now, before)]
    moved = abs(float(texts[0]) - float(texts[1]))
    return found if found["state"] == "same" else found | {"text": f"{'+' if now > before else '−'}{moved:.1f} points"}


def add_changes(answer: dict[str, Any], found: Figures, base: Figures, shares: Truncation) -> None:
    """Add to the answer about a scenario what each of its numbers was in the baseline."""
    comparable = found.config.privacy == base.config.privacy
    answer["rows"] = {
        name: {
            level: row | _row_change(found, base, (name, level), comparable=comparable) for level, row in levels.items()
        }
        for name, levels in answer["rows"].items()
    }
    answer["gone"] = [{"tabulation": key[0], "level": key[1]} for key in base.rows if key not in found.rows]
    answer["totals"] = answer["totals"] | _totals_change(found, base, comparable=comparable)
    before = plain_language.person(base.loss, base.delta)
    for risk, was in zip(answer["person"], before, strict=True):
        risk |= {"before_text": was["guesses_text"], "change": points(risk["guesses"], was["guesses"])}
    for row in answer["truncation"]:
        tau = base.config.tau.get(row["tabulation"])
        row["before"] = (
            None if tau is None else {"tau": tau, "text": share_text(shares.dropped(row["tabulation"], tau))}
        )


def _row_change(found: Figures, base: Figures, key: tuple[str, str], *, comparable: bool) -> dict[str, Any]:
    now, was = found.rows[key], base.rows.get(key)
    if was is None:
        return {"before": None, "change": {"budget": NEW, "moe": NEW}}
    before = base.row(key)
    shown = ("budget", "moe", "moe_text", "moe_exact", "unbounded", "bounded")
    budgets = (Fraction(found.config.budgets[key[0]][key[1]]), Fraction(base.config.budgets[key[0]][key[1]]))
    return {
        "before": {name: before[name] for name in shown},
        "change": {"budget": change(*budgets) if comparable else OTHER, "moe": change(now.moe, was.moe)},
    }


def _totals_change(found: Figures, base: Figures, *, comparable: bool) -> dict[str, Any]:
    totals, was = found.totals, base.totals

    def parts(grouping: str) -> dict[str, Any]:
        return {
            name: part | {"change": _stated(part, was[grouping].get(name), "unbounded") if comparable else OTHER}
            for name, part in totals[grouping].items()
        }

    return {
        "by_tabulation": parts("by_tabulation"),
        "by_level": parts("by_level"),
        "change": {
            "unbounded": change(found.loss.unbounded, base.loss.unbounded) if comparable else OTHER,
            "bounded": change(found.loss.bounded, base.loss.bounded) if comparable else OTHER,
            "epsilon": change(totals["epsilon"], was["epsilon"]),
            "epsilon_bounded": change(totals["epsilon_bounded"], was["epsilon_bounded"]),
            "tight_unbounded": _stated(totals, was, "tight_unbounded") if comparable else OTHER,
        },
    }


def _stated(now: Mapping[str, Any], was: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    return change(Fraction(now[name]), None if was is None else Fraction(was[name]))
