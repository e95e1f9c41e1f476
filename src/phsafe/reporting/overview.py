"""The head of the page, what was published, what to be careful with, and where it all comes from."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from phsafe import grid
from phsafe.budgets import UNITS
from phsafe.display.html import Child, Html, el, join, printable
from phsafe.display.numbers import is_wide, plural, share
from phsafe.estimation.reading import table_file
from phsafe.explorer.lines import levels_of
from phsafe.files import table_path
from phsafe.folder import MANIFEST, hash_file
from phsafe.reporting.accuracy import levels_of as used_levels
from phsafe.reporting.accuracy import name_of
from phsafe.reporting.parts import facts, section, table
from phsafe.reporting.privacy import amount, epsilon
from phsafe.reporting.subject import Subject

#: So many parts of the program are listed with their versions, at most.
MOST_VERSIONS = 20


def head(subject: Subject) -> Html:
    """Title, one sentence, and the numbers that people look for first."""
    loss, config = subject.budget.loss, subject.config
    unit = UNITS[config.privacy]
    cells = sum(len(lines) for t in subject.tables for lines in subject.cells(t).values())
    figures: list[tuple[str, str, str]] = [
        (amount(loss.unbounded), f"privacy loss {unit}", "one person added or removed"),
        (amount(loss.bounded), f"privacy loss {unit}", "one person’s record replaced"),
    ]
    if config.privacy == "zcdp":
        figures.append((epsilon(loss, subject, "unbounded"), "ε of the first", f"at δ = {subject.budget.delta:g}"))
    figures.append((f"{cells:,}", "finished cells", f"in {plural(len(subject.tables), 'table')}, with intervals"))
    return el(
        "header",
        el("p", "PHSafe release report", class_="kicker"),
        el("h1", subject.heading),
        el(
            "p",
            f"For {subject.places}. Every number carries noise that protects the people behind it.",
            class_="lead",
        ),
        _warning(subject),
        el(
            "ul",
            *(el("li", el("b", value), el("span", name), el("small", note)) for value, name, note in figures),
            class_="figures",
        ),
    )


def _warning(subject: Subject) -> Html | None:
    """What is wrong with the release, where the report was made all the same."""
    if not subject.problems:
        return None
    shown = [el("li", printable(problem)) for problem in subject.problems[:10]]
    more = len(subject.problems) - len(shown)
    return el(
        "div",
        el("p", el("b", "This release did not pass its check."), " Do not rely on this page."),
        el("ul", *shown, el("li", f"and {more:,} more") if more else None),
        class_="warning",
        role="note",
    )


def published(subject: Subject) -> Html:
    """The section that lists the tables."""
    rows: list[list[Child]] = []
    for spec in subject.tables:
        groups = subject.cells(spec)
        whom = sorted({group[2] for group in groups}, key=list(subject.iterations).index)
        rows.append(
            [
                join(el("b", spec.name), " ", spec.title, el("small", f"Universe: {spec.universe}")),
                "averages" if spec.average else "counts",
                _span(whom),
                f"{len(groups):,}",
                f"{sum(map(len, groups.values())):,}",
            ]
        )
    missing = [
        el("li", el("b", t.name), f" {t.title}")
        for t in subject.config.catalog.tables
        if t.name not in subject.estimates.tables
    ]
    noisy = sum(len(grid.rows(subject.config, output)) for output, _ in subject.config.outputs())
    return section(
        "published",
        "What was published",
        el(
            "p",
            f"The release holds {plural(noisy, 'noisy count')} in "
            f"{plural(sum(1 for _ in subject.config.outputs()), 'file')}. From them alone come "
            f"{plural(len(subject.tables), 'finished table')}, for {subject.places}.",
        ),
        table(
            "Finished tables",
            ["Table", "Holds", "Told apart by", "Groups", "Cells"],
            rows,
            words=3,
        ),
        el("p", "Letters stand for race and ethnicity iterations: ", _letters(subject), class_="note")
        if len(subject.iterations) > 1
        else None,
        join(el("p", "Not among the finished tables:"), el("ul", *missing)) if missing else None,
    )


def _span(codes: list[str]) -> str:
    others = [code for code in codes if code != "*"]
    parts = ["everyone"] if "*" in codes else []
    if len(others) > 2 and [ord(code[0]) for code in others] == [ord(others[0][0]) + i for i in range(len(others))]:
        return ", ".join([*parts, f"{others[0]}–{others[-1]}"])
    return ", ".join([*parts, *others])


def _letters(subject: Subject) -> str:
    named = [f"{code} {label}" for code, label in subject.iterations.items() if code != "*"]
    return f"{'; '.join(named)}."


def quality(subject: Subject) -> Html:
    """The section that counts flagged cells, and says whether the measurements agree with each other."""
    levels = used_levels(subject)
    rows: list[list[Child]] = []
    for spec in subject.tables:
        row: list[Child] = [join(el("b", spec.name), " ", spec.title)]
        at = levels_of(subject.config, spec)
        for level in levels:
            if level not in at:
                row.append("–")
                continue
            codes = {i.code for i in level.iteration_level.iterations}
            cells = [
                cell
                for (kind, _, code), lines in subject.cells(spec).items()
                if kind == level.geography.region_type and code in codes
                for cell in lines.values()
            ]
            wide = sum(map(is_wide, cells))
            row.append(join(share(wide / len(cells)), el("small", f"{wide:,} of {len(cells):,}")))
        rows.append(row)
    test = subject.estimates.diagnostics.get("noise_test")
    verdict = test.get("verdict") if isinstance(test, dict) else None
    return section(
        "quality",
        "Handle with care",
        el(
            "p",
            "A cell is flagged where its 90 % interval is wider than the estimate itself. Most flagged cells are small "
            "groups or empty ones; adding several of them up, or taking a larger group, gives something to stand on.",
        ),
        table("Share of flagged cells", ["Table", *map(name_of, levels)], rows),
        el(
            "p",
            el("b", "Do the noisy counts fit together? "),
            f"{verdict[:1].upper()}{printable(verdict)[1:]}.",
        )
        if isinstance(verdict, str)
        else None,
        el(
            "p",
            "Intervals cover the noise. They cover neither people beyond the thresholds of very large households nor "
            "errors of the collection itself.",
        ),
    )


def provenance(subject: Subject) -> Html:
    """The section with ids, versions and hashes: enough to see that nothing was changed."""
    release = subject.release
    rows: list[list[Child]] = [[MANIFEST, "", _hash(hash_file(release.path / MANIFEST))]]
    for output, _ in subject.config.outputs():
        path = table_path(output)
        if (release.path / path).is_file():
            rows.append(
                [
                    str(path),
                    f"{len(grid.rows(subject.config, output)):,}",
                    _hash(hash_file(release.path / path)),
                ]
            )
    if subject.folder is not None:
        for spec in subject.tables:
            file = table_file(subject.folder, spec.name)
            frame = subject.estimates.tables[spec.name]
            rows.append([f"{file.name} (finished)", f"{frame.height:,}", _hash(hash_file(file))])
    return section(
        "provenance",
        "Where this comes from",
        facts(_facts(subject)),
        table("Files and their SHA-256", ["File", "Rows", "SHA-256"], rows, class_="files", words=1),
        el(
            "p",
            "With the release folder at hand, ",
            el("code", "phsafe check RELEASE"),
            " compares every file with the manifest; the command that made this page makes it again, byte for byte. "
            "The page carries no date and calls no network.",
        ),
    )


def _facts(subject: Subject) -> Iterator[tuple[Child, Child]]:
    yield "Release", el("code", printable(subject.release.release_id, 80))
    versions = subject.release.manifest.get("versions")
    known = list(versions.items())[:MOST_VERSIONS] if isinstance(versions, dict) else []
    yield "Made with", ", ".join(f"{printable(name, 40)} {printable(value, 40)}" for name, value in known)
    yield "Check", "did not pass" if subject.problems else "whole and untouched when this page was made"
    yield "Finished tables", _source(subject)
    yield "This page", f"phsafe {version('phsafe')}"


def _source(subject: Subject) -> str:
    method = f"{subject.estimates.method} method"
    if subject.folder is None:
        return f"{method}, computed for this page from the release"
    if subject.estimates.release_id:
        return f"{method}, read from files that name this release"
    return f"{method}, read from files that don’t say from which release they were made"


def _hash(value: str) -> Html:
    return el("code", value, class_="hash")
