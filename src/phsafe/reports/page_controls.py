"""The controls with which readers of a report choose what to see. They stay hidden until the page's script runs.

The script keeps every choice in the page's address under the name of its control, so names are unique on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from phsafe.display.html import Child, Html, el
from phsafe.model.spec import Line, Table
from phsafe.reports.report_subject import Subject

#: Value and label of an option.
Option = tuple[str, str]


def controls(name: str, *children: Child) -> Html:
    """The form of a section's controls."""
    return el("form", *children, class_="choose", data_section=name, hidden=True)


def choice(label: str, name: str, options: Iterable[Option], chosen: str, *, long: bool = False) -> Html:
    """A labelled list to choose from; a `long` one gets more room."""
    listed = [el("option", text, value=value, selected=value == chosen) for value, text in options]
    return _labelled(label, el("select", *listed, name=name), "long" if long else None)


def figure_choice(label: str, name: str, tables: Sequence[Table], chosen: str) -> Html:
    """A labelled list of all lines of all tables, grouped by table."""
    groups = [
        el(
            "optgroup",
            *(el("option", f"{table.name} {full_label(table, line)}", value=(value := f"{table.name} {line.number}"),
                 selected=value == chosen) for line in table.shell),
            label=f"{table.name} {table.title}",
        )
        for table in tables
    ]  # fmt: skip
    return _labelled(label, el("select", *groups, name=name), "long")


def checkbox(label: str, name: str, value: str) -> Html:
    """A checkbox with its label after it."""
    return el("label", el("input", type="checkbox", name=name, value=value), " ", label, class_="check")


def region_options(subject: Subject) -> list[Option]:
    """Every region with a finished table."""
    return [(" ".join(key), name) for key, name in subject.regions.items()]


def group_options(subject: Subject) -> list[Option]:
    """Every race or ethnicity iteration with a finished table."""
    return [(code, iteration_name(code, label)) for code, label in subject.iterations.items()]


def table_options(tables: Iterable[Table]) -> list[Option]:
    """Tables with their titles."""
    return [(table.name, f"{table.name} {table.title}") for table in tables]


def iteration_name(code: str, label: str) -> str:
    """The name of an iteration in lists."""
    return label if code == "*" else f"{code}  {label}"


def full_label(table: Table, line: Line) -> str:
    """The label of a line with those of the lines above it, since labels repeat within a table.

    >>> from phsafe.model.tables import PH6
    >>> full_label(PH6, PH6.shell[2])
    'In married couple family: Under 4 years'
    """
    above: dict[int, str] = {}
    for other in table.shell:
        above = {indent: label for indent, label in above.items() if indent < other.indent}
        above[other.indent] = other.label.rstrip(":")
        if other is line:
            break
    labels: Mapping[int, str] = above if line.indent == 0 else {i: text for i, text in above.items() if i > 0}
    return ": ".join(labels.values())


def _labelled(label: str, control: Html, class_: str | None) -> Html:
    return el("label", el("span", label), control, class_=class_)
