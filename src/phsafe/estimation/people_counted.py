"""Whom finished tables count, in words: everybody, or at most a fixed number of people per household."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from phsafe.configs.config import Config
from phsafe.configs.names import enumerated
from phsafe.estimation.table_lines import counted, ratios
from phsafe.model.spec import Table, Tabulation

if TYPE_CHECKING:
    from phsafe.estimation.estimates import Estimates


def truncated(config: Config, table: Table) -> Tabulation | None:
    """The truncated tabulation whose people a table counts or averages; None for a table of units.

    >>> from phsafe.model.tables import PH3, PH5
    >>> [truncated(Config.load("examples/us.json"), table).name for table in (PH3, PH5)]
    ['PH3', 'PH4']
    """
    tabulation = counted(table) or ratios(config.catalog, table)[0].numerator
    return tabulation if tabulation.is_truncated else None


def truncation(estimates: Estimates) -> Mapping[str, Any]:
    """What the diagnostics say about the people beyond the thresholds; nothing if they are left out."""
    found = estimates.diagnostics.get("truncation")
    return found if isinstance(found, dict) and estimates.diagnostics.get("target") == "everybody" else {}


def how_estimated(estimates: Estimates) -> str:
    """How the people beyond the thresholds were estimated; empty if they are left out."""
    about = truncation(estimates).get("about")
    return about if isinstance(about, str) else ""


def limits(estimates: Estimates) -> dict[str, int]:
    """Table → the most people per household that it counts, for the tables that leave the others out."""
    stated = truncation(estimates)
    unknown = stated.get("without_shares")
    without_shares = unknown if isinstance(unknown, list) else []
    found = {}
    for table in estimates.config.catalog.tables:
        tabulation = truncated(estimates.config, table) if table.name in estimates.tables else None
        if tabulation is not None and (not stated or tabulation.name in without_shares):
            found[table.name] = estimates.config.tau[tabulation.name]
    return found


def limit_text(estimates: Estimates, table: Table) -> str:
    """A sentence on whom a table leaves out, after a space; empty if the table counts everybody."""
    limit, of = limits(estimates).get(table.name), "" if table.average else " of its universe"
    but = _exception(estimates.config, [table])
    return f" Counts at most {limit} people{of} per household and leaves out the others{but}." if limit else ""


def coverage_text(estimates: Estimates) -> str:
    """What a 90 % interval contains: the true value, or the value without the people who are left out."""
    config, left_out = estimates.config, limits(estimates)
    finished = [table for table in config.catalog.tables if table.name in estimates.tables]
    everybody = any(truncated(config, table) for table in finished if table.name not in left_out)
    known = " and what is known about very large households" if everybody else ""
    value = "the value without them" if left_out and not everybody else "the true value"
    covers = f"Given the noise{known}, a 90 % interval contains {value} about nine times in ten"
    if not left_out:
        return f"{covers}."
    if everybody:
        return f"{covers}. People beyond the thresholds are left out of {enumerated(list(left_out))}."
    but = _exception(config, finished)
    return f"{_most(left_out)}{but}. {covers}; totals of all people are slightly higher."


def _exception(config: Config, tables: Sequence[Table]) -> str:
    """An exception for the structured mode, in which some cells count everybody; empty in other modes."""
    of = {truncated(config, table) for table in tables}
    measured = (m for m in config.measurements() if m.tabulation in of)
    blind = any(block.is_blind for m in measured for block in config.blocks(m.tabulation, m.level))
    return ", except in cells that read only the person" if blind else ""


def _most(left_out: Mapping[str, int]) -> str:
    """How many people per household the tables count at most."""
    usual = Counter(left_out.values()).most_common(1)[0][0]
    others = "; ".join(
        f"{limit} people of the universe in {enumerated([name for name, own in left_out.items() if own == limit])}"
        for limit in dict.fromkeys(left_out.values())
        if limit != usual
    )
    exceptions = f" ({others})" if others else ""
    return f"These tables count at most {usual} people per household{exceptions} and leave out the others"


def interval_command(estimates: Estimates) -> str:
    """The command for the interval of an expression from the joint fit; empty for tables of the independent method."""
    if estimates.method != "joint":
        return ""
    return "phsafe interval RELEASE" if truncation(estimates) else "phsafe interval RELEASE --target truncated"
