"""Population groups: geographies × race and ethnicity iterations, gathered in levels.

A record falls in at most one group of a level (claim C3 of docs/privacy.md): the regions of a geography
and the iterations of an iteration level never overlap; both are public lists, never read from data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from phsafe.conditions import Where, where
from phsafe.schema import GEO, MAJOR_RACES, PUERTO_RICO, RACES, STATES, Digits

#: Who carries the race and ethnicity of an iteration, and in which columns.
RACE_COLUMNS = {"person": ("CENRACE", "CENHISP"), "householder": ("HHRACE", "HHSPAN")}


@dataclass(frozen=True)
class Iteration:
    """A race and ethnicity iteration; None means that any race (or ethnicity) belongs to it."""

    code: str
    label: str
    races: frozenset[str] | None = None
    ethnicities: frozenset[int] | None = None

    def condition(self, by: str) -> Where:
        """The condition on the columns of `by`, "person" or "householder"."""
        race, ethnicity = RACE_COLUMNS[by]
        both = {race: self.races, ethnicity: self.ethnicities}
        return where(**{name: codes for name, codes in both.items() if codes is not None})


@dataclass(frozen=True)
class IterationLevel:
    """Iterations that never overlap. `covers` says whether every record in a universe has one."""

    key: str
    label: str
    iterations: tuple[Iteration, ...]
    covers: bool

    def __post_init__(self) -> None:
        for one, other in combinations(self.iterations, 2):
            if one.code == other.code:
                raise ValueError(f"{self.key}: expected every iteration once, got {one.code} again")
            if one.condition("person").overlaps(other.condition("person")):
                raise ValueError(f"{self.key}: iterations {one.code} and {other.code} overlap")

    @property
    def is_total(self) -> bool:
        """Whether it is everyone together, told apart by no race or ethnicity."""
        return all(i.condition("person") == Where() for i in self.iterations)


@dataclass(frozen=True)
class Geography:
    """Regions that never overlap: each is a value of the geo columns, joined.

    `regions` is the public list of (code, name); a nation has no columns and one region. `covers` says
    whether its regions make up the whole country; `puerto_rico`, whether it exists there.
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
            raise ValueError(f"{self.key}: expected every column once, got {', '.join(self.columns)}")
        if len({code for code, _ in self.regions}) != len(self.regions):
            raise ValueError(f"{self.key}: expected every region once, got repeated codes")
        if not self.columns and len(self.regions) != 1:
            raise ValueError(f"{self.key}: expected one region where there are no columns")
        width = self.width
        wrong = [code for code, _ in self.regions if self.columns and len(code) != width]
        if wrong:
            raise ValueError(f"{self.key}: expected codes of {width} digits, got {wrong[0]!r}")

    @property
    def width(self) -> int:
        """The number of digits in a region's code."""
        return sum(digits(column) for column in self.columns)

    def within(self, states: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """The regions that lie in the given states."""
        chosen = set(states)
        return tuple(region for region in self.regions if not self.columns or region[0][:2] in chosen)


def digits(column: str) -> int:
    """The width of a geo column that holds digits."""
    if column not in GEO or GEO[column].is_integer:
        raise ValueError(f"expected a geo column that holds digits, got {column}")
    domain = GEO[column].domain
    return domain.width if isinstance(domain, Digits) else len(str(domain[0]))


@dataclass(frozen=True)
class Level:
    """A population group level: one geography crossed with one iteration level."""

    geography: Geography
    iteration_level: IterationLevel

    @property
    def key(self) -> str:
        """The name of the level in a config, such as ``usa_*`` or ``state_A-G``."""
        return f"{self.geography.key}_{self.iteration_level.key}"

    @property
    def label(self) -> str:
        """The paper's name, such as ``(State, A-G)``."""
        return f"({self.geography.label}, {self.iteration_level.label})"

    def groups(self, states: Iterable[str]) -> Iterator[tuple[str, Iteration]]:
        """All (region code, iteration) pairs of the level, in order."""
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

UNATTRIBUTED = IterationLevel("*", "Unattributed", (TOTAL,), covers=True)
A_G = IterationLevel("A-G", "A-G", (*SINGLE_RACES, TWO_OR_MORE), covers=True)
H_I = IterationLevel("H,I", "H-I", (HISPANIC, WHITE_NOT_HISPANIC), covers=False)
ITERATION_LEVELS = (UNATTRIBUTED, A_G, H_I)

NATION = Geography("usa", "Nation", "USA", (), (("1", "United States"),), puerto_rico=False)
STATE = Geography("state", "State", "STATE", ("TABBLKST",), tuple(STATES.items()))

LEVELS = tuple(Level(geography, iterations) for geography in (NATION, STATE) for iterations in ITERATION_LEVELS)


def in_puerto_rico(states: Iterable[str]) -> bool:
    """Whether a state filter means the Puerto Rico run."""
    return PUERTO_RICO in set(states)
