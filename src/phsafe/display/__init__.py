"""How results look: HTML in which every text is escaped, and charts as SVG. Knows numbers and words, no files."""

from __future__ import annotations

from phsafe.display.html import Html, el, printable
from phsafe.display.svg import Svg

__all__ = ["Html", "Svg", "el", "printable"]
