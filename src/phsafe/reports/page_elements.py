"""HTML elements that several sections of a report share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from phsafe.display.html import Child, Html, el


def section(name: str, title: str, *children: Child) -> Html:
    """A section of the page, with a heading that can be linked to."""
    return el("section", el("h2", title), *children, id=name, aria_label=title)


def table(
    caption: str, head: Sequence[Child], rows: Iterable[Sequence[Child]], *, class_: str = "", text_columns: int = 1
) -> Html:
    """A table with row headers that scrolls on its own if it is wider than the page.

    Args:
        caption: Caption, also read out by screen readers as the name of the scrolling region.
        head: Column headers.
        rows: Cells of each row; the first is the row's header.
        class_: CSS class of the table.
        text_columns: Number of leading text columns; the others hold numbers and are right-aligned.
    """

    def cell(i: int, content: Child, name: str) -> Html:
        scope = "col" if name == "th" else None
        if name == "td" and i == 0:
            name, scope = "th", "row"
        return el(name, content, scope=scope, class_="num" if i >= text_columns else None)

    body = (el("tr", *(cell(i, c, "td") for i, c in enumerate(row))) for row in rows)
    content = el(
        "table",
        el("caption", caption),
        el("thead", el("tr", *(cell(i, c, "th") for i, c in enumerate(head)))),
        el("tbody", *body),
        class_=class_ or None,
    )
    return el("div", content, class_="scroll", tabindex="0", role="region", aria_label=caption)


def facts(rows: Iterable[tuple[Child, Child]]) -> Html:
    """A description list: terms with their values."""
    return el("dl", *(el("div", el("dt", name), el("dd", value)) for name, value in rows), class_="facts")
