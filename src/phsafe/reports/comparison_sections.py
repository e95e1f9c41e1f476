"""The report sections that compare two groups, add up regions, and chart one figure. The page's script fills them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from phsafe.display.html import Child, Html, el
from phsafe.estimation.people_counted import interval_command
from phsafe.reports.page_controls import (
    checkbox,
    choice,
    controls,
    figure_choice,
    group_options,
    region_options,
    table_options,
)
from phsafe.reports.page_elements import section
from phsafe.reports.report_subject import Group, Subject

#: With fewer regions than this on the map, a list is clearer.
MIN_MAP_REGIONS = 8


def compare(subject: Subject) -> Html | None:
    """The section that shows two groups side by side, or None if there is only one."""
    pair = _pair(subject)
    if pair is None:
        return None
    parts: list[Child] = []
    for label, name, group in zip(("First", "Second"), ("first", "second"), pair, strict=True):
        parts += [
            choice(f"{label}: region", name, region_options(subject), " ".join(group[:2])),
            choice(f"{label}: race or ethnicity", f"{name}-group", group_options(subject), group[2]),
        ]
    return section(
        "compare",
        "Compare two regions or groups",
        el(
            "p",
            "The difference has its own 90 % interval. If the interval excludes zero, the difference is more than "
            "noise; otherwise noise alone could explain it. Of many pairs that are in fact equal, up to about "
            "one in ten will seem to differ by more than noise.",
        ),
        controls(
            "compare",
            *parts,
            choice("Table", "compare-table", table_options(subject.tables), _table_of(subject, pair), long=True),
        ),
        el("noscript", el("p", "Comparing needs JavaScript.", class_="note")),
        el("p", id="compare-result", class_="result", aria_live="polite"),
        el("div", id="compare-table", class_="filled"),
        _how(
            subject,
            "compare",
            "The interval is computed from the two published intervals, as if their errors were unrelated.",
            " It is widened a little because groups that are fitted to a common total can err in opposite directions. "
            "This command computes the interval from the joint fit, which takes into account how the errors are "
            "related:",
        ),
    )


def add_up(subject: Subject) -> Html | None:
    """The section that adds up regions, or None if there is nothing to add."""
    kind, number = Counter(region_type for region_type, _ in subject.regions).most_common(1)[0]
    tables = [
        table
        for table in subject.tables
        if table.average is None and any(region_type == kind for region_type, *_ in subject.cells(table))
    ]
    if number < 2 or not tables:
        return None
    regions = [(value, name) for value, name in region_options(subject) if value.split()[0] == kind]
    return section(
        "add",
        "Add up regions",
        el(
            "p",
            "Choose the regions to add up. Counts can be added; averages can’t, because regions differ in size.",
        ),
        controls(
            "add",
            choice("Table", "add-table", table_options(tables), tables[0].name, long=True),
            choice("Race or ethnicity", "add-group", group_options(subject), subject.start[2]),
            el(
                "fieldset",
                el("legend", "Regions"),
                el("div", *(checkbox(name, "add", value) for value, name in regions), class_="checks"),
            ),
        ),
        el("noscript", el("p", "Adding up needs JavaScript.", class_="note")),
        el("p", id="add-result", class_="result", aria_live="polite"),
        el("div", id="add-table", class_="filled"),
        _how(
            subject,
            "add",
            "The bounds of the sum are the sums of the bounds. That is at least a 90 % interval: wide enough however "
            "strongly the errors of the regions are correlated.",
            " This command computes the interval from the joint fit, which is usually narrower:",
        ),
    )


def chart(subject: Subject) -> Html | None:
    """The section with one figure on a map and as ranked dot plots, or None if there is only one group."""
    if _pair(subject) is None:
        return None
    region = " ".join(subject.start[:2])
    mapped = sum(region_type == "STATE" for region_type, _ in subject.regions) >= MIN_MAP_REGIONS
    return section(
        "map",
        "Map and ranking",
        el("p", "Any line of any table: by region, and by race and ethnicity in one region. Where intervals overlap, "
                "the ranking may be due to noise."),
        controls(
            "map",
            figure_choice("Figure", "figure", subject.tables, f"{_first(subject)} {subject.tables[0].shell[0].number}"),
            choice("Race or ethnicity (map and regions)", "map-group", group_options(subject), subject.start[2]),
            choice("Region (races and ethnicities)", "map-region", region_options(subject), region),
        ),
        el("noscript", el("p", "Charts need JavaScript.", class_="note")),
        el("p", id="map-where", aria_live="polite"),
        el("figure", id="map-tiles") if mapped else None,
        el("figure", id="map-regions") if len(subject.regions) > 1 else None,
        el("figure", id="map-groups") if len(subject.iterations) > 1 else None,
    )  # fmt: skip


def _how(subject: Subject, name: str, how: str, joint: str) -> Html:
    """How an interval is computed, and the command for the one from the joint fit, if there is a joint fit.

    It is hidden until there is an interval.
    """
    command = (
        el("p", el("code", id=f"{name}-command"), class_="command") if interval_command(subject.estimates) else None
    )
    note = el("p", how, joint if command else None, class_="note")
    return el("div", note, command, id=f"{name}-how", hidden=True)


def _first(subject: Subject) -> str:
    return subject.tables[0].name


def _table_of(subject: Subject, groups: Sequence[Group]) -> str:
    """The first table that is published for all of these groups, if there is one."""
    shared = (t.name for t in subject.tables if all(group in subject.cells(t) for group in groups))
    return next(shared, _first(subject))


def _pair(subject: Subject) -> tuple[Group, Group] | None:
    """Two groups to compare first: two regions of the most common type, or two iterations of the only region."""
    kind, _ = Counter(region_type for region_type, _ in subject.regions).most_common(1)[0]
    regions = [key for key in subject.regions if key[0] == kind]
    groups: Sequence[Group] = [(*key, subject.start[2]) for key in regions]
    if len(groups) < 2:
        groups = [(*subject.start[:2], code) for code in subject.iterations]
    return (groups[0], groups[1]) if len(groups) > 1 else None
