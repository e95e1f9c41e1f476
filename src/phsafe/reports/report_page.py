"""The report page: one self-contained file whose content security policy allows only its own script and style."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from importlib.resources import files

from phsafe.display.html import Html, el, join, printable
from phsafe.reports.margin_sections import margins, spending
from phsafe.reports.overview_sections import head, provenance, published, quality
from phsafe.reports.privacy_statement import privacy
from phsafe.reports.report_subject import Subject
from phsafe.reports.state_map import comparison
from phsafe.reports.table_browser import browse, payload
from phsafe.reports.tile_positions import TILES

NAMES = {
    "published": "Published",
    "privacy": "Privacy",
    "budget": "Budget",
    "accuracy": "Accuracy",
    "tables": "Tables",
    "map": "Map",
    "quality": "Quality",
    "provenance": "Provenance",
}


def page(subject: Subject) -> str:
    """The report as HTML; the same release and tables always give the same bytes."""
    style, script = _style(), _static("report.js")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    sections = {
        "published": published(subject),
        "privacy": privacy(subject),
        "budget": spending(subject),
        "accuracy": margins(subject),
        "tables": browse(subject),
        "map": comparison(subject),
        "quality": quality(subject),
        "provenance": provenance(subject),
    }
    release_id = printable(subject.release.release_id, 80)
    shown = {name: content for name, content in sections.items() if content is not None}
    document = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", http_equiv="Content-Security-Policy", content=policy),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="referrer", content="no-referrer"),
            el("meta", name="color-scheme", content="light dark"),
            el("title", f"{subject.heading}: release report"),
            el("style", Html(style)),
        ),
        el(
            "body",
            el("a", "Skip to content", href="#content", class_="skip"),
            el("nav", el("ul", *(el("li", el("a", NAMES[name], href=f"#{name}")) for name in shown),
                          el("li", el("button", "Dark/light", type="button", id="theme", hidden=True))),
               aria_label="Sections"),
            el("main", head(subject), *shown.values(), id="content"),
            el("footer", el("p", "Made by PHSafe. Release ", el("code", release_id), ".")),
            payload(subject),
            el("script", Html(script)),
        ),
        lang="en",
    )  # fmt: skip
    return join(Html("<!doctype html>\n"), document, Html("\n"))


def _style() -> str:
    """The style sheet, with the grid position of every tile of the state map."""
    positions = [f".t{code} {{ grid-area: {row} / {column} }}\n" for code, (_, column, row) in TILES.items()]
    return _static("report.css") + "".join(positions)


def _static(name: str) -> str:
    return files("phsafe.reports").joinpath("static", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which a content security policy allows an inline script or style."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
