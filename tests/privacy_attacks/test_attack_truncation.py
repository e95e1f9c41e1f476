"""Claims C14 and C15: every small household, every record that joins it, and every unit row before and after.

Neighbours keep their MAFID, which decides who is dropped, so each household is counted at the same place in every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement, product

import household_search as search
import numpy as np
import pyarrow as pa
import pytest
from engine import count
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from population import FIRST_MAFID, Members, Person, Unit, frames, hostile_unit
from test_attack_neighbours import HOMES, PERSON, config_of

from phsafe.configs.config import Config
from phsafe.model.conditions import where
from phsafe.model.levels import UNATTRIBUTED, Geography, Level
from phsafe.model.spec import Catalog, Line, Table, Tabulation
from phsafe.privacy_math import sensitivity

STATE, KEY = "44", "tract_*"
TAUS = (1, 2, 3)
#: A person as (QAGE, RTYPE): two kinds in the universe, and one outside it.
RECORDS = {"a": (5, 3), "b": (40, 3), "z": (40, 5)}
AGES = (range(18), range(18, 116))
TENURES = ("1", "3")
_UNIT = Unit(2, 1, "01", "1", "1", "01", "1")
#: The unit rows of a household: one or another that counts, none, two, or group quarters.
UNITS = {
    "u": [_UNIT], "v": [_UNIT._replace(ten="3")], "none": [], "twice": [_UNIT, _UNIT],
    "quarters": [_UNIT._replace(rtype=4)],
}  # fmt: skip
COPIES = 3
Household = tuple[str, ...]


def households() -> list[Household]:
    """All households of at most τ + 1 records, each several times: under other MAFIDs, others are dropped."""
    return [m for n in range(max(TAUS) + 2) for m in combinations_with_replacement(RECORDS, n) for _ in range(COPIES)]


def tabulations() -> Iterator[tuple[Tabulation, Tabulation]]:
    """For every τ: all maps of persons to cells, and of units to cells, with the tabulation whose threshold applies."""
    for tau in TAUS:
        whole = Tabulation(f"P{tau}", {1: where()}, persons=where(RTYPE=3), iterate_by=None)
        for number, cells in enumerate(search.cell_maps(2)):
            chosen = set(cells) - {search.NOWHERE}
            ages = {c: where(QAGE=[a for i in (0, 1) if cells[i] == c for a in AGES[i]]) for c in chosen}
            tenures = {c: where(TEN=[TENURES[i] for i in (0, 1) if cells[i] == c]) for c in chosen}
            if chosen:
                yield whole, Tabulation(f"D{tau}_{number}", ages, whole.persons, iterate_by=None, beyond=whole)
                yield whole, Tabulation(f"O{tau}_{number}", tenures, iterate_by=None, beyond=whole)


@pytest.fixture(scope="module")
def config() -> Config:
    specs = list(tabulations())
    wholes = tuple(dict.fromkeys(whole for whole, _ in specs))
    codes = tuple((f"{STATE}{i:06d}", f"{i}") for i in range(len(households())))
    level = Level(Geography("tract", "Tract", "TRACT", ("TABBLKST", "TABTRACTCE"), codes), UNATTRIBUTED)
    tables = tuple(
        Table(f"T{i}", "t", "u", (Line(1, "x"),), (whole,), truncation=tuple(t for w, t in specs if w is whole))
        for i, whole in enumerate(wholes)
    )
    budgets = {t.name: {KEY: 0} for t in wholes} | {t.name: {KEY: 1} for _, t in specs}
    document = {"privacy_budget": budgets, "tau": {f"P{tau}": tau for tau in TAUS}, "state_filter": [STATE]}
    return Config.load(document, Catalog(tables, (level,)))


@pytest.fixture(scope="module")
def vectors(config):
    """(record that joined, or None; unit rows) → tabulation → households × cells."""

    def counted(extra: str | None, unit: str) -> dict[str, np.ndarray]:
        people, homes = [], {}
        for i, members in enumerate(households()):
            homes[FIRST_MAFID + i] = (STATE, f"{i:06d}")
            for record in (*members, *([extra] if extra else [])):
                age, rtype = RECORDS[record]
                people.append(Person(FIRST_MAFID + i, age, 1, "01", "36", rtype))
        counts = count(config, frames(people, homes, lambda mafid, members: UNITS[unit]))
        return {name: vector.reshape(len(homes), -1) for (name, _), vector in counts.items()}

    return {(extra, unit): counted(extra, unit) for extra, unit in product((None, *RECORDS), UNITS)}


def in_universe(members: Household) -> int:
    return sum(RECORDS[record][1] == 3 for record in members)


def test_one_record_drops_exactly_one_more_person(config, vectors):
    """C14: whatever the unit rows are before and after. With a cell for everybody, the change is one or nothing."""
    members = households()
    before_sizes = np.array([in_universe(m) for m in members])
    for m in config.measurements():
        if m.tabulation.kind != "dropped":
            continue
        tau = config.tau_of(m.tabulation)
        everybody = len(AGES[0]) + len(AGES[1]) == sum(len(c.codes("QAGE")) for c in m.tabulation.cells.values())
        for unit, extra, other in product(UNITS, RECORDS, UNITS):
            before, after = vectors[None, unit][m.tabulation.name], vectors[extra, other][m.tabulation.name]
            grows = (before_sizes >= tau) & (RECORDS[extra][1] == 3)
            change = after - before
            assert change.min() >= 0 and (change.sum(axis=1) <= grows).all()
            assert not everybody or (change.sum(axis=1) == grows).all()


def test_dropped_persons_do_not_depend_on_the_unit(config, vectors):
    for m in config.measurements():
        name = m.tabulation.name
        same = [(vectors[None, unit][name] == vectors[None, "u"][name]).all() for unit in UNITS]
        assert all(same) == (m.tabulation.kind == "dropped")


@pytest.mark.parametrize("kind", ["dropped", "oversized"])
def test_the_largest_distances_are_the_sensitivity(kind, config, vectors):
    """C14 and C15 for unbounded and bounded neighbours: in one region, or a change in each of two."""
    unbounded, bounded = (0, 0), (0, 0)
    for m in config.measurements():
        if m.tabulation.kind != kind:
            continue
        name, changes = m.tabulation.name, set()
        for unit, extra, other in product(UNITS, RECORDS, UNITS):
            difference = vectors[extra, other][name] - vectors[None, unit][name]
            changes |= {tuple(row) for row in difference.tolist()}
        joining = np.array(sorted(changes))
        leaving = -joining
        l1, l2 = search.largest(joining)
        moved = (joining[:, None, :] + leaving[None, :, :]).reshape(-1, joining.shape[1])
        unbounded = tuple(map(max, unbounded, (l1, l2)))
        bounded = tuple(map(max, bounded, search.largest(moved), (2 * l1, 2 * l2)))
    delta = sensitivity.of(kind, max(TAUS), "tight")
    assert unbounded == (delta.l1, delta.l2_squared)
    assert bounded == (delta.bounded_l1, delta.bounded_l2_squared)


def vanishing(mafid: int, members: Members) -> list[Unit]:
    """A unit row that appears, repeats or becomes group quarters as the household grows."""
    return list(UNITS.values())[len(members) % len(UNITS)]


#: Some records have codes outside their domain, which belong to no cell but still take a place.
ANYBODY = st.one_of(PERSON, PERSON, PERSON.map(lambda person: person._replace(age=999, race="99")))


@settings(
    max_examples=25, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(
    people=st.lists(ANYBODY, min_size=1, max_size=14),
    copies=st.integers(0, 5),
    extra=st.one_of(ANYBODY, st.none()),
    unit_of=st.sampled_from([hostile_unit, vanishing]),
    tau=st.integers(1, 3),
)
def test_neighbours_with_duplicates_and_changing_units(people, copies, extra, unit_of, tau):
    """C14 at the 2020 levels: the change is in one cell of each level, and the unit rows make no difference to it."""
    config = config_of(tau)
    base = [*people, *[people[0]] * copies]
    joined = [*base, extra or people[0]]  # A further duplicate, if nobody else joins.
    before, after = (count(config, frames(rows, HOMES, unit_of)) for rows in (base, joined))
    replaced = count(config, frames(joined[1:], HOMES, unit_of))
    without_units = count(config, frames(base, HOMES, lambda mafid, members: []))
    for m in config.measurements():
        key = (m.tabulation.name, m.level.key)
        delta = sensitivity.of(m.tabulation.kind, tau, "tight")
        added, swapped = (after[key] - before[key], replaced[key] - before[key])
        assert np.abs(added).sum() <= delta.l1 and (added**2).sum() <= delta.l2_squared
        assert np.abs(swapped).sum() <= delta.bounded_l1 and (swapped**2).sum() <= delta.bounded_l2_squared
        if m.tabulation.kind == "dropped":
            assert added.min() >= 0
            assert (without_units[key] == before[key]).all()
        elif m.tabulation.kind == "oversized":
            assert not without_units[key].any()


def test_only_public_geography_decides_where_dropped_persons_count():
    """Assumption (G) reads TABBLKST and the number of geo rows: the record type of geo, like the unit, is not read."""
    config = config_of(2)
    people = [Person(FIRST_MAFID, age, 1, "01", "25") for age in range(5)]
    tables = frames(people, {FIRST_MAFID: ("44", "000001")}, hostile_unit)
    expected = {key: v for key, v in count(config, tables).items() if key[0].endswith("_dropped")}
    assert {int(vector.sum()) for (name, level), vector in expected.items() if level == "state_*"} == {3}
    geo = tables["geo"]
    quarters = tables | {"geo": geo.set_column(0, "RTYPE", pa.array([4], pa.int32()))}
    outside = tables | {"geo": geo.set_column(2, "TABBLKST", pa.array(["72"]))}
    twice, missing = tables | {"geo": pa.concat_tables([geo, geo])}, tables | {"geo": geo.slice(0, 0)}
    for changed, same in ((quarters, True), (outside, False), (twice, False), (missing, False)):
        found = {key: v for key, v in count(config, changed).items() if key in expected}
        assert all((found[key] == (vector if same else 0)).all() for key, vector in expected.items())


def test_a_unit_column_cannot_be_read_even_by_a_forged_declaration():
    """C14: dropped persons are counted without the unit table, even if a check of the declaration is bypassed."""
    config = config_of(2)
    tabulation = config.catalog.tabulation("PH1_dropped")
    forged = replace(tabulation)
    object.__setattr__(forged, "units", where(HHT="1"))
    people = [Person(FIRST_MAFID, 30, 1, "01", "20") for _ in range(5)]
    before = tabulation.units
    homes = {FIRST_MAFID: ("44", "000001")}
    try:
        object.__setattr__(tabulation, "units", forged.units)
        counts = [count(config, frames(people, homes, lambda m, members, u=u: UNITS[u])) for u in UNITS]
    finally:
        object.__setattr__(tabulation, "units", before)
    assert {tuple(one["PH1_dropped", "state_*"].tolist()) for one in counts} == {(0, 3, 0, 0)}
