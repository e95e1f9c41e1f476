"""Pictures in docs/images/diagrams stand in the page itself, so that they take its colours, light or dark.

As a file (on a code host, say) such a picture falls back to colours of its own.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "images/diagrams/"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-resolved", inline)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Put each picture's own text in place of the image."""
    for image in list(doctree.findall(nodes.image)):
        if FOLDER not in image["uri"]:
            continue
        if not image.get("alt"):
            raise ValueError(f"{docname}: the picture {image['uri']} needs a text that says what it shows")
        svg = Path(app.srcdir, FOLDER, Path(image["uri"]).name).read_text(encoding="utf-8")
        label = escape(image["alt"], quote=True)
        described = re.sub("<svg ", f'<svg class="diagram" role="img" aria-label="{label}" ', svg, count=1)
        frame = f'<span class="diagram-frame" tabindex="0">{described}</span>'
        image.replace_self(nodes.raw("", frame, format="html"))
