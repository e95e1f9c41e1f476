"""PH1–PH8 counted in plain Polars, directly from the rules and without the package: slow, simple, independent.

`count(folder, states, tau)` returns {(tabulation, region type, region, iteration, cell): n} for every non-zero count.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

Key = tuple[str, str, str, str, int]
COLUMNS = ("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
FAMILY = ["20", "21", "23", "25", "26", "27", "28", "29", "30", "31", "32", "33"]
BINARY = {"MAFID", "QAGE", "CENHISP"}
MINOR = pl.col("QAGE") < 18
RELATION, HHT2, COUPLE, TENURE = (pl.col(name) for name in ("RELSHIP", "HHT2", "CPLT", "TEN"))
AGE = pl.when(MINOR).then(2).otherwise(3)
#: Tabulation → condition on persons, condition on units, cell, whose race (None: not by race).
PERSONS = {
    "PH1_num": (pl.lit(True), pl.lit(True), AGE, "HH"),
    "PH2": (
        pl.lit(True),
        pl.lit(True),
        pl.when(HHT2.is_in(["01", "02"])).then(COUPLE.replace_strict({"1": 3, "2": 4}, default=None))
        .when(HHT2.is_in(["03", "04"])).then(COUPLE.replace_strict({"3": 6, "4": 7}, default=None))
        .otherwise(HHT2.replace_strict({"09": 9, "10": 10, "11": 10, "12": 10, "05": 12, "06": 13, "07": 13, "08": 13},
                                       default=None)),
        None,
    ),
    "PH3": (
        MINOR,
        pl.lit(True),
        pl.when(RELATION.is_in(["20", "21", "22", "23", "24", "34", "35", "36"])).then(2)
        .when(RELATION.is_in(["25", "26", "27"]))
        .then(HHT2.replace_strict({"01": 4, "03": 5, "10": 6, "06": 7}, default=None))
        .when(RELATION == "30").then(9)
        .when(RELATION.is_in(["28", "29", "31", "32", "33"])).then(10),
        "CEN",
    ),
    "PH4": (RELATION.is_in(FAMILY), pl.col("HHT").is_in(["1", "2", "3"]), AGE, "HH"),
    "PH6": (
        MINOR & RELATION.is_in(["25", "26", "27"]),
        pl.lit(True),
        HHT2.replace_strict({"01": 3, "03": 8, "10": 13, "06": 18}, default=None)
        + pl.when(pl.col("QAGE") < 4).then(0).when(pl.col("QAGE") < 6).then(1)
        .when(pl.col("QAGE") < 12).then(2).otherwise(3),
        None,
    ),
    "PH7": (pl.lit(True), pl.lit(True), TENURE.replace_strict({"1": 2, "2": 3, "3": 4, "4": 4}, default=None), "HH"),
}  # fmt: skip
OCCUPIED = pl.col("HHT") != "0"
UNITS = {
    "PH1_denom": (OCCUPIED, pl.lit(1)),
    "PH5_denom": (pl.col("HHT").is_in(["1", "2", "3"]), pl.lit(1)),
    "PH8_denom": (OCCUPIED, TENURE.replace_strict({"1": 2, "2": 2, "3": 3, "4": 3}, default=None)),
}


def count(folder: Path, states: Sequence[str], tau: Mapping[str, int] | None) -> Counter[Key]:
    """Count a folder with a Parquet file for each state in persons, units and geo; without τ, nothing is truncated."""
    total: Counter[Key] = Counter()
    for state in states:
        persons, units, geo = (
            pl.read_parquet(folder / name / f"{state}.parquet") for name in ("persons", "units", "geo")
        )
        housing = geo.filter(RTYPE=2, TABBLKST=state).filter(pl.col("MAFID").is_unique()).select("MAFID")
        homes = units.filter(pl.col("MAFID").is_unique()).filter(RTYPE=2).join(housing, on="MAFID")
        people = persons.filter(RTYPE=3)
        for name, (who, which, cell, race) in PERSONS.items():
            kept = people.filter(who)
            kept = kept if tau is None else truncated(kept, tau[name])
            rows = kept.join(homes.filter(which).drop("RTYPE"), on="MAFID")
            total += _by_group(name, state, rows.with_columns(cell=cell), race)
        for name, (which, cell) in UNITS.items():
            total += _by_group(name, state, homes.filter(which).with_columns(cell=cell), "HH")
    return total


def truncated(people: pl.DataFrame, tau: int) -> pl.DataFrame:
    """The first τ persons of each household in the 2020 truncation order; only larger households are sorted."""
    size = pl.len().over("MAFID")
    large = people.filter(size > tau)
    if large.is_empty():
        return people
    numbered = large.with_columns(duplicate=pl.int_range(1, pl.len() + 1).over(COLUMNS))
    keys = [_key(row) for row in numbered.iter_rows(named=True)]
    ranked = numbered.with_columns(key=pl.Series(keys)).sort("MAFID", "key")
    first = ranked.filter(pl.int_range(pl.len()).over("MAFID") < tau).select(people.columns)
    return pl.concat([people.filter(size <= tau), first])


def _key(row: Mapping[str, object]) -> str:
    parts = [format(row[name], "b") if name in BINARY else str(row[name]) for name in COLUMNS]
    return _hash(_hash(",".join(_hash(part) for part in [*parts, format(row["duplicate"], "b")])))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _by_group(name: str, state: str, rows: pl.DataFrame, race: str | None) -> Counter[Key]:
    """Count the rows with a cell, for the nation and the state, by every iteration that they belong to."""
    counts: Counter[Key] = Counter()
    columns = [] if race is None else [f"{race}RACE", f"{race}SPAN" if race == "HH" else "CENHISP"]
    for row in rows.filter(pl.col("cell").is_not_null()).group_by("cell", *columns).len().iter_rows():
        cell, *of_race, n = row
        for code in _iterations(*of_race):
            counts[name, "USA", "1", code, cell] += n
            counts[name, "STATE", state, code, cell] += n
    return counts


def _iterations(race: str | None = None, ethnicity: int | None = None) -> list[str]:
    found = ["*"]
    if race is not None and race != "00":
        found.append("ABCDEF"[int(race) - 1] if int(race) <= 6 else "G")
    found += ["H"] if ethnicity == 2 else []
    found += ["I"] if race == "01" and ethnicity == 1 else []
    return found
