"""Population groups (region × race/ethnicity iteration) and the levels they form.

A record belongs to at most one population group of a level (claim C3 of docs/privacy.md), because the regions of a
geography don't overlap and neither do the iterations of an iteration level. Both are public lists, never taken from
the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from phsafe.model.conditions import Where, where
from phsafe.model.schema import GEO, MAJOR_RACES, PUERTO_RICO, RACES, STATES, Digits

#: Whose race and ethnicity an iteration refers to → the columns that hold them.
RACE_COLUMNS = {"person": ("CENRACE", "CENHISP"), "householder": ("HHRACE", "HHSPAN")}


@dataclass(frozen=True)
class Iteration:
    """A race/ethnicity iteration. `races` or `ethnicities` None means that it includes all of them."""

    code: str
    label: str
    races: frozenset[str] | None = None
    ethnicities: frozenset[int] | None = None

    def condition(self, by: str) -> Where:
        """The condition that defines the iteration, on the columns of `by` ("person" or "householder")."""
        race, ethnicity = RACE_COLUMNS[by]
        both = {race: self.races, ethnicity: self.ethnicities}
        return where(**{name: codes for name, codes in both.items() if codes is not None})


@dataclass(frozen=True)
class IterationLevel:
    """A set of disjoint iterations. `covers` is True if every record of a universe belongs to one of them."""

    key: str
    label: str
    iterations: tuple[Iteration, ...]
    covers: bool

    def __post_init__(self) -> None:
        for one, other in combinations(self.iterations, 2):
            if one.code == other.code:
                raise ValueError(f"{self.key}: expected distinct iterations, got {one.code} more than once")
            if one.condition("person").overlaps(other.condition("person")):
                raise ValueError(f"{self.key}: iterations {one.code} and {other.code} overlap")

    @property
    def is_total(self) -> bool:
        """Whether it is the total population, without a breakdown by race or ethnicity."""
        return all(i.condition("person") == Where() for i in self.iterations)


@dataclass(frozen=True)
class Geography:
    """A set of disjoint regions, identified by the concatenated values of the geo `columns`.

    `regions` is the public list of (code, name). The nation has one region and no columns. `covers` is True if the
    regions make up the whole country, `puerto_rico` if the geography exists in Puerto Rico.
    """

    key: str
    label: str
    region_type: str
    columns: tuple[str, ...]
    regions: tuple[tuple[str, str], ...]
    covers: bool = True
    puerto_rico: bool = True

    def __post_init__(self) -> None:
        if self.columns and self.columns[0] != "TABBLKST":
            raise ValueError(f"{self.key}: expected TABBLKST as the first column, got {self.columns[0]}")
        if len(set(self.columns)) != len(self.columns):
            raise ValueError(f"{self.key}: expected distinct columns, got {', '.join(self.columns)}")
        if len({code for code, _ in self.regions}) != len(self.regions):
            raise ValueError(f"{self.key}: expected distinct region codes, got repeated ones")
        if not self.columns and len(self.regions) != 1:
            raise ValueError(f"{self.key}: expected exactly one region without columns, got {len(self.regions)}")
        width = self.width
        wrong = [code for code, _ in self.regions if self.columns and len(code) != width]
        if wrong:
            raise ValueError(f"{self.key}: expected region codes of {width} digits, got {wrong[0]!r}")

    @property
    def width(self) -> int:
        """The number of digits in a region code."""
        return sum(digits(column) for column in self.columns)

    def within(self, states: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """The regions in the given states, as (code, name)."""
        chosen = set(states)
        return tuple(region for region in self.regions if not self.columns or region[0][:2] in chosen)


def digits(column: str) -> int:
    """The number of digits in a geo column."""
    if column not in GEO or GEO[column].is_integer:
        raise ValueError(f"expected a geo column with codes made of digits, got {column}")
    domain = GEO[column].domain
    return domain.width if isinstance(domain, Digits) else len(str(domain[0]))


@dataclass(frozen=True)
class Level:
    """A population group level: one geography crossed with one iteration level."""

    geography: Geography
    iteration_level: IterationLevel

    @property
    def key(self) -> str:
        """The name of the level in configs and files, such as ``usa_*`` or ``state_A-G``."""
        return f"{self.geography.key}_{self.iteration_level.key}"

    @property
    def label(self) -> str:
        """The public name of the level, such as ``State × race (A–G)``."""
        return f"{self.geography.label} × {self.iteration_level.label}"

    def groups(self, states: Iterable[str]) -> Iterator[tuple[str, Iteration]]:
        """The population groups of the level as (region code, iteration), in canonical order."""
        for region, _ in self.geography.within(states):
            for iteration in self.iteration_level.iterations:
                yield region, iteration


TOTAL = Iteration("*", "Total population")
SINGLE_RACES = tuple(
    Iteration("ABCDEF"[i], f"{name} alone", races=frozenset({f"{i + 1:02d}"})) for i, name in enumerate(MAJOR_RACES)
)
TWO_OR_MORE = Iteration(
    "G", "Two or more races", races=frozenset(code for code, races in RACES.items() if len(races) > 1)
)
HISPANIC = Iteration("H", "Hispanic or Latino", ethnicities=frozenset({2}))
WHITE_NOT_HISPANIC = Iteration(
    "I", "White alone, not Hispanic or Latino", races=frozenset({"01"}), ethnicities=frozenset({1})
)

UNATTRIBUTED = IterationLevel("*", "everyone", (TOTAL,), covers=True)
A_G = IterationLevel("A-G", "race (A–G)", (*SINGLE_RACES, TWO_OR_MORE), covers=True)
H_I = IterationLevel("H,I", "ethnicity (H, I)", (HISPANIC, WHITE_NOT_HISPANIC), covers=False)
ITERATION_LEVELS = (UNATTRIBUTED, A_G, H_I)

NATION = Geography("usa", "Nation", "USA", (), (("1", "United States"),), puerto_rico=False)
STATE = Geography("state", "State", "STATE", ("TABBLKST",), tuple(STATES.items()))

LEVELS = tuple(Level(geography, iterations) for geography in (NATION, STATE) for iterations in ITERATION_LEVELS)


def in_puerto_rico(states: Iterable[str]) -> bool:
    """Whether a state filter selects Puerto Rico."""
    return PUERTO_RICO in set(states)
