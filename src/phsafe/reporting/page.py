"""The whole page: one file, no network, and a policy under which only its own script and style can run."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from importlib.resources import files

from phsafe.display.html import Html, el, join, printable
from phsafe.reporting.accuracy import margins, spending
from phsafe.reporting.atlas import atlas
from phsafe.reporting.browse import browse, payload
from phsafe.reporting.overview import head, provenance, published, quality
from phsafe.reporting.privacy import privacy
from phsafe.reporting.subject import Subject
from phsafe.reporting.tiles import TILES

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
    """The report as HTML. The same release and tables give the same bytes."""
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
        "map": atlas(subject),
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
            el("a", "Skip to the content", href="#content", class_="skip"),
            el("nav", el("ul", *(el("li", el("a", NAMES[name], href=f"#{name}")) for name in shown),
                          el("li", el("button", "Dark or light", type="button", id="theme", hidden=True))),
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
    """The style sheet, with the place of every tile."""
    places = [f".t{code} {{ grid-area: {row} / {column} }}\n" for code, (_, column, row) in TILES.items()]
    return _static("report.css") + "".join(places)


def _static(name: str) -> str:
    return files("phsafe.reporting").joinpath("static", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """What a policy calls an inline script or style by."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
