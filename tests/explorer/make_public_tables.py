"""Generate the explorer's two small public tables: `python tests/explorer/make_public_tables.py DATA`.

DATA is a folder with a million synthetic households (`phsafe synth DATA --households 1000000`). No real records are
used: the microdata is synthetic, and the group sizes are published figures.
"""

import csv
import json
import sys
from pathlib import Path

import polars as pl

from phsafe.model.conditions import Where
from phsafe.model.schema import STATES
from phsafe.model.spec import Tabulation
from phsafe.model.tables import CENSUS_2020

TARGET = Path("src/phsafe/explorer")
PROFILES = Path("src/phsafe/synthetic/state_profiles.csv")
MAX_TAU = 20
SHARES = dict(
    zip(
        "ABCDEFGHI",
        ("WHITE", "BLACK", "AIAN", "ASIAN", "NHPI", "SOR", "TWO_UP", "HISPANIC", "WHITE_NOT_HISPANIC"),
        strict=True,
    )
)


def truncation(data: Path) -> dict[str, object]:
    persons = pl.scan_parquet(data / "persons/*.parquet")
    units = pl.scan_parquet(data / "units/*.parquet")
    shares = {t.name: dropped(t, persons, units) for t in CENSUS_2020.tabulations if t.is_truncated}
    return {
        "source": "one million synthetic households of the 50 states and DC (phsafe synth, seed 0), "
        "drawn to match shares of the American Community Survey 2024",
        "shares": shares,
    }


def dropped(tabulation: Tabulation, persons: pl.LazyFrame, units: pl.LazyFrame) -> dict[str, float]:
    """Return the share of a universe's people, in percent, that each threshold drops."""
    people = restricted(persons, tabulation.persons)
    households = restricted(units.filter(RTYPE=2), tabulation.units)
    sizes = people.join(households.select("MAFID"), on="MAFID").group_by("MAFID").len().collect()["len"].cast(pl.Int64)
    total = sizes.sum()
    return {str(tau): round(100 * (sizes - tau).clip(0).sum() / total, 5) for tau in range(1, MAX_TAU + 1)}


def universes(data: Path) -> dict[str, dict[str, float]]:
    """Return the people and units that each table's total line counts, as shares of all people and all households."""
    persons = pl.scan_parquet(data / "persons/*.parquet")
    units = pl.scan_parquet(data / "units/*.parquet").filter(RTYPE=2)
    measured = {t.name: size(t, persons, units) for t in CENSUS_2020.tabulations}
    all_people, all_households = measured["PH1_num"], measured["PH1_denom"]
    shares = {}
    for table in CENSUS_2020.tables:
        if table.average is None:
            shares[table.name] = {
                "people": round(measured[table.tabulations[0].name] / all_people, 4),
                "units": 1.0,
            }
        else:
            outputs = {o.name: CENSUS_2020.measured(o).name for o in (*table.derived, *table.tabulations)}
            people, per = outputs[table.average.numerator], outputs[table.average.denominator]
            shares[table.name] = {
                "people": round(measured[people] / all_people, 4),
                "units": round(measured[per] / all_households, 4),
            }
    return shares


def cells(data: Path) -> dict[str, dict[str, float]]:
    """Return the people or units in each basis cell, as shares of all people or all households."""
    persons = pl.scan_parquet(data / "persons/*.parquet")
    units = pl.scan_parquet(data / "units/*.parquet").filter(RTYPE=2)
    people, households = (size(CENSUS_2020.tabulation(name), persons, units) for name in ("PH1_num", "PH1_denom"))
    found = {}
    for t in CENSUS_2020.tabulations:
        if t.beyond is None:
            joined = rows(t, persons, units).collect().lazy()
            counted = {
                c: restricted(joined, condition).select(pl.len()).collect().item() for c, condition in t.cells.items()
            }
            found[t.name] = {
                str(c): float(f"{n / (people if t.counts_persons else households):.3g}") for c, n in counted.items()
            }
    return found


def size(tabulation: Tabulation, persons: pl.LazyFrame, units: pl.LazyFrame) -> int:
    return rows(tabulation, persons, units).select(pl.len()).collect().item()


def rows(tabulation: Tabulation, persons: pl.LazyFrame, units: pl.LazyFrame) -> pl.LazyFrame:
    """Return the records of a tabulation's universe; those of persons have the columns of their unit."""
    found = restricted(units, tabulation.units)
    if tabulation.persons is None:
        return found
    return restricted(persons, tabulation.persons).join(found.drop("RTYPE"), on="MAFID")


def restricted(frame: pl.LazyFrame, condition: Where) -> pl.LazyFrame:
    for name, codes in condition.terms:
        frame = frame.filter(pl.col(name).is_in(list(codes)))
    return frame


def groups() -> list[tuple[str, str, int, int]]:
    """Return (region, iteration, households, people in them), to three significant digits."""
    rows: list[tuple[str, str, float, float]] = []
    for profile in csv.DictReader(PROFILES.read_text(encoding="utf-8").splitlines()):
        households, size = float(profile["HOUSEHOLDS_ACS"]), float(profile["PERSONS_PER_HOUSEHOLD"])
        rows.append((profile["STATE"], "*", households, households * size))
        for code, name in SHARES.items():
            column = f"HH_{name}" if code in "HI" else f"HHRACE_{name}"
            count = households * float(profile[column]) / 100
            rows.append((profile["STATE"], code, count, count * size))
    nation = {code: [sum(row[i] for row in rows if row[1] == code) for i in (2, 3)] for code in ("*", *SHARES)}
    rows = [("1", code, *sums) for code, sums in nation.items()] + rows
    rows.append(("72", "*", 1_200_000, 3_285_874))
    rows.append(("72", "H", 0.989 * 1_200_000, 0.989 * 3_285_874))
    return [(r, c, rounded(h), rounded(p)) for r, c, h, p in rows if r in STATES or r == "1"]


def rounded(value: float) -> int:
    return int(float(f"{value:.3g}"))


if __name__ == "__main__":
    source = Path(sys.argv[1])
    table = {**truncation(source), "universes": universes(source), "cells": cells(source)}
    (TARGET / "truncation.json").write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    with (TARGET / "groups.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("REGION_ID", "ITERATION_CODE", "HOUSEHOLDS", "PEOPLE"))
        writer.writerows(groups())
