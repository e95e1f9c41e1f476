"""Rows of intervals as a small SVG, for pages that are made without Matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

from phsafe.display.charts import ACCENT, INK, LINE, MUTED, WIDE, Interval
from phsafe.display.html import Html, el
from phsafe.display.svg import Svg

ROW, TOP, WIDTH = 24, 58, 860
#: Left edge and width of the plot area.
LABEL, PLOT = 350, 320
#: Approximate width of a letter.
LETTER = 7


def interval_svg(title: str, note: str, rows: Sequence[Interval]) -> Svg:
    """Draw estimates with their intervals on a common scale. Wide intervals are brown."""
    low, high = min(row.lower for row in rows), max(row.upper for row in rows)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return round(LABEL + (value - low) / span * PLOT, 2)

    drawn: list[Html] = [
        el("text", title, x=16, y=24, font_size=15, font_weight=600, fill=INK),
        el("text", note, x=16, y=44, fill=MUTED),
    ]
    for i, row in enumerate(rows):
        middle, colour = TOP + ROW * i + ROW / 2, WIDE if row.is_wide else ACCENT
        width = round(max(at(row.upper) - at(row.lower), 1), 2)
        drawn += [
            el("line", x1=16, x2=WIDTH - 16, y1=TOP + ROW * i, y2=TOP + ROW * i, stroke=LINE),
            el("text", _shortened(row.label), x=16, y=middle + 4, fill=INK),
            el("rect", x=at(row.lower), y=middle - 3, width=width, height=6, fill=colour, opacity=0.4),
            el("rect", x=round(at(row.estimate) - 1, 2), y=middle - 6, width=2, height=12, fill=colour),
            el("text", row.text, x=WIDTH - 16, y=middle + 4, text_anchor="end", fill=INK),
        ]
    height, name = TOP + ROW * len(rows) + 14, f"{title}. {note}"
    return Svg(
        el(
            "svg",
            el("title", name),
            el("rect", width=WIDTH, height=height, fill="#ffffff", rx=6),
            *drawn,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {WIDTH} {height}",
            width=WIDTH,
            height=height,
            role="img",
            font_family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
            font_size=12,
        ),
        name,
    )


def _shortened(text: str) -> str:
    fits = (LABEL - 16) // LETTER
    return text if len(text) <= fits else f"{text[: fits - 1]}…"
