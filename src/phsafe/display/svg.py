"""A chart as SVG text, which notebooks display and which can be saved to a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Svg:
    """A chart. Notebooks display it; `write` saves it to a file.

    Attributes:
        markup: The chart as SVG.
        title: What it shows.
        figure: The Matplotlib figure, to change it further; None for a chart that was not drawn with Matplotlib.
    """

    markup: str = field(repr=False)
    title: str = ""
    figure: Figure | None = field(default=None, repr=False, compare=False)

    def _repr_svg_(self) -> str:
        return self.markup

    def __str__(self) -> str:
        return self.markup

    def write(self, path: str | Path) -> Path:
        """Write the chart to a file and return its path: SVG, or with Matplotlib also PNG or PDF, by its ending."""
        path = Path(path)
        if self.figure is not None and path.suffix.lower() in (".png", ".pdf"):
            self.figure.savefig(path)
        else:
            path.write_text(self.markup, encoding="utf-8")
        return path
