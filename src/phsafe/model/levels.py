"""Population groups (region × race/ethnicity iteration) and the levels they form.

A record belongs to at most one population group of a level (claim C3 of docs/privacy.md), because the regions of a
geography don't overlap and neither do the iterations of an iteration level. Both are public lists, never taken from
the data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product

from phsafe.model import table_checks as checks
from phsafe.model.conditions import Where, where
from phsafe.model.schema import GEO, MAJOR_RACES, PUERTO_RICO, RACES, STATES, Digits

#: Whose race and ethnicity an iteration refers to → the columns that hold them.
RACE_COLUMNS = {"person": ("CENRACE", "CENHISP"), "householder": ("HHRACE", "HHSPAN")}
ETHNICITIES = (1, 2)
#: Keys of geographies and region types; keys of iteration levels and codes of iterations, such as ``*`` and ``H,I``.
WORD = re.compile("[A-Za-z][A-Za-z0-9_-]{0,39}")
SYMBOLS = re.compile("[!#-{}~]{1,40}")
#: There can't be more disjoint iterations than combinations of race and ethnicity.
MAX_ITERATIONS = len(RACES) * len(ETHNICITIES)


@dataclass(frozen=True)
class Iteration:
    """A race/ethnicity iteration. `races` or `ethnicities` None means that it includes all of them."""

    code: str
    label: str
    races: frozenset[str] | None = None
    ethnicities: frozenset[int] | None = None

    def __post_init__(self) -> None:
        checks.refuse(_iteration_problems(self))

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
        checks.refuse(_iteration_level_problems(self))

    @cached_property
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
        checks.refuse(_geography_problems(self))

    def __hash__(self) -> int:
        return hash((self.key, self.region_type, len(self.regions)))

    @property
    def width(self) -> int:
        """The number of digits in a region code."""
        return sum(digits(column) for column in self.columns)

    def within(self, states: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """The regions in the given states, as (code, name)."""
        chosen = set(states)
        return tuple(region for region in self.regions if not self.columns or region[0][:2] in chosen)


def _matches(pattern: re.Pattern[str], word: object) -> bool:
    """Whether a word is a text of this pattern; a file may hold anything."""
    return isinstance(word, str) and pattern.fullmatch(word) is not None


def _iteration_problems(iteration: Iteration) -> Iterator[str]:
    code = iteration.code
    if not _matches(SYMBOLS, code):
        yield f"expected an iteration code of at most 40 letters, digits and signs, got {str(code)[:60]!r}"
    yield from checks.text_problems(f"iteration {str(code)[:40]}", label=iteration.label)
    for what, codes, known in (
        ("races", iteration.races, RACES),
        ("ethnicities", iteration.ethnicities, ETHNICITIES),
    ):
        wrong = sorted(map(str, set(codes) - set(known))) if codes is not None else []
        if wrong or (codes is not None and not codes):
            yield f"iteration {str(code)[:40]}: expected {what} of the code list, got {checks.listed(wrong) or 'none'}"


def _iteration_level_problems(level: IterationLevel) -> Iterator[str]:
    """Check that iterations are distinct and disjoint, and that they cover everyone if they are said to."""
    if not _matches(SYMBOLS, level.key):
        yield f"expected an iteration level key of at most 40 letters, digits and signs, got {str(level.key)[:60]!r}"
    yield from checks.text_problems(f"{str(level.key)[:40]}", label=level.label)
    if not 1 <= len(level.iterations) <= MAX_ITERATIONS:
        yield f"{level.key}: expected 1 to {MAX_ITERATIONS} iterations, got {len(level.iterations)}"
        return
    conditions = [i.condition("person") for i in level.iterations]
    for (one, condition), (other, other_condition) in combinations(zip(level.iterations, conditions, strict=True), 2):
        if one.code == other.code:
            yield f"{level.key}: expected distinct iterations, got {one.code} more than once"
        elif condition.overlaps(other_condition):
            yield f"{level.key}: iterations {one.code} and {other.code} overlap"
    if level.covers:
        rows = ({"CENRACE": race, "CENHISP": ethnicity} for race, ethnicity in product(RACES, ETHNICITIES))
        if not all(any(condition.allows(row) for condition in conditions) for row in rows):
            yield f"{level.key}: expected iterations that cover everyone, got some that don't; set covers to false"


def _geography_problems(geography: Geography) -> Iterator[str]:
    for what, word in (("geography key", geography.key), ("region type", geography.region_type)):
        if not _matches(WORD, word):
            yield f"expected a {what} of at most 40 letters, digits, _ and -, got {str(word)[:60]!r}"
    key, columns, regions = str(geography.key)[:40], geography.columns, geography.regions
    yield from checks.text_problems(key, label=geography.label)
    if columns and columns[0] != "TABBLKST":
        yield f"{key}: expected TABBLKST as the first column, got {columns[0]}"
    if len(set(columns)) != len(columns):
        yield f"{key}: expected distinct columns, got {checks.listed(columns)}"
    unknown = [column for column in columns if column not in GEO or GEO[column].is_integer]
    if unknown:
        yield f"{key}: expected geo columns with codes made of digits, got {checks.listed(unknown)}"
        return
    if len({code for code, _ in regions}) != len(regions):
        yield f"{key}: expected distinct region codes, got repeated ones"
    if not columns and len(regions) != 1:
        yield f"{key}: expected exactly one region without columns, got {len(regions)}"
    width = geography.width if columns else 1
    wrong = [code for code, _ in regions if not (code.isascii() and code.isdigit() and len(code) == width)]
    if wrong:
        yield f"{key}: expected region codes of {width} digits, got {checks.listed(map(repr, wrong))}"
    foreign = sorted({code[:2] for code, _ in regions if columns} - set(STATES))
    if foreign and not wrong:
        yield f"{key}: expected regions of states, got the state codes {checks.listed(foreign)}"
    long = [code for code, name in regions if not checks.is_text(name)]
    if long:
        yield f"{key}: expected names of at most {checks.MAX_TEXT} characters, got others in {checks.listed(long)}"
    if geography.covers and columns == ("TABBLKST",) and len(regions) != len(STATES):
        yield f"{key}: expected every state in regions that cover the country, got {len(regions)}; set covers to false"


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
