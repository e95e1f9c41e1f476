"""State profiles: household shares from the American Community Survey 2024, shipped as package data."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib import resources

from phsafe.model.schema import PUERTO_RICO

SIZES = ("SIZE_1", "SIZE_2", "SIZE_3", "SIZE_4", "SIZE_5", "SIZE_6", "SIZE_7", "SIZE_8_UP")
TENURES = ("TEN_1", "TEN_2", "TEN_3", "TEN_4")
TYPES = ("HHT_1", "HHT_2", "HHT_3", "HHT_4", "HHT_5", "HHT_6", "HHT_7")
RACES = (
    "HHRACE_WHITE",
    "HHRACE_BLACK",
    "HHRACE_AIAN",
    "HHRACE_ASIAN",
    "HHRACE_NHPI",
    "HHRACE_SOR",
    "HHRACE_TWO_UP",
)
PUERTO_RICO_POPULATION = 3_285_874
PUERTO_RICO_HISPANIC = 98.9


@dataclass(frozen=True)
class Profile:
    """A state's FIPS code, 2020 population, people per household (in 1/10,000), and shares in percent."""

    state: str
    population: int
    size_e4: int
    shares: Mapping[str, float]

    @property
    def weight(self) -> int:
        """Proportional to the households of 2020: population divided by people per household, as an integer."""
        return self.population * 10**8 // self.size_e4

    def __getitem__(self, column: str) -> float:
        return self.shares[column]


@cache
def profiles() -> Mapping[str, Profile]:
    """All states, the District of Columbia and Puerto Rico, by FIPS code."""
    text = resources.files(__package__).joinpath("state_profiles.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    states = {row["STATE"]: _profile(row) for row in rows}
    return {**states, PUERTO_RICO: _puerto_rico(_combined(list(states.values())))}


@cache
def nation() -> Profile:
    """The 50 states and the District of Columbia together."""
    return _combined([profile for code, profile in profiles().items() if code != PUERTO_RICO])


def _combined(states: Sequence[Profile]) -> Profile:
    """Combine several states into one profile, weighted by households."""
    total = sum(profile.weight for profile in states)
    # fsum rounds once, regardless of order; `sum` differs between Python versions.
    shares = {
        name: math.fsum(profile.weight * profile[name] for profile in states) / total for name in states[0].shares
    }
    population = sum(profile.population for profile in states)
    return Profile("us", population, population * 10**8 // total, shares)


def _profile(row: Mapping[str, str]) -> Profile:
    ethnicity = ("HH_HISPANIC", "HH_WHITE_NOT_HISPANIC")
    names = ("VACANT_PCT", *SIZES, "SIZE_11_UP", *TENURES, *TYPES, *RACES, *ethnicity)
    size_e4 = int(Decimal(row["PERSONS_PER_HOUSEHOLD"]) * 10**4)
    return Profile(row["STATE"], int(row["POPULATION_2020"]), size_e4, {name: float(row[name]) for name in names})


def _puerto_rico(us: Profile) -> Profile:
    """Puerto Rico has no profile of its own: use the nation's shares with its population and ethnicity."""
    not_hispanic = us["HH_WHITE_NOT_HISPANIC"] / (100 - us["HH_HISPANIC"]) * (100 - PUERTO_RICO_HISPANIC)
    own = {"HH_HISPANIC": PUERTO_RICO_HISPANIC, "HH_WHITE_NOT_HISPANIC": not_hispanic}
    return Profile(PUERTO_RICO, PUERTO_RICO_POPULATION, us.size_e4, {**us.shares, **own})
