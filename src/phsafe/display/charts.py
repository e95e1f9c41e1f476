"""Charts drawn with Matplotlib: rows of intervals, and stacked bars. On white, so that they look the same everywhere.

Matplotlib comes with the extra `plot` and is loaded when a chart is drawn.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from phsafe.display.numbers import is_wide
from phsafe.display.svg import Svg
from phsafe.system.optional_packages import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE = "#15202e", "#4d5a6f", "#d9dfe9"
ACCENT, SOFT, WIDE = "#1757ad", "#dbe8f9", "#8a4b00"
#: One colour per level: teal for the nation, violet for states. Further levels reuse them.
COLOURS = ("#0b7285", "#22b3c6", "#a5dfe8", "#5f3dc4", "#9775fa", "#d4c6fb")
#: Width of a chart, height of a row and of everything else, in inches.
WIDTH, ROW, FRAME = 9.0, 0.27, 1.5
#: Spaces that SVG keeps.
INDENT = "\u2003"
#: Text stays text in the SVG, so that it can be read out, searched and copied; the same chart gives the same bytes.
STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "phsafe", "font.size": 10, "axes.titlelocation": "left",
 "axes.edgecolor": LINE, "text.color": INK, "axes.labelcolor": MUTED,
    "xtick.color": MUTED, "ytick.color": INK, "axes.spines.top": False, "axes.spines.right": False,
    "axes.spines.left": False, "axes.grid": True, "axes.grid.axis": "x", "grid.color": LINE, "axes.axisbelow": True,
    "legend.frameon": False,
}  # fmt: skip


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


def intervals(title: str, note: str, axis: str, rows: Sequence[Interval], *, from_zero: bool = True) -> Svg:
    """Draw estimates with their 90 % intervals; bars are added if the axis starts at zero. Wide intervals are brown."""

    def draw(axes: Axes) -> None:
        for y, row in enumerate(rows):
            colour = WIDE if row.is_wide else ACCENT
            if from_zero:
                axes.barh(y, row.estimate, height=0.5, color=SOFT)
            axes.plot([row.lower, row.upper], [y, y], color=colour, lw=3, alpha=0.5, solid_capstyle="butt")
            axes.plot(row.estimate, y, "|", color=colour, ms=11, mew=2)
        axes.set_yticks(range(len(rows)), [f"{INDENT * row.indent}{row.label}" for row in rows])

    brown = "; brown if it is wider than the estimate" if any(row.is_wide for row in rows) else ""
    axis = f"{axis} (mark: estimate, line: 90 % interval{brown})"
    return _drawn(title, note, axis, draw, [row.text for row in rows], from_zero=from_zero)


def stacked(title: str, note: str, axis: str, legend: Sequence[str], rows: Sequence[Bar]) -> Svg:
    """Draw stacked bars with a legend."""

    def draw(axes: Axes) -> None:
        named: set[int] = set()
        for y, row in enumerate(rows):
            left = 0.0
            for part, size in row.parts:
                label = None if part in named else legend[part]
                named.add(part)
                axes.barh(y, size, left=left, height=0.6, color=COLOURS[part % len(COLOURS)], label=label)
                left += size
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        handles = dict(sorted(zip(*axes.get_legend_handles_labels()[::-1], strict=True), key=_order(legend)))
        axes.legend(handles.values(), handles.keys(), loc="lower right")

    return _drawn(title, note, axis, draw, [row.text for row in rows])


def _order(legend: Sequence[str]) -> Any:  # noqa: ANN401
    return lambda item: legend.index(item[0])


def _drawn(
    title: str,
    note: str,
    axis: str,
    draw: Callable[[Axes], None],
    texts: Sequence[str],
    *,
    from_zero: bool = True,
) -> Svg:
    """Draw on a new figure: title and note above, a labelled axis below, a text at the right end of each row."""
    require("matplotlib", extra="plot")
    import matplotlib as mpl  # noqa: PLC0415  (an extra, and slow to load)
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, FRAME + ROW * len(texts)), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        figure.suptitle(title, x=0.01, ha="left", weight="bold", size=11, wrap=True)
        axes.set_title(note, color=MUTED, size=10)
        axes.set_xlabel(axis, loc="right")
        axes.set_ylim(len(texts) - 0.5, -0.5)
        if from_zero:
            axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter("{x:,.6g}")
        for y, text in enumerate(texts):
            axes.text(1.02, y, text, transform=axes.get_yaxis_transform(), va="center", ha="left")
        # Labels start at the same place, so that indents show.
        figure.draw_without_rendering()
        widest = max(label.get_window_extent().width for label in axes.get_yticklabels())
        axes.tick_params(axis="y", length=0, pad=widest / figure.dpi * 72 + 4)
        for label in axes.get_yticklabels():
            label.set_horizontalalignment("left")
        return _as_svg(figure, f"{title}. {note}")


def _as_svg(figure: Figure, title: str) -> Svg:
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Title": title})
    markup = stream.getvalue()
    return Svg(markup[markup.index("<svg") :], title, figure)
