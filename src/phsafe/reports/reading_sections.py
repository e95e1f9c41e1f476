"""The report sections on how to read the numbers, and how to cite them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version

from phsafe.display.html import Child, Html, el, join, printable
from phsafe.display.numbers import FLAG, FLAG_TEXT, plural
from phsafe.reports.page_elements import facts, section, table
from phsafe.reports.report_subject import Subject

NOT_GIVEN = "not given"


def how_to_read(subject: Subject) -> Html:
    """The section that explains intervals, marks, rounding and truncation."""
    return section(
        "read",
        "How to read the numbers",
        el("h3", "Estimate and interval"),
        el(
            "p",
            "Random noise was added to every count to protect people, so each number here is an estimate. The 90 % "
            "interval shows how far off it may be: of all such intervals, about nine in ten contain the true value. It "
            f"accounts for the noise{_and_truncation(subject)}, not for errors in the data collection itself.",
        ),
        el("h3", f"What {FLAG} means"),
        el(
            "p",
            f"{FLAG} marks an {FLAG_TEXT}. The noise is then as large as the number: a count is small, and an average "
            "of a group this small says little. Use a larger region or group, or add up several.",
        ),
        el("h3", "Rounding"),
        el(
            "p",
            "Numbers are shown with the digits that their interval supports: rounding changes an estimate by at most "
            "an eighth of its margin of error, and bounds are rounded outwards. Rounded numbers may not add up. "
            "“Show all digits”, pointing at a number, and every download give the full values.",
        ),
        _truncation(subject),
    )


def _and_truncation(subject: Subject) -> str:
    return " and for the people beyond the limits below" if _people(subject) else ""


def _people(subject: Subject) -> Mapping[str, object]:
    """The people beyond the thresholds by tabulation, as the diagnostics state them."""
    truncation = subject.estimates.diagnostics.get("truncation")
    people = truncation.get("people") if isinstance(truncation, dict) else None
    return people if isinstance(people, dict) else {}


def _truncation(subject: Subject) -> Html | None:
    """What truncation does, in people."""
    config, people = subject.config, _people(subject)
    rows: list[list[Child]] = []
    for spec in subject.tables:
        for tabulation in spec.tabulations:
            if tabulation.is_truncated and tabulation.name in config.tau:
                shown = _range(people.get(tabulation.name))
                rows.append([join(el("b", spec.name), " ", spec.title), str(config.tau[tabulation.name]), shown])
    if not rows:
        return None
    whole = any(row[2] != NOT_GIVEN for row in rows)
    about = subject.estimates.diagnostics.get("truncation")
    source = about.get("about") if isinstance(about, dict) else None
    return join(
        el("h3", "Very large households"),
        el(
            "p",
            "To protect people in very large households, the release counts at most a fixed number of people in each "
            "household. ",
            "The tables here add the others back, using an estimate of their number. "
            if whole
            else "The tables here leave the others out, so they are slightly low. ",
            printable(source) if isinstance(source, str) else None,
        ),
        table(
            "People beyond the limit, in all regions together",
            ["Table", "Limit per household", "People beyond it" if whole else "People beyond it (not estimated)"],
            rows,
            class_="limits",
        ),
    )


def _range(people: object) -> str:
    """The number of people beyond a threshold, with its interval."""
    if not isinstance(people, dict):
        return NOT_GIVEN
    parts = [people.get(name) for name in ("estimate", "lower", "upper")]
    if not all(isinstance(part, int) and 0 <= part < 10**12 for part in parts):
        return NOT_GIVEN
    return f"about {parts[0]:,} ({parts[1]:,} – {parts[2]:,})"


def citing(subject: Subject) -> Html:
    """The section with the citation, and who publishes the release under which terms."""
    return section(
        "cite",
        "Cite and contact",
        el("p", "To cite this release:"),
        el("blockquote", el("p", subject.citation, id="citation"),
           el("button", "Copy citation", type="button", id="copy-citation", hidden=True)),
        facts(_facts(subject)),
        el(
            "p",
            "To cite one number, give its table, line, region, group and interval, and the address of this page with "
            "your choice in it.",
            class_="note",
        ),
    )  # fmt: skip


def _facts(subject: Subject) -> Iterator[tuple[Child, Child]]:
    given = subject.config.publication
    yield "Agency", given.agency or NOT_GIVEN
    yield "Date", given.date or NOT_GIVEN
    yield "Version", given.version or NOT_GIVEN
    yield "Licence", given.licence or NOT_GIVEN
    yield "Contact", given.contact or NOT_GIVEN
    yield "Release", el("code", subject.release_id)
    yield "Area", subject.places
    yield "Tables", f"{plural(len(subject.tables), 'table')}, {subject.estimates.method} method"
    yield "Made with", f"PHSafe {version('phsafe')}"
