"""A chart as SVG text, which notebooks display and which can be saved to a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from phsafe.display.html import Child, el


@dataclass(frozen=True)
class Svg:
    """A chart. Notebooks display it; `write` saves it to a file."""

    markup: str = field(repr=False)
    title: str = ""

    def _repr_svg_(self) -> str:
        return self.markup

    def __str__(self) -> str:
        return self.markup

    def write(self, path: str | Path) -> Path:
        """Write the chart to a file and return its path."""
        Path(path).write_text(self.markup, encoding="utf-8")
        return Path(path)


def chart(title: str, width: int, height: int, *children: Child) -> Svg:
    """Return a chart on a white background, with a title for screen readers."""
    return Svg(
        el(
            "svg",
            el("title", title),
            el("rect", width=width, height=height, fill="#ffffff", rx=6),
            *children,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            width=width,
            height=height,
            role="img",
            font_family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif",
            font_size=12,
        ),
        title,
    )
