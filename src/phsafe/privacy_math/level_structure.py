"""The structure of a level: what its cells and iterations read decides how far one person can move its counts.

A *place* is a cell and an iteration of a level. Conditions are conjunctions, so the rows of a place are all pairs of a
person that meets one condition and a unit that meets another; the class of a level follows from comparing these
conditions, for any table (claim C16 of docs/privacy.md). The region is not part of a place, because it is a public
function of the household key (assumption G).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

from phsafe.model.conditions import Where
from phsafe.model.levels import Level
from phsafe.model.schema import PERSONS, UNITS
from phsafe.model.spec import Tabulation

#: The record type of a person in a housing unit.
IN_HOUSING = frozenset({3})
LevelClass = Literal["moves", "mixed gate", "uniform gate", "blind"]


class Distances(NamedTuple):
    """How far a count vector can move: the largest squared L2 distance and the largest L1 distance."""

    l2_squared: int
    l1: int


@dataclass(frozen=True)
class Structure:
    """The class of a level or of some of its cells, and what its distances depend on besides the threshold.

    Attributes:
        level_class: "moves" if the unit can move a person (or itself) between places; "mixed gate" if it can't, but
            can admit some persons and exclude others; "uniform gate" if it admits everyone or no one; "blind" if the
            unit table is not read at all.
        places: The number of places, up to two; more make no difference.
        reads_units: Whether cells or iterations read the unit, in addition to the unit filter.
        counts_persons: Whether persons are counted rather than units.

    """

    level_class: LevelClass
    places: int
    reads_units: bool
    counts_persons: bool

    def distances(self, tau: int | None) -> Distances:
        """The largest distances of unbounded neighbours (claims C16 and C17); τ is ignored by units and if blind."""
        k = self._max_contribution(tau)
        if self.level_class == "blind":
            return Distances(1, 1)
        if self.level_class == "moves":
            return Distances(2 * k**2, 2 * k)
        if self.level_class == "mixed gate":
            return Distances(k**2 + 1, k + 1)
        swap = self.places if self.counts_persons else 1
        return Distances(max(k**2, swap), max(k, swap))

    def staying(self, tau: int | None) -> Distances:
        """The largest distances if the household is in the tabulation's universe before and after (claim C19)."""
        if self.reads_units or self.level_class == "blind":
            return self.distances(tau)
        swap = self.places if self.counts_persons else 0
        return Distances(swap, swap)

    def entering(self, tau: int | None) -> Distances:
        """The largest distances if the household enters or leaves the tabulation's universe (claim C19)."""
        k = 1 if self.level_class == "blind" else self._max_contribution(tau)
        return Distances(k**2, k)

    def _max_contribution(self, tau: int | None) -> int:
        if not self.counts_persons or self.level_class == "blind":
            return 1
        if tau is None or tau < 1:
            raise ValueError(f"expected a truncation threshold of at least 1, got {tau}")
        return tau


def structure_of(tabulation: Tabulation, level: Level, cells: Iterable[int] | None = None) -> Structure:
    """Derive the structure of a level, counted through the unit table, from the declarations alone (claim C16).

    Args:
        tabulation: The tabulation.
        level: One of its levels.
        cells: The cells that are measured together; by default all.

    >>> from phsafe.model.tables import CENSUS_2020
    >>> national = {level.key: level for level in CENSUS_2020.levels}
    >>> [structure_of(CENSUS_2020.tabulation("PH4"), national[key]).level_class for key in ("usa_*", "usa_A-G")]
    ['uniform gate', 'moves']
    """
    chosen = tabulation.cells if cells is None else cells
    conditions = [
        tabulation.cells[cell] & iteration for cell in chosen for iteration in iteration_conditions(tabulation, level)
    ]
    in_filter = tabulation.persons or Where()
    places = [_Place(_on_persons(c) & in_filter, _on_units(c) & tabulation.units) for c in conditions]
    places = [place for place in places if place.is_possible]
    # Cells and iterations don't overlap, so a person who fits two places is in one or the other depending on the unit.
    distinct = dict.fromkeys(place.persons for place in places)
    if len(distinct) < len(places) or any(one.overlaps(other) for one, other in combinations(distinct, 2)):
        level_class: LevelClass = "moves"
    elif len({place.units for place in places}) > 1:
        level_class = "mixed gate"
    else:
        level_class = "uniform gate"
    reads_units = any(_on_units(c) != Where() for c in conditions)
    return Structure(level_class, min(2, len(places)), reads_units, tabulation.counts_persons)


def is_blind(tabulation: Tabulation, level: Level, cell: int) -> bool:
    """Whether a cell can be counted from persons and public geography alone, without the unit table (claim C17).

    The person filter must select residents of housing units. Without the unit table, nothing else leaves out those of
    group quarters, so the table would count other people than in the other modes.
    """
    if tabulation.persons is None or tabulation.units != Where() or tabulation.persons.codes("RTYPE") != IN_HOUSING:
        return False
    conditions = [tabulation.cells[cell], *iteration_conditions(tabulation, level)]
    return all(_on_units(condition) == Where() for condition in conditions)


#: The structure of what is counted without the unit table.
BLIND = Structure("blind", 2, reads_units=False, counts_persons=True)


def iteration_conditions(tabulation: Tabulation, level: Level) -> list[Where]:
    """The conditions of a level's iterations, on the columns that the tabulation iterates by."""
    by, iterations = tabulation.iterate_by, level.iteration_level.iterations
    return [Where() if by is None else iteration.condition(by) for iteration in iterations]


class _Place(NamedTuple):
    """The persons and the units of the rows at a place."""

    persons: Where
    units: Where

    @property
    def is_possible(self) -> bool:
        return self.persons.overlaps(Where()) and self.units.overlaps(Where())


def _on_persons(condition: Where) -> Where:
    return condition.on(set(PERSONS.names))


def _on_units(condition: Where) -> Where:
    return condition.on(set(UNITS.names))
