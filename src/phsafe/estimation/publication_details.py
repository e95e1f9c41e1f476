"""Who publishes the tables, when, and how to cite them: the one place that reads the config's `publication`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phsafe.configs.config import Config
from phsafe.configs.names import coverage

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates

TITLE = "People and their households"
WHAT = "Noise that protects privacy was added to the counts; the intervals account for it."


@dataclass(frozen=True)
class PublicationDetails:
    """What a cover sheet, a data package and a citation say about a publication; empty where it isn't known."""

    title: str
    what: str = WHAT
    agency: str = ""
    contact: str = ""
    citation: str = ""
    licence: str = ""
    date: str = ""

    def for_package(self) -> dict[str, Any]:
        """The keys of a data package that are known."""
        found: dict[str, Any] = {}
        if self.agency:
            found["contributors"] = [{"title": self.agency, "role": "publisher"}]
        if self.licence:
            found["licenses"] = [{"name": "other", "title": self.licence}]
        if self.date:
            found["created"] = f"{self.date}T00:00:00Z"
        if self.contact:
            found["contact"] = self.contact
        return found

    def rows(self) -> list[tuple[str, str]]:
        """What is known, as (name, text), for a cover sheet."""
        named = {"Agency": self.agency, "Date": self.date, "Contact": self.contact, "Licence": self.licence}
        return [(name, text) for name, text in named.items() if text]


def details(config: Config) -> PublicationDetails:
    """What the config says about the publication."""
    given = getattr(config, "publication", None)
    fields = {} if given is None else dict(given)
    return PublicationDetails(f"{TITLE}: {coverage(config)}", **{k: str(v) for k, v in fields.items() if v})


def citation(estimates: Estimates) -> str:
    """How to cite the tables: as the config says, otherwise from what is known, always with the release's id."""
    about = details(estimates.config)
    if about.citation:
        return about.citation
    parts = [
        about.agency, f"{about.title} [data set]", about.date,
        f"Release {estimates.release_id}" if estimates.release_id else "",
        f"{estimates.method.capitalize()} estimates with 90 % intervals",
    ]  # fmt: skip
    return ". ".join(part for part in parts if part) + "."
