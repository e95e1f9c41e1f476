"""Presentation of results: HTML in which all text is escaped, SVG charts, and number formats. Reads no files."""

from __future__ import annotations

from phsafe.display.html import Html, el, printable
from phsafe.display.svg import Svg

__all__ = ["Html", "Svg", "el", "printable"]
