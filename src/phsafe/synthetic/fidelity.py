"""Fidelity of a synthetic folder: its shares against the targets for the nation and the states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from phsafe.model.schema import MAJOR_RACES, STATES
from phsafe.synthetic.state_profiles import RACES, SIZES, TENURES, TYPES, Profile, nation, profiles

#: The nation (ACS 2024), in percent of households, of people in households, and people per household.
NATION = {
    **dict(zip(SIZES, (28.89, 34.15, 15.29, 12.25, 5.70, 2.24, 0.85, 0.62), strict=True)),
    "SIZE_11_UP": 0.072,
    "MINORS_7_UP": 0.075,
    **dict(zip(TENURES, (38.99, 26.33, 33.03, 1.65), strict=True)),
    **dict(zip(TYPES, (46.71, 5.20, 12.11, 13.08, 3.83, 15.81, 3.27), strict=True)),
    **{"CPLT_1": 45.7, "CPLT_3": 6.5, "CPLT_2": 0.5, "CPLT_4": 0.4},
    **dict(zip((f"P_{name[2:]}" for name in RACES), (61.6, 12.4, 1.1, 6.0, 0.2, 8.4, 10.2), strict=True)),
    "P_HISPANIC": 18.7,
    "P_WHITE_NOT_HISPANIC": 57.8,
}
TAILS = ("SIZE_11_UP", "MINORS_7_UP")
_RACE_LABELS = (*(f"{race} alone" for race in MAJOR_RACES), "Two or more races")
LABELS = {
    **{f"SIZE_{n}": f"{n} {'person' if n == 1 else 'people'}" for n in range(1, 8)},
    "SIZE_8_UP": "8 or more people",
    "SIZE_11_UP": "more than 10 people",
    "MINORS_7_UP": "more than 6 people under 18",
    "PERSONS_PER_HOUSEHOLD": "people per household",
    "VACANT_PCT": "vacant housing units",
    **{name: f"TEN {name[-1]}" for name in TENURES},
    **{name: f"HHT {name[-1]}" for name in TYPES},
    "CPLT_1": "opposite-sex married couple",
    "CPLT_2": "same-sex married couple",
    "CPLT_3": "opposite-sex unmarried couple",
    "CPLT_4": "same-sex unmarried couple",
    **{f"P_{n[2:]}": f"people: {label}" for n, label in zip(RACES, _RACE_LABELS, strict=True)},
    "P_HISPANIC": "people: Hispanic",
    "P_WHITE_NOT_HISPANIC": "people: White alone, not Hispanic",
    **{n: f"householder: {label}" for n, label in zip(RACES, _RACE_LABELS, strict=True)},
    "HH_HISPANIC": "householder: Hispanic",
    "HH_WHITE_NOT_HISPANIC": "householder: White alone, not Hispanic",
}


class Share(NamedTuple):
    """One line of the comparison."""

    name: str
    target: float
    generated: float

    @property
    def error(self) -> float:
        """The relative error, in percent of the target."""
        return 100 * (self.generated / self.target - 1) if self.target else 0.0


def compare(folder: Path, state: str | None = None) -> list[Share]:
    """Compare every share of a Parquet folder with its target: the nation's, or those of one state."""
    generated = generated_shares(folder, state)
    return [Share(name, target, generated[name]) for name, target in _targets(state)]


def table(shares: list[Share]) -> str:
    """Format the comparison as a Markdown table."""
    lines = ["| share | target | generated | error |", "|---|---:|---:|---:|"]
    for share in shares:
        unit = "" if share.name == "PERSONS_PER_HOUSEHOLD" else " %"
        numbers = f"{share.target:.3f}{unit} | {share.generated:.3f}{unit} | {share.error:+.1f} %"
        lines.append(f"| {LABELS[share.name]} | {numbers} |")
    return "\n".join(lines)


def _targets(state: str | None) -> Iterator[tuple[str, float]]:
    profile: Profile = profiles()[state] if state else nation()
    if state is None:
        yield from NATION.items()
        rest: tuple[str, ...] = (*RACES, "HH_HISPANIC", "HH_WHITE_NOT_HISPANIC")
        yield "PERSONS_PER_HOUSEHOLD", 2.46
    else:
        yield "VACANT_PCT", profile["VACANT_PCT"]
        rest = (*SIZES, "SIZE_11_UP", *TENURES, *TYPES, *RACES, "HH_HISPANIC", "HH_WHITE_NOT_HISPANIC")
        yield "PERSONS_PER_HOUSEHOLD", profile.size_e4 / 10**4
    for name in rest:
        yield name, profile[name]


def generated_shares(folder: Path, state: str | None = None) -> dict[str, float]:
    """Compute the shares of a Parquet folder, or of one state in it, in percent."""
    if state is not None and state not in STATES:
        raise ValueError(f"expected a FIPS code, got {state!r}")
    files = f"{state or '*'}.parquet"
    every_unit = pl.scan_parquet(folder / "units" / files)
    homes = every_unit.filter(pl.col("HHT") != "0")
    people = pl.scan_parquet(folder / "persons" / files).filter(pl.col("RTYPE") == 3)
    minors = people.group_by("MAFID").agg((pl.col("QAGE") < 18).sum().alias("MINORS"))
    size, race, hispanic = pl.col("FINAL_POP"), pl.col("HHRACE"), pl.col("HHSPAN") == 2
    shares = {
        "PERSONS_PER_HOUSEHOLD": size.mean() / 100,
        **{f"SIZE_{n}": (size == n).mean() for n in range(1, 8)},
        "SIZE_8_UP": (size >= 8).mean(),
        "SIZE_11_UP": (size >= 11).mean(),
        **{name: (pl.col(name[:-2]) == name[-1]).mean() for name in (*TENURES, *TYPES)},
        **{f"CPLT_{n}": (pl.col("CPLT") == str(n)).mean() for n in range(1, 5)},
        **_race_shares("HHRACE", race),
        "HH_HISPANIC": hispanic.mean(),
        "HH_WHITE_NOT_HISPANIC": ((race == "01") & ~hispanic).mean(),
    }
    person_race, person_hispanic = pl.col("CENRACE"), pl.col("CENHISP") == 2
    of_people = {
        **_race_shares("P_RACE", person_race),
        "P_HISPANIC": person_hispanic.mean(),
        "P_WHITE_NOT_HISPANIC": ((person_race == "01") & ~person_hispanic).mean(),
    }
    housing = every_unit.filter(pl.col("RTYPE") == 2)
    rows = [
        homes.select((100 * value).alias(name) for name, value in shares.items()),
        people.select((100 * value).alias(name) for name, value in of_people.items()),
        housing.select((100 * (pl.col("HHT") == "0").mean()).alias("VACANT_PCT")),
        minors.select((100 * (pl.col("MINORS") > 6).mean()).alias("MINORS_7_UP")),
    ]
    return {k: v for row in rows for k, v in row.collect(engine="streaming").row(0, named=True).items()}


def _race_shares(prefix: str, race: pl.Expr) -> dict[str, pl.Expr]:
    names = [f"{prefix}{name[6:]}" for name in RACES]
    single = {name: (race == f"{code:02d}").mean() for code, name in enumerate(names[:6], start=1)}
    return {**single, names[6]: (race >= "07").mean()}
