"""Test populations: households with realistic codes, and realistic and hostile unit functions."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
import pyarrow as pa

FIRST_MAFID = 100_000_001


class Person(NamedTuple):
    """A base record: the columns of the person table, and an answer that only unit functions see."""

    mafid: int
    age: int
    hispanic: int
    race: str
    relship: str
    rtype: int = 3
    answer: int = 0


class Unit(NamedTuple):
    rtype: int
    hhspan: int
    hhrace: str
    ten: str
    hht: str
    hht2: str
    cplt: str


VACANT = Unit(2, 0, "00", "0", "0", "00", "0")
Members = tuple[Person, ...]


def realistic_unit(mafid: int, members: Members) -> list[Unit]:
    """The unit record that follows from the members, with codes as census editing would set them."""
    people = sorted(p for p in members if p.rtype == 3)
    if not people:
        return [VACANT]
    head = next((p for p in people if p.relship == "20"), max(people, key=lambda p: p.age))
    codes = {p.relship for p in people}
    children = any(p.relship in ("25", "26", "27") and p.age < 18 for p in people)
    relatives = bool(codes & {"25", "26", "27", "28", "29", "30", "31", "32", "33"})
    female = head.answer % 2
    cplt = next((c for r, c in (("21", "1"), ("23", "2"), ("22", "3"), ("24", "4")) if r in codes), "5")
    if cplt in "12":
        hht, hht2 = "1", "01" if children else "02"
    else:
        family = ("3" if female else "2") if relatives else None
        alone = len(people) == 1
        hht = family or {(0, 1): "4", (0, 0): "5", (1, 1): "6", (1, 0): "7"}[female, int(alone)]
        if cplt in "34":
            hht2 = "03" if children else "04"
        else:
            offset = 0 if alone else 1 if children else 2 if relatives else 3
            hht2 = f"{(5 if female else 9) + offset:02d}"
    ten = str(1 + head.answer % 4)
    return [Unit(2, head.hispanic, head.race, ten, hht, hht2, cplt)]


def hostile_unit(mafid: int, members: Members) -> list[Unit]:
    """An arbitrary function of the members, by a hash: no unit, two units, group quarters, or any codes at all."""
    digest = hashlib.sha256(repr((mafid, sorted(members))).encode()).digest()
    if digest[0] < 10:
        return []
    unit = Unit(
        4 if digest[0] < 20 else 2,
        1 + digest[1] % 2,
        f"{1 + digest[2] % 8:02d}",
        str(1 + digest[3] % 4),
        str(1 + digest[4] % 7),
        f"{1 + digest[5] % 12:02d}",
        str(1 + digest[6] % 5),
    )
    return [unit, unit] if digest[0] < 30 else [unit]


def frames(people: list[Person], homes: dict[int, tuple[str, str]], unit_of, rng=None) -> dict[str, pa.Table]:
    """The three input tables. `homes` maps each MAFID to its state and tract; `rng` shuffles the rows."""
    by_home: dict[int, list[Person]] = {mafid: [] for mafid in homes}
    for person in people:
        by_home.setdefault(person.mafid, []).append(person)
    units = [(m, u) for m in homes for u in unit_of(m, tuple(sorted(by_home[m])))]
    geo = [(m, *homes[m]) for m in homes]
    rows = [list(people), units, geo]
    if rng is not None:
        for part in rows:
            rng.shuffle(part)
    people, units, geo = rows
    return {
        "persons": pa.table(
            {
                "RTYPE": pa.array([p.rtype for p in people], pa.int32()),
                "MAFID": pa.array([p.mafid for p in people], pa.int32()),
                "QAGE": pa.array([p.age for p in people], pa.int32()),
                "CENHISP": pa.array([p.hispanic for p in people], pa.int32()),
                "CENRACE": pa.array([p.race for p in people], pa.string()),
                "RELSHIP": pa.array([p.relship for p in people], pa.string()),
            }
        ),
        "units": pa.table(
            {
                "RTYPE": pa.array([u.rtype for _, u in units], pa.int32()),
                "MAFID": pa.array([m for m, _ in units], pa.int32()),
                "FINAL_POP": pa.array([len(by_home[m]) for m, _ in units], pa.int32()),
                "NPF": pa.array([0 for _ in units], pa.int32()),
                "HHSPAN": pa.array([u.hhspan for _, u in units], pa.int32()),
                "HHRACE": pa.array([u.hhrace for _, u in units], pa.string()),
                "TEN": pa.array([u.ten for _, u in units], pa.string()),
                "HHT": pa.array([u.hht for _, u in units], pa.string()),
                "HHT2": pa.array([u.hht2 for _, u in units], pa.string()),
                "CPLT": pa.array([u.cplt for _, u in units], pa.string()),
            }
        ),
        "geo": pa.table(
            {
                "RTYPE": pa.array([2 for _ in geo], pa.int32()),
                "MAFID": pa.array([g[0] for g in geo], pa.int32()),
                "TABBLKST": pa.array([g[1] for g in geo], pa.string()),
                "TABTRACTCE": pa.array([g[2] for g in geo], pa.string()),
            }
        ),
    }


def random_person(rng: np.random.Generator, mafid: int) -> Person:
    return Person(
        mafid,
        int(rng.choice([0, 4, 10, 17, 18, 40, 80])),
        int(rng.integers(1, 3)),
        str(rng.choice(["01", "02", "05", "07", "63"])),
        str(rng.choice(["20", "21", "22", "24", "25", "26", "28", "30", "34"])),
        5 if rng.random() < 0.05 else 3,
        int(rng.integers(0, 8)),
    )
