"""SVG charts: rows of intervals, and stacked bars. The background is white, so that they look the same in any theme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from phsafe.display.html import Child, Html, el
from phsafe.display.numbers import is_wide
from phsafe.display.svg import Svg, chart

INK, MUTED, LINE = "#15202e", "#4d5a6f", "#d9dfe9"
ACCENT, SOFT, WIDE = "#1757ad", "#dbe8f9", "#8a4b00"
#: One colour per level: teal for the nation, violet for states. Further levels reuse them.
COLOURS = ("#0b7285", "#22b3c6", "#a5dfe8", "#5f3dc4", "#9775fa", "#d4c6fb")
ROW, TOP, WIDTH = 24, 58, 860
#: Left edge and width of the plot area, for intervals and for bars.
LABEL, PLOT = 350, 320
NAME, BARS = 150, 540
#: Approximate width of a letter.
LETTER = 7


class Interval(NamedTuple):
    """A row of an interval chart; `text` is printed at its right end."""

    label: str
    estimate: float
    lower: float
    upper: float
    text: str
    indent: int = 0

    @property
    def is_wide(self) -> bool:
        """Whether the interval is wider than the estimate, which makes the estimate unreliable."""
        return is_wide((self.estimate, self.lower, self.upper))


class Bar(NamedTuple):
    """A row of stacked parts (legend index, size); `text` is printed at its right end."""

    label: str
    parts: Sequence[tuple[int, float]]
    text: str


def intervals(title: str, note: str, rows: Sequence[Interval], *, from_zero: bool = True) -> Svg:
    """Draw estimates with their intervals; bars are added if the scale starts at zero. Wide intervals are brown."""
    low = 0.0 if from_zero else min(row.lower for row in rows)
    high = max(row.upper for row in rows)
    span = (high - low) or 1.0

    def at(value: float) -> float:
        return round(LABEL + (value - low) / span * PLOT, 2)

    nested = any(row.indent for row in rows)
    drawn: list[Html] = []
    for i, row in enumerate(rows):
        middle, colour = TOP + ROW * i + ROW / 2, WIDE if row.is_wide else ACCENT
        drawn.append(_label(row.label, 16 + 14 * row.indent, middle, LABEL, bold=nested and row.indent == 0))
        if from_zero:
            drawn.append(
                el(
                    "rect",
                    x=LABEL,
                    y=middle - 5,
                    width=round(at(row.estimate) - LABEL, 2),
                    height=10,
                    fill=SOFT,
                )
            )
        width = round(max(at(row.upper) - at(row.lower), 1), 2)
        drawn += [
            el("rect", x=at(row.lower), y=middle - 3, width=width, height=6, fill=colour, opacity=0.4),
            el("rect", x=round(at(row.estimate) - 1, 2), y=middle - 6, width=2, height=12, fill=colour),
            el("text", row.text, x=WIDTH - 16, y=middle + 4, text_anchor="end", fill=INK),
        ]
    return _framed(title, note, len(rows), drawn)


def stacked(title: str, note: str, legend: Sequence[str], rows: Sequence[Bar]) -> Svg:
    """Draw stacked bars on a common scale, with a legend."""
    most = max((sum(size for _, size in row.parts) for row in rows), default=1.0) or 1.0
    drawn: list[Html] = []
    for i, row in enumerate(rows):
        middle, left = TOP + ROW * i + ROW / 2, float(NAME)
        drawn.append(_label(row.label, 16, middle, NAME))
        for colour, size in row.parts:
            width = size / most * BARS
            drawn.append(
                el(
                    "rect",
                    x=round(left, 2),
                    y=middle - 7,
                    width=round(width, 2),
                    height=14,
                    fill=COLOURS[colour % 6],
                )
            )
            left += width
        drawn.append(el("text", row.text, x=WIDTH - 16, y=middle + 4, text_anchor="end", fill=INK))
    bottom = TOP + ROW * len(rows) + 14
    for i, name in enumerate(legend):
        x, y = 16 + 270 * (i % 3), bottom + 20 * (i // 3)
        drawn += [
            el("rect", x=x, y=y, width=11, height=11, rx=2, fill=COLOURS[i % 6]),
            el("text", name, x=x + 17, y=y + 10, fill=MUTED),
        ]
    return _framed(title, note, len(rows), drawn, below=20 * -(-len(legend) // 3) + 14)


def _framed(title: str, note: str, rows: int, drawn: Sequence[Child], below: int = 0) -> Svg:
    lines = [el("line", x1=16, x2=WIDTH - 16, y1=TOP + ROW * i, y2=TOP + ROW * i, stroke=LINE) for i in range(rows + 1)]
    head = [
        el("text", title, x=16, y=24, font_size=15, font_weight=600, fill=INK),
        el("text", note, x=16, y=44, fill=MUTED),
    ]
    return chart(f"{title}. {note}", WIDTH, TOP + ROW * rows + below + 14, head, lines, drawn)


def _label(text: str, x: float, middle: float, end: float, *, bold: bool = False) -> Html:
    fits = int((end - x) / LETTER)
    shown = text if len(text) <= fits else f"{text[: fits - 1]}…"
    return el("text", shown, x=x, y=middle + 4, fill=INK, font_weight=600 if bold else None)
