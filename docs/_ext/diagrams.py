"""Inline the diagrams of docs/images/diagrams into the page, so that they follow its light or dark theme.

Shown as a file elsewhere, for instance on a code host, a diagram uses its own default colours.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "images/diagrams/"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension with Sphinx."""
    app.connect("doctree-resolved", inline)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Replace each diagram's image element by its SVG source."""
    for image in list(doctree.findall(nodes.image)):
        if FOLDER not in image["uri"]:
            continue
        if not image.get("alt"):
            raise ValueError(f"{docname}: expected an alternative text for the diagram {image['uri']}, found none")
        svg = Path(app.srcdir, FOLDER, Path(image["uri"]).name).read_text(encoding="utf-8")
        label = escape(image["alt"], quote=True)
        described = re.sub("<svg ", f'<svg class="diagram" role="img" aria-label="{label}" ', svg, count=1)
        frame = f'<span class="diagram-frame" tabindex="0">{described}</span>'
        image.replace_self(nodes.raw("", frame, format="html"))
