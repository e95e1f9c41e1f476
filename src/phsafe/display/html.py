"""Building HTML and SVG from elements. Anything that is not an element is text, and text is always escaped."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape

VOID = frozenset({"br", "col", "input", "link", "meta"})
#: Unicode categories of characters that are invisible, break lines or reorder text.
INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
#: Untrusted text is shortened to this many characters.
MAX_LENGTH = 200


class Html(str):
    """HTML created by `el`, which needs no further escaping."""

    __slots__ = ()


Child = str | int | Iterable["Child"] | None


def el(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """Return an element.

    In attribute names, a trailing underscore is dropped and others become hyphens: `class_` is class, `data_x` is
    data-x. True gives an attribute without a value; None and False omit it.

    >>> el("p", "1 < 2", el("b", "&"), class_="x")
    '<p class="x">1 &lt; 2<b>&amp;</b></p>'
    """
    given = [_attribute(k, v) for k, v in attributes.items() if v is not None and v is not False]
    words = [name, *given]
    opened = f"<{' '.join(words)}>"
    return Html(opened if name in VOID else f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Concatenate elements and text."""
    return Html("".join(_parts(children)))


def printable(value: object, longest: int = MAX_LENGTH) -> str:
    r"""Make untrusted text safe to display: shorten it, and replace characters that are invisible or reorder text.

    >>> printable("a\u202eb\x00"), printable("x" * 300, 4), printable(["x"])
    ('a�b�', 'xxx…', '(not a text)')
    """
    if not isinstance(value, str):
        return "(not a text)"
    cut = value if len(value) <= longest else f"{value[: longest - 1]}…"
    return "".join("\ufffd" if unicodedata.category(c) in INVISIBLE else c for c in cut)


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
