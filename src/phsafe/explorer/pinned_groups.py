"""Pinned groups, which a user follows: a line of a table, for a region and a race or ethnicity, with its size.

Sizes are rounded public figures (`public_tables`), unless the user types one. They are never taken from data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

from phsafe.configs.config import Config
from phsafe.configs.line_sums import CellSum, LineSum, line_sums
from phsafe.errors import ConfigError
from phsafe.explorer import public_tables
from phsafe.explorer.solver_groups import Group
from phsafe.model.levels import Iteration, Level
from phsafe.model.spec import Catalog, Derived, Line, Table, Tabulation

MOST_PINS = 12
MAX_SIZE = 1e10
MAX_TEXT = 40
#: Table, line, region and iteration of the groups that the page starts with. Each must exist in the catalog.
DEFAULTS = {
    False: (
        ("PH3", 1, "56", "E"),  # Few people, and the smallest margin of 2020.
        ("PH1", 1, "46", "C"),
        ("PH2", 1, "56", "*"),
        ("PH2", 4, "38", "*"),
        ("PH6", 18, "50", "*"),
        ("PH8", 3, "30", "H"),
        ("PH4", 1, "30", "B"),
        ("PH1", 1, "1", "*"),
    ),
    True: (
        ("PH2", 1, "72", "*"),
        ("PH1", 1, "72", "*"),
        ("PH3", 1, "72", "H"),
        ("PH3", 9, "72", "*"),
        ("PH2", 4, "72", "*"),
        ("PH8", 3, "72", "H"),
    ),
}


@dataclass(frozen=True)
class PinnedGroup:
    """A line of a table for one population group. `people` and `units` are sizes that the user typed, or empty."""

    catalog: Catalog
    table: Table
    line: Line
    level: Level
    region: str
    iteration: Iteration
    people: str = ""
    units: str = ""
    weight: str = ""

    @classmethod
    def from_dict(cls, document: object, catalog: Catalog) -> PinnedGroup:
        """Read a group from its document.

        Raises:
            ConfigError: The document has the wrong structure, or the catalog has no such line or group.
        """
        if not isinstance(document, Mapping):
            raise ConfigError("expected a pinned group with table, line, region and iteration, got something else")
        texts = {name: _text(document, name) for name in ("table", "line", "region", "iteration")}
        found = find(catalog, texts["table"], texts["line"], texts["region"], texts["iteration"])
        if found is None:
            got = " ".join(texts.values())
            raise ConfigError(f"expected a pinned group of the catalog (table, line, region, iteration), got {got!r}")
        return cls(catalog, *found, *(_text(document, name) for name in ("people", "units", "weight")))

    @property
    def id(self) -> str:
        """The key of the group, such as ``PH3 1 56 E``."""
        return f"{self.table.name} {self.line.number} {self.region} {self.iteration.code}"

    @cached_property
    def sums(self) -> LineSum:
        """The basis cells that the line adds up."""
        return table_lines(self.catalog, self.table)[self.line.number]

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The tabulations and the level that must be published for this group."""
        return tuple((part.tabulation, self.level.key) for part in self.parts)

    @property
    def parts(self) -> tuple[CellSum, ...]:
        """The sum of cells, and for an average the one it is divided by."""
        return tuple(part for part in (self.sums.count, self.sums.per) if part is not None)

    @property
    def group(self) -> Group:
        """The group as the solver knows it."""
        people, units = (None if size is None else Decimal(str(size)) for size in self.sizes)
        return Group(self.id, self.level.key, self.table.name, self.line.number, people=people, households=units)

    @cached_property
    def sizes(self) -> tuple[float | None, float | None]:
        """The size of the count and, for an average, of what it is divided by; None if unknown or not a number."""
        return self._size(self.people, self.sums.count), self._size(self.units, self.sums.per)

    @property
    def problem(self) -> str | None:
        """What is wrong with a size, in one sentence."""
        for size, part, text in zip(
            self.sizes, (self.sums.count, self.sums.per), (self.people, self.units), strict=True
        ):
            if part is not None and size is None:
                what = "people" if self._persons(part) else "households"
                if text.strip():
                    return f"expected a number of {what} above 0 and below {MAX_SIZE:,.0f}, got “{text[:20]}”"
                return f"there is no public figure for this group; enter the number of {what}"
        return None

    @property
    def what(self) -> str:
        """What the line counts, in plain language."""
        return line_label(self.table, self.line)

    @property
    def who(self) -> str:
        """Whose race or ethnicity it is; empty for everyone."""
        if self.iteration.races is None and self.iteration.ethnicities is None:
            return ""
        by = self.catalog.tabulation(self.sums.count.tabulation).iterate_by
        return f"householder {self.iteration.label}" if by == "householder" else self.iteration.label

    @property
    def where(self) -> str:
        """The name of the region."""
        return dict(self.level.geography.regions)[self.region]

    @property
    def label(self) -> str:
        """The group in plain language."""
        return ", ".join(part for part in (self.what, self.who, self.where) if part)

    def to_dict(self) -> dict[str, Any]:
        """Return the group with its labels and its size."""
        people, units = self.sizes
        return {
            "id": self.id,
            "table": self.table.name,
            "line": self.line.number,
            "region": self.region,
            "iteration": self.iteration.code,
            "level": self.level.key,
            "label": self.label,
            "title": self.table.title,
            "line_label": self.what,
            "region_label": self.where,
            "iteration_label": _capitalised(self.who or self.iteration.label),
            "kind": "count" if self.sums.per is None else "average",
            "unit": self._unit(),
            "people": self.people or _shown(people),
            "units": self.units or _shown(units),
            "weight": self.weight,
            "size_text": _size_text(people, units, average=self.sums.per is not None),
            "sources": [list(key) for key in self.keys],
        }

    def _unit(self) -> str:
        counted = "people" if self._persons(self.sums.count) else "households"
        return counted if self.sums.per is None else f"{counted} per household"

    def _persons(self, part: CellSum) -> bool:
        return self.catalog.tabulation(part.tabulation).counts_persons

    def _size(self, typed: str, part: CellSum | None) -> float | None:
        """Return the size that the user typed, or the public one."""
        if part is None:
            return None
        return _number(typed) if typed.strip() else self._public(part)

    def _public(self, part: CellSum) -> float | None:
        """Return the public figure: the group's people or households times the share of the line's cells."""
        group = public_tables.groups().get((self.region, self.iteration.code))
        shares = public_tables.cells().get(part.tabulation)
        if group is None or shares is None or not all(cell in shares for cell in part.basis):
            return None
        whole = group[1] if self._persons(part) else group[0]
        return max(1.0, float(f"{whole * sum(shares[cell] for cell in part.basis):.3g}"))


