"""Building HTML and SVG from elements: whatever is not an element is text, and text is always escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape

VOID = frozenset({"br", "col", "input", "link", "meta"})
#: Kinds of characters that nobody sees, or that change lines or the order of others.
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
#: Texts that somebody else wrote are cut to this many characters.
LONGEST = 200


class Html(str):
    """Text that is HTML already, because `el` made it."""

    __slots__ = ()


Child = str | int | Iterable["Child"] | None


def el(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element. `class_` is the attribute class, `data_x` is data-x; True is a bare attribute, None none.

    >>> el("p", "1 < 2", el("b", "&"), class_="x")
    '<p class="x">1 &lt; 2<b>&amp;</b></p>'
    """
    given = [_attribute(k, v) for k, v in attributes.items() if v is not None and v is not False]
    words = [name, *given]
    opened = f"<{' '.join(words)}>"
    return Html(opened if name in VOID else f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Elements and texts one after another."""
    return Html("".join(_parts(children)))


def printable(value: object, longest: int = LONGEST) -> str:
    r"""A foreign text, cut, with a mark for every character that isn't seen or changes the order of others.

    >>> printable("a\u202eb\x00"), printable("x" * 300, 4), printable(["x"])
    ('a�b�', 'xxx…', '(not a text)')
    """
    if not isinstance(value, str):
        return "(not a text)"
    cut = value if len(value) <= longest else f"{value[: longest - 1]}…"
    return "".join("\ufffd" if unicodedata.category(c) in HIDDEN else c for c in cut)


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.rstrip("_").replace("_", "-")
    return name if value is True else f'{name}="{escape(str(value))}"'


def _parts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Html):
            yield child
        elif isinstance(child, str | int):
            yield escape(str(child), quote=False)
        elif child is not None:
            yield from _parts(child)
