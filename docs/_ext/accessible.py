"""What the theme leaves out for people who use a keyboard or a screen reader, put in when the pages are done."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

REPAIRS = (
    # Wide tables and code scroll sideways inside the page, so the keyboard must be able to reach them.
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="output text_html">', '<div tabindex="0" class="output text_html">'),
    # Two landmarks of a kind need names of their own.
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Contents of the site">'),
    ('<aside class="toc-drawer', '<aside aria-label="Contents of the page" class="toc-drawer'),
    # A page has a heading, and a heading has a rank.
    ('<div id="search-results">', '<h1>Search</h1><div id="search-results">'),
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", repair)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def repair(app: Sphinx, exception: Exception | None) -> None:
    """Go over every page once."""
    if exception is not None or app.builder.format != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for found, better in REPAIRS:
            text = text.replace(found, better)
        page.write_text(text, encoding="utf-8")
