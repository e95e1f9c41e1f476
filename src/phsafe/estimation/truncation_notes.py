"""Notes for data users: how the people beyond the thresholds were estimated, and for which tables they were not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from phsafe.configs.names import enumerated
from phsafe.estimation.identities import is_beyond
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.people_counted import truncated
from phsafe.model.spec import Table, Tabulation

#: Kinds of tabulations that measure what truncation drops → what they count.
MEASURES = {"dropped": "dropped persons", "oversized": "oversized households"}


def truncation_notes(
    release: Measured, known: Sequence[Sequence[Tabulation]], used: Sequence[LevelBlock], unknown: Sequence[str]
) -> str:
    """Return the notes as one text.

    Args:
        release: The measurements of the release.
        known: The tabulations of every universe with public shares.
        used: The measurements of what truncation drops.
        unknown: The names of the tabulations without public shares.
    """
    catalog = release.config.catalog
    people = {table: truncated(release.config, table) for table in catalog.tables}
    left_out = [table.name for table, tabulation in people.items() if tabulation and tabulation.name in unknown]
    notes = list(_measured(release, people, known, used)) if used else []
    if known and not used:
        notes.append(
            "The release doesn't measure what truncation drops, so the people beyond the thresholds are estimated from "
            "shares in public data. The intervals include the uncertainty of these shares."
        )
    if left_out:
        notes.append(
            f"People beyond the thresholds are left out of {enumerated(left_out)}: public data have no shares for them."
        )
    return " ".join(notes)


def _measured(
    release: Measured,
    people: Mapping[Table, Tabulation | None],
    known: Sequence[Sequence[Tabulation]],
    used: Sequence[LevelBlock],
) -> Iterator[str]:
    """Yield the notes on a release that measures some of what truncation drops; `people` is table → tabulation."""
    kinds = {block.tabulation.kind for block in used}
    names = [name for kind, name in MEASURES.items() if kind in kinds]
    yield (
        f"The people beyond the thresholds are estimated from the release's own measurements of {enumerated(names)}, "
        "and from shares in public data for what these don't measure or measure poorly."
    )
    declared = {tabulation.beyond for tabulation in release.config.catalog.truncation}
    undropped, unmeasured, undivided, national = [], [], [], []
    for universe in known:
        everyone = [block for block in used if block.level.iteration_level.covers]
        blocks = [block for block in everyone if is_beyond(release.config, block.tabulation, universe)]
        tables = [table for table, tabulation in people.items() if tabulation in universe]
        if not blocks:
            unmeasured += tables
            continue
        divided = {block.tabulation.beyond for block in blocks if len(block.tabulation.cells) > 1}
        undropped += [] if "dropped" in {block.tabulation.kind for block in blocks} else tables
        undivided += [table for table in tables if people[table] in declared - divided]
        national += tables if _are_regional(release.of(universe)) and not _are_regional(blocks) else []

    def named(tables: Sequence[Table]) -> str:
        return enumerated([table.name for table in release.config.catalog.tables if table in tables])

    if national:
        of = named(national)
        yield (
            f"The people beyond the thresholds of {of} are measured for the nation only; their distribution over its "
            "regions comes from public data."
        )
    if undropped:
        of = f" of {named(undropped)}" if "dropped" in kinds else ""
        yield f"The release measures no dropped persons{of}: their number per household comes from public data."
    if undivided:
        yield f"The distribution of these people over the cells of {named(undivided)} comes from public data."
    if unmeasured:
        yield (
            f"The people beyond the thresholds of {named(unmeasured)} are not measured; they are estimated from "
            "public data alone."
        )


def _are_regional(blocks: Iterable[LevelBlock]) -> bool:
    """Whether any measurement is of regions within the nation."""
    return any(block.level.geography.columns for block in blocks)