def defaults(catalog: Catalog, *, puerto_rico: bool) -> list[PinnedGroup]:
    """Return the groups that the page starts with; none if the catalog doesn't have them."""
    found = []
    for table, line, region, iteration in DEFAULTS[puerto_rico]:
        parts = find(catalog, table, str(line), region, iteration)
        if parts is not None:
            found.append(PinnedGroup(catalog, *parts))
    return found


def read_pins(documents: object, catalog: Catalog) -> list[PinnedGroup]:
    """Read a list of groups; None is the empty list, and a group that is pinned twice counts once."""
    if documents is None:
        return []
    if not isinstance(documents, list) or len(documents) > MOST_PINS:
        raise ConfigError(f"expected a list of at most {MOST_PINS} pinned groups")
    return list({pin.id: pin for pin in (PinnedGroup.from_dict(one, catalog) for one in documents)}.values())


def find(
    catalog: Catalog, table: str, line: str, region: str, iteration: str
) -> tuple[Table, Line, Level, str, Iteration] | None:
    """Return the table, line and level of a group, or None if the catalog doesn't have it."""
    for one in catalog.tables:
        for row in one.shell if one.name == table else ():
            if str(row.number) != line:
                continue
            for level in levels_of(catalog, one):
                code = next((i for i in level.iteration_level.iterations if i.code == iteration), None)
                if code is not None and any(region == known for known, _ in level.geography.regions):
                    return one, row, level, region, code
    return None


def levels_of(catalog: Catalog, table: Table) -> list[Level]:
    """Return the levels at which a table can be published."""
    outputs: list[Tabulation | Derived] = [*table.derived, *table.tabulations]
    measured = [catalog.measured(output) for output in outputs]
    return [level for level in catalog.levels if all(t.allows(level) for t in measured)]


@lru_cache(maxsize=256)
def table_lines(catalog: Catalog, table: Table) -> dict[int, LineSum]:
    """Return the lines of a table by number, as sums of basis cells."""
    # Which cells a line adds up doesn't depend on budgets, so any config of the catalog will do.
    return {one.line.number: one for one in line_sums(Config({}, {}, (), catalog=catalog), table)}


def line_label(table: Table, line: Line) -> str:
    """Return what a line counts, in plain language: the universe or the average, and the lines it belongs to.

    >>> from phsafe.model.tables import PH1, PH3
    >>> line_label(PH3, PH3.shell[0]), line_label(PH1, PH1.shell[1])
    ('Population in households under 18 years', 'Average household size: under 18 years')
    """
    about = table.universe if table.average is None else table.title.split(" by ")[0].capitalize()
    path: list[Line] = []
    for one in reversed(table.shell[: table.shell.index(line) + 1]):
        if one.indent > 0 and (not path or one.indent < path[-1].indent):
            path.append(one)
    labels = [one.label.rstrip(":") for one in reversed(path)]
    return ": ".join([about, ", ".join(label[0].lower() + label[1:] for label in labels)]) if labels else about


def tabulation_label(catalog: Catalog, tabulation: Tabulation) -> str:
    """Return the title of a tabulation; those of an average say which of its two counts they are.

    >>> from phsafe import CENSUS_2020
    >>> [tabulation_label(CENSUS_2020, CENSUS_2020.tabulation(name)) for name in ("PH1_num", "PH5_denom", "PH2")]
    ... # doctest: +NORMALIZE_WHITESPACE
    ['Average Household Size by Age: people', 'Average Family Size by Age: families',
     'Household Type for the Population in Households']
    """
    table, title = catalog.table_of(tabulation), catalog.title(tabulation)
    if table.average is None or tabulation.beyond is not None:
        return title
    return f"{title}: {'people' if tabulation.counts_persons else table.universe.lower()}"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(text: str) -> float | None:
    try:
        number = float(text.strip().replace(",", ""))
    except ValueError:
        return None
    return number if 0 < number < MAX_SIZE and math.isfinite(number) else None


def _shown(size: float | None) -> str:
    return "" if size is None else f"{size:.0f}"


def _size_text(people: float | None, units: float | None, *, average: bool) -> str:
    if people is None or (average and units is None):
        return ""
    return f"{people / units:.2f}" if units is not None else f"{people:,.0f}"


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name, "")
    if value is None:
        return ""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ConfigError(f"pinned group, {name}: expected text, got {type(value).__name__}")
    return str(value)[:MAX_TEXT]
