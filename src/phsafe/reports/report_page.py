"""The report page: one self-contained file whose content security policy allows only its own script and style.

It allows images that the script makes itself (`blob:`), to turn charts into PNG files, and nothing from elsewhere.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from importlib.resources import files

from phsafe.display.html import Html, el, join
from phsafe.reports.comparison_sections import add_up, chart, compare
from phsafe.reports.margin_sections import margins, spending
from phsafe.reports.overview_sections import contents, head, provenance, published, quality
from phsafe.reports.page_data import payload
from phsafe.reports.privacy_statement import privacy
from phsafe.reports.reading_sections import citing, how_to_read
from phsafe.reports.report_subject import Subject
from phsafe.reports.table_browser import browse

#: The sections in order: name, text in the navigation bar, and text in the printed contents.
NAMES = {
    "tables": ("Tables", "Tables"),
    "compare": ("Compare", "Compare two regions or groups"),
    "add": ("Add up", "Add up regions"),
    "map": ("Map", "Map and ranking"),
    "read": ("How to read", "How to read the numbers"),
    "cite": ("Cite", "Cite and contact"),
    "privacy": ("Privacy", "Privacy"),
    "published": ("Published", "What was published"),
    "budget": ("Budget", "How the privacy budget was spent"),
    "accuracy": ("Accuracy", "How accurate the noisy counts are"),
    "quality": ("Quality", "Data quality"),
    "provenance": ("Provenance", "Provenance"),
}
#: The files of the page's script, in order.
SCRIPTS = (
    "page_elements", "number_formats", "choices", "downloads", "tables", "search", "combinations", "charts", "tile_map",
    "start",
)  # fmt: skip
#: A library that writes Excel files; the page includes its licence.
EXCEL = "write-excel-file"


def page(subject: Subject) -> str:
    """The report as HTML; the same release and tables always give the same bytes."""
    style, script = _static("report.css"), _script()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    sections = {
        "tables": browse(subject),
        "compare": compare(subject),
        "add": add_up(subject),
        "map": chart(subject),
        "read": how_to_read(subject),
        "cite": citing(subject),
        "privacy": privacy(subject),
        "published": published(subject),
        "budget": spending(subject),
        "accuracy": margins(subject),
        "quality": quality(subject),
        "provenance": provenance(subject),
    }
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
            el("nav", el("ul", *(el("li", el("a", NAMES[name][0], href=f"#{name}")) for name in shown),
                          el("li", el("button", "Dark/light", type="button", id="theme", hidden=True))),
               aria_label="Sections"),
            el(
                "main",
                head(subject),
                contents({name: NAMES[name][1] for name in shown}, subject),
                *shown.values(),
                id="content",
            ),
            el("footer", el("p", "Made by PHSafe. Release ", el("code", subject.release_id), ".")),
            payload(subject),
            el("script", Html(script)),
        ),
        lang="en",
    )  # fmt: skip
    return join(Html("<!doctype html>\n"), document, Html("\n"))


def _script() -> str:
    """The page's script: its files share one scope, which nothing else on the page can reach."""
    own = "".join(_static(f"{name}.js") for name in SCRIPTS)
    # Its last line would send developer tools looking for a file that isn't there.
    library = _static(f"{EXCEL}.min.js").partition("//# sourceMappingURL")[0]
    return f'/*\n{_static(f"{EXCEL}.LICENSE.txt")}*/\n{library}\n(() => {{\n"use strict";\n{own}}})();\n'


def _static(name: str) -> str:
    return files("phsafe.reports").joinpath("static", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which a content security policy allows an inline script or style."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
