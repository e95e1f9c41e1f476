"""A chart as SVG text: shown in notebooks, and writable to a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from phsafe.display.html import Child, el


@dataclass(frozen=True)
class Svg:
    """A chart. Notebooks show it; `write` makes a file of it."""

    markup: str = field(repr=False)
    title: str = ""

    def _repr_svg_(self) -> str:
        return self.markup

    def __str__(self) -> str:
        return self.markup

    def write(self, path: str | Path) -> Path:
        """Write the chart to a file."""
        Path(path).write_text(self.markup, encoding="utf-8")
        return Path(path)


def chart(title: str, width: int, height: int, *children: Child) -> Svg:
    """A chart on white paper, with its title for those who can't see it."""
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
