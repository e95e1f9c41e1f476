"""Accessibility fixes for the theme's HTML, applied to the finished pages."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

REPAIRS = (
    # Wide tables and code scroll sideways, so they must be reachable by keyboard.
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="output text_html">', '<div tabindex="0" class="output text_html">'),
    # Landmarks with the same role need distinct names.
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Site contents">'),
    ('<aside class="toc-drawer', '<aside aria-label="Page contents" class="toc-drawer'),
    # Every page needs a heading, and every heading a level.
    ('<div id="search-results">', '<h1>Search</h1><div id="search-results">'),
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("build-finished", repair)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def repair(app: Sphinx, exception: Exception | None) -> None:
    """Apply all repairs to every page."""
    if exception is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for old, new in REPAIRS:
            text = text.replace(old, new)
        page.write_text(text, encoding="utf-8")
