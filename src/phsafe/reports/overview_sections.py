"""The header of the report, and its sections on what was published, data quality and provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version

from phsafe.configs import grid
from phsafe.configs.line_sums import table_levels
from phsafe.display.html import Child, Html, el, join, printable
from phsafe.display.numbers import is_wide, plural, share
from phsafe.estimation.read_estimates import table_file
from phsafe.releases.file_layout import table_path
from phsafe.releases.manifest import MANIFEST, hash_file
from phsafe.reports.margin_sections import levels_of
from phsafe.reports.page_elements import facts, section, table
from phsafe.reports.report_subject import Subject

#: The most package versions that the page lists.
MAX_VERSIONS = 20


def head(subject: Subject) -> Html:
    """The title, who publishes it and when, and one sentence."""
    given = subject.config.publication
    stated = [given.agency, given.date, f"Version {given.version}" if given.version else ""]
    return el(
        "header",
        el("p", "PHSafe release report", class_="kicker"),
        el("h1", subject.heading),
        el("p", " · ".join(part for part in stated if part), class_="publisher") if any(stated) else None,
        el(
            "p",
            f"For {subject.places}. Every number contains random noise that protects the people it describes.",
            class_="lead",
        ),
        _warning(subject),
        _catalog(subject),
    )


def contents(sections: Mapping[str, str], subject: Subject) -> Html:
    """The table of contents that a printed report begins with."""
    items = []
    for name, title in sections.items():
        tables = [el("li", el("a", f"{t.name} {t.title}", href=f"#table-{t.name}")) for t in subject.tables]
        items.append(el("li", el("a", title, href=f"#{name}"), el("ul", *tables) if name == "tables" else None))
    return el("div", el("h2", "Contents"), el("ol", *items), class_="contents")


def _warning(subject: Subject) -> Html | None:
    """The problems of a release that failed its check, if the report was forced."""
    if not subject.problems:
        return None
    shown = [el("li", printable(problem)) for problem in subject.problems[:10]]
    more = len(subject.problems) - len(shown)
    return el(
        "div",
        el("p", el("b", "This release failed its check."), " Do not rely on this page."),
        el("ul", *shown, el("li", f"and {more:,} more") if more else None),
        class_="warning",
        role="note",
    )


def _catalog(subject: Subject) -> Html | None:
    """How the tables and levels differ from those that PHSafe ships."""
    notes = subject.release.catalog_notes
    if not notes:
        return None
    items = [el("li", note) for note in notes[1:]]
    return el("div", el("p", el("b", notes[0])), el("ul", *items) if items else None, class_="warning", role="note")


def published(subject: Subject) -> Html:
    """The section that lists the finished tables."""
    rows: list[list[Child]] = []
    for spec in subject.tables:
        groups = subject.cells(spec)
        codes = sorted({group[2] for group in groups}, key=list(subject.iterations).index)
        rows.append(
            [
                join(el("b", spec.name), " ", spec.title, el("small", f"Universe: {spec.universe}")),
                "averages" if spec.average else "counts",
                _span(codes),
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
            f"{plural(sum(1 for _ in subject.config.outputs()), 'file')}. "
            f"From these alone, {plural(len(subject.tables), 'finished table')} "
            f"{'was' if len(subject.tables) == 1 else 'were'} computed for {subject.places}.",
        ),
        table(
            "Finished tables",
            ["Table", "Contains", "Race and ethnicity", "Groups", "Cells"],
            rows,
            text_columns=3,
        ),
        el("p", "Letters are race and ethnicity iterations: ", _letters(subject), class_="note")
        if len(subject.iterations) > 1
        else None,
        join(el("p", "Not among the finished tables:"), el("ul", *missing)) if missing else None,
    )


def _span(codes: list[str]) -> str:
    """Iteration codes, abbreviated, with a run of letters as a range: ``everyone, A–G``."""
    others = [code for code in codes if code != "*"]
    parts = ["everyone"] if "*" in codes else []
    if len(others) > 2 and [ord(code[0]) for code in others] == [ord(others[0][0]) + i for i in range(len(others))]:
        return ", ".join([*parts, f"{others[0]}–{others[-1]}"])
    return ", ".join([*parts, *others])


def _letters(subject: Subject) -> str:
    named = [f"{code} {label}" for code, label in subject.iterations.items() if code != "*"]
    return f"{'; '.join(named)}."


def quality(subject: Subject) -> Html:
    """The section that counts flagged cells and reports whether the noisy measurements are consistent."""
    levels = levels_of(subject)
    rows: list[list[Child]] = []
    for spec in subject.tables:
        row: list[Child] = [join(el("b", spec.name), " ", spec.title)]
        at = table_levels(subject.config, spec)
        for level in levels:
            if level not in at:
                row.append("–")
                continue
            codes = {i.code for i in level.iteration_level.iterations}
            cells = [
                cell
                for (region_type, _, code), lines in subject.cells(spec).items()
                if region_type == level.geography.region_type and code in codes
                for cell in lines.values()
            ]
            wide = sum(map(is_wide, cells))
            row.append(join(share(wide / len(cells)), el("small", f"{wide:,} of {len(cells):,}")))
        rows.append(row)
    test = subject.estimates.diagnostics.get("noise_test")
    verdict = test.get("verdict") if isinstance(test, dict) else None
    return section(
        "quality",
        "Data quality",
        el(
            "p",
            "A cell is flagged if its 90 % interval is wider than the estimate itself. Most flagged cells belong to "
            "small or empty groups; combine several of them, or use a larger group, for a reliable figure.",
        ),
        table("Share of flagged cells", ["Table", *(level.label for level in levels)], rows),
        el(
            "p",
            el("b", "Are the noisy counts consistent with each other? "),
            f"{verdict[:1].upper()}{printable(verdict)[1:]}.",
        )
        if isinstance(verdict, str)
        else None,
    )


def provenance(subject: Subject) -> Html:
    """The section with the release id, versions and file hashes, so that any change can be detected."""
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
        "Provenance",
        facts(_facts(subject)),
        table("Files and their SHA-256", ["File", "Rows", "SHA-256"], rows, class_="files", text_columns=1),
        el(
            "p",
            el("code", "phsafe check RELEASE"),
            " compares every file in the release folder with the manifest. Rerunning the command that made this page "
            "reproduces it byte for byte: its only date is the one in the config, and it never uses the network.",
        ),
    )


def _facts(subject: Subject) -> Iterator[tuple[Child, Child]]:
    yield "Release", el("code", subject.release_id)
    versions = subject.release.manifest.get("versions")
    known = list(versions.items())[:MAX_VERSIONS] if isinstance(versions, dict) else []
    yield "Made with", ", ".join(f"{printable(name, 40)} {printable(value, 40)}" for name, value in known)
    for name, part in (("Built from", "build"), ("On", "platform")):
        stated = subject.release.manifest.get(part)
        if isinstance(stated, dict):
            shown = [f"{printable(key, 40)} {printable(value, 80)}" for key, value in stated.items() if value]
            yield name, ", ".join(shown[:MAX_VERSIONS])
    if "catalog_sha256" in subject.release.manifest:
        yield "Catalog", f"SHA-256 {printable(subject.release.manifest['catalog_sha256'], 80)}"
    yield "Check", "failed" if subject.problems else "passed: complete and unchanged when this page was made"
    yield "Finished tables", _source(subject)
    yield "This page", f"phsafe {version('phsafe')}"


def _source(subject: Subject) -> str:
    method = f"{subject.estimates.method} method"
    if subject.folder is None:
        return f"{method}, computed for this page from the release"
    if subject.estimates.release_id:
        return f"{method}, read from files that name this release"
    return f"{method}, read from files that do not name the release they were made from"


def _hash(value: str) -> Html:
    return el("code", value, class_="hash")
