"""Who publishes a release, and how to cite it: optional text in a config, shown on the report and in other outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

#: The longest line of text in a config.
MAX_TEXT = 1000


@dataclass(frozen=True)
class Publication:
    """Who publishes a release, and how to cite it. Every field is optional: an empty one isn't shown.

    Attributes:
        title: The name of the data product.
        agency: Who publishes it.
        contact: Where questions go, such as an e-mail address.
        date: When it was published, as YYYY-MM-DD.
        version: The version of the data product.
        licence: Under which licence it may be used.
        citation: How to cite it. Without one, `cite` composes a citation of the other fields.

    Example:
        >>> print(Publication(agency="Bureau of Examples", date="2031-05-01").cite("Households 2030", "0f0e"))
        Bureau of Examples (2031). Households 2030. Release 0f0e. Published 2031-05-01.
    """

    title: str = ""
    agency: str = ""
    contact: str = ""
    date: str = ""
    version: str = ""
    licence: str = ""
    citation: str = ""

    def __bool__(self) -> bool:
        return self != Publication()

    def cite(self, title: str, release_id: str) -> str:
        """The citation: as given, or composed of what is known."""
        if self.citation:
            return self.citation
        year = f" ({self.date[:4]})" if self.date else ""
        parts = [
            f"{self.agency}{year}" if self.agency else "",
            title,
            f"Version {self.version}" if self.version else "",
            f"Release {release_id}" if release_id else "",
            f"Published {self.date}" if self.date else "",
        ]
        return " ".join(f"{part}." for part in parts if part)

    def to_document(self) -> dict[str, str]:
        """The fields that are given, as in a config."""
        return {name: text for name, text in asdict(self).items() if text}


FIELDS = tuple(field.name for field in fields(Publication))


def read_publication(value: object, problems: list[str]) -> Publication:
    """Read the `publication` of a config document, and add what is wrong with it to `problems`."""
    if value is None:
        return Publication()
    if not isinstance(value, Mapping) or not set(value) <= set(FIELDS):
        problems.append(f"publication: expected a mapping of {', '.join(FIELDS)}, got {value!r:.60}")
        return Publication()
    wrong = [name for name, text in value.items() if not _is_line(text)]
    problems += [
        f"publication, {name}: expected one line of at most {MAX_TEXT} characters, got {value[name]!r:.40}"
        for name in wrong
    ]
    if "date" in value and "date" not in wrong and not _is_date(value["date"]):
        problems.append(f"publication, date: expected YYYY-MM-DD, got {value['date']!r:.40}")
    return Publication() if problems else Publication(**value)


def _is_line(text: Any) -> bool:  # noqa: ANN401
    return isinstance(text, str) and bool(text.strip()) and text.isprintable() and len(text) <= MAX_TEXT


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
