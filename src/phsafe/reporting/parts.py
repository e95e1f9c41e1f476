"""Pieces that several sections of the page use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phsafe.display.html import Child, Html, el


def section(name: str, title: str, *children: Child) -> Html:
    """A section of the page, with a heading that can be linked to."""
    return el("section", el("h2", title), *children, id=name, aria_label=title)


def table(
    caption: str, head: Sequence[Child], rows: Iterable[Sequence[Child]], *, class_: str = "", words: int = 1
) -> Html:
    """A table whose first cell of a row names it; columns after the first `words` hold numbers.

    It scrolls by itself where it is wider than the page.
    """

    def cell(i: int, content: Child, name: str) -> Html:
        scope = "col" if name == "th" else None
        if name == "td" and i == 0:
            name, scope = "th", "row"
        return el(name, content, scope=scope, class_="num" if i >= words else None)

    body = (el("tr", *(cell(i, c, "td") for i, c in enumerate(row))) for row in rows)
    made = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *(cell(i, c, "th") for i, c in enumerate(head)))),
        el("tbody", *body),
        class_=class_ or None,
    )
    return el("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption)


def facts(rows: Iterable[tuple[Child, Child]]) -> Html:
    """A list of names and what they stand for."""
    return el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in rows), class_="facts")
