"""The report sections on how to read the numbers, and how to cite them."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from phsafe.display.html import Child, Html, el, join, printable
from phsafe.display.numbers import FLAG, FLAG_TEXT, plural, supported_place
from phsafe.estimation.people_counted import coverage_text, how_estimated, limits, truncated, truncation
from phsafe.reports.page_elements import facts, section, table
from phsafe.reports.report_subject import Subject

NOT_GIVEN = "not given"
#: The longest note on how people beyond the thresholds were estimated.
LONGEST_NOTE = 2000


def how_to_read(subject: Subject) -> Html:
    """The section that explains intervals, marks, rounding and truncation."""
    return section(
        "read",
        "How to read the numbers",
        el("h3", "Estimate and interval"),
        el(
            "p",
            "Random noise was added to every count to protect people, so each number here is an estimate, and the 90 % "
            f"interval shows how far off it may be. {coverage_text(subject.estimates)} Intervals don’t account for "
            "errors in the data collection itself.",
        ),
        el("h3", f"What {FLAG} means"),
        el(
            "p",
            f"{FLAG} marks an {FLAG_TEXT}: use the interval. The noise is as large as the number, so the estimate "
            "alone says little. Use a larger region or group, or add up several counts.",
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


def _truncation(subject: Subject) -> Html | None:
    """What truncation does, in people."""
    estimates, config = subject.estimates, subject.config
    left_out, people = limits(estimates), truncation(estimates).get("people")
    added = people if isinstance(people, dict) else {}
    rows: list[list[Child]] = []
    for spec in subject.tables:
        tabulation = truncated(config, spec)
        if tabulation is not None:
            beyond = "left out" if spec.name in left_out else _range(added.get(tabulation.name))
            rows.append([join(el("b", spec.name), " ", spec.title), str(config.tau[tabulation.name]), beyond])
    if not rows:
        return None
    everybody = len(left_out) < len(rows)
    head: list[Child] = ["Table", "Limit per household", "People beyond it, in all regions together"]
    return join(
        el("h3", "Very large households"),
        el(
            "p",
            "To protect people in very large households, the release counts at most a fixed number of people in each "
            "household. ",
            "The tables here add the others back, using an estimate of their number. "
            if everybody
            else "The tables here leave the others out, so totals of all people are slightly higher. ",
            printable(how_estimated(estimates), LONGEST_NOTE),
        ),
        table(
            "People in very large households",
            head if everybody else head[:2],
            rows if everybody else [row[:2] for row in rows],
            class_="limits",
        ),
    )


def _range(people: object) -> str:
    """The number of people beyond a threshold with its interval, rounded to the digits that the interval supports."""
    parts = [people.get(name) for name in ("estimate", "lower", "upper")] if isinstance(people, dict) else []
    known = [part for part in parts if isinstance(part, int) and 0 <= part < 10**12]
    if len(known) != 3:
        return NOT_GIVEN
    estimate, lower, upper = known
    unit = 10 ** supported_place((estimate, lower, upper), average=False)
    return f"about {round(estimate / unit) * unit:,} ({lower // unit * unit:,} – {-(-upper // unit) * unit:,})"


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
    if limits(subject.estimates):
        yield "Not counted", "people beyond a limit per household: see “How to read the numbers”"
    yield "Made with", f"PHSafe {version('phsafe')}"
