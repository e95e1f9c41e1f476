"""Neighbours through the real engine: no level of any tabulation changes by more than its sensitivity.

Claims C1 (and C1.1 to C1.4), C2, C4, C5, C7, C14, C15, and C4 for a change of a whole household.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from engine import count
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from population import FIRST_MAFID, Person, frames, hostile_unit, random_person, realistic_unit

from phsafe.configs.config import Config
from phsafe.model.levels import ITERATION_LEVELS, Geography, Level
from phsafe.model.spec import Kind
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy_math import sensitivity

ROOT = Path(__file__).resolve().parents[2]
STATES = ("44", "56")
KINDS = get_args(Kind)
#: The kinds to which one household contributes a bounded amount (P2): a rewritten one can drop any number of persons.
BOUNDED_KINDS = tuple(kind for kind in KINDS if kind != "dropped")


def config_of(tau: int, catalog=CENSUS_2020, key: str | None = None) -> Config:
    """A config with a budget for every tabulation and level (or only one geography's) and the same τ everywhere."""
    levels = [level.key for level in catalog.levels]
    document = json.loads((ROOT / "examples" / "us.json").read_text())
    document["tau"] = dict.fromkeys(document["tau"], tau)
    document["state_filter"] = list(STATES)
    for tabulation in catalog.tabulations:
        allowed = [level.key for level in catalog.levels_of(tabulation)]
        document["privacy_budget"][tabulation.name] = {
            k: 0.1 if key is None or k.startswith(key) else 0 for k in levels if k in allowed
        }
    return Config.load(document, catalog)


def squares_and_sums(config, before, after, worlds: int, kinds=KINDS):
    """For each measurement: the tabulation, and the L1 and squared L2 distances of each world."""
    for m in config.measurements():
        if m.tabulation.kind not in kinds:
            continue
        key = (m.tabulation.name, m.level.key)
        change = (after[key] - before[key]).reshape(worlds, -1)
        yield m.tabulation, np.abs(change).sum(axis=1), (change**2).sum(axis=1)


def check(config, before, after, worlds: int, *, bounded: bool, kinds=KINDS) -> dict[str, int]:
    """Assert both bounds of every mode, and return the largest squared L2 distance by tabulation."""
    largest = {}
    for tabulation, l1, l2 in squares_and_sums(config, before, after, worlds, kinds):
        for mode in sensitivity.MODES:
            delta = sensitivity.of(tabulation.kind, config.tau_of(tabulation), mode)
            assert l1.max() <= (delta.bounded_l1 if bounded else delta.l1), (tabulation.name, mode)
            assert l2.max() <= (delta.bounded_l2_squared if bounded else delta.l2_squared), (
                tabulation.name,
                mode,
            )
        largest[tabulation.name] = max(largest.get(tabulation.name, 0), int(l2.max()))
    return largest


def worlds_catalog(worlds: int):
    """The 2020 tables with an additional geography in which each world, a small test population, is a region."""
    codes = tuple((f"44{w:06d}", f"44{w:06d}") for w in range(worlds))
    tracts = Geography("tract", "Tract", "TRACT", ("TABBLKST", "TABTRACTCE"), codes)
    return CENSUS_2020.extended(levels=tuple(Level(tracts, i) for i in ITERATION_LEVELS))


@pytest.mark.parametrize(("unit_of", "tau"), [(realistic_unit, 2), (hostile_unit, 1), (hostile_unit, 3)])
def test_hundreds_of_neighbours_in_one_run(unit_of, tau):
    """Each world is a region with two households and its own neighbours; the claims hold in all of them."""
    worlds = 300
    rng = np.random.default_rng(20200401 + tau)
    config = config_of(tau, worlds_catalog(worlds), "tract")
    homes, base, added, replaced, rewritten = {}, [], [], [], []
    for w in range(worlds):
        pair = (FIRST_MAFID + 2 * w, FIRST_MAFID + 2 * w + 1)
        homes |= dict.fromkeys(pair, ("44", f"{w:06d}"))
        people = [random_person(rng, int(rng.choice(pair))) for _ in range(rng.integers(1, 3 * tau + 3))]
        extra = random_person(rng, int(rng.choice(pair)))
        base += people
        added += [*people, extra]
        replaced += [*people[1:], extra]
        rewritten += [p for p in people if p.mafid != pair[0]]
        rewritten += [random_person(rng, pair[0]) for _ in range(rng.integers(0, 2 * tau + 2))]
    counts = {
        name: count(config, frames(people, homes, unit_of))
        for name, people in (("base", base), ("added", added), ("replaced", replaced), ("other", rewritten))
    }
    unbounded = check(config, counts["base"], counts["added"], worlds, bounded=False)
    bounded = check(config, counts["base"], counts["replaced"], worlds, bounded=True)
    # A whole household may change arbitrarily, members and unit: the unbounded bound still holds.
    household = check(config, counts["base"], counts["other"], worlds, bounded=False, kinds=BOUNDED_KINDS)
    if unit_of is hostile_unit:
        assert max(unbounded.values()) == max(household.values()) == 2 * tau**2
        assert max(bounded.values()) > 2 * tau**2


PERSON = st.builds(
    Person,
    mafid=st.integers(FIRST_MAFID, FIRST_MAFID + 2),
    age=st.sampled_from([0, 5, 17, 18, 115]),
    hispanic=st.integers(1, 2),
    race=st.sampled_from(["01", "03", "63"]),
    relship=st.sampled_from(["20", "21", "25", "30", "34"]),
    rtype=st.sampled_from([3, 3, 3, 5]),
    answer=st.integers(0, 3),
)
HOMES = {FIRST_MAFID: ("44", "000001"), FIRST_MAFID + 1: ("56", "000001"), FIRST_MAFID + 2: ("72", "000001")}


@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(
    people=st.lists(PERSON, min_size=1, max_size=12),
    extra=PERSON,
    unit_of=st.sampled_from([realistic_unit, hostile_unit]),
    tau=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_neighbours_and_row_order_at_the_2020_levels(people, extra, unit_of, tau, seed):
    """Two states and a household outside the state filter; shuffling the rows must not change any count."""
    config = config_of(tau)
    before = count(config, frames(people, HOMES, unit_of))
    shuffled = count(config, frames(people, HOMES, unit_of, np.random.default_rng(seed)), threads=2)
    assert all((before[key] == shuffled[key]).all() for key in before)
    check(config, before, count(config, frames([*people, extra], HOMES, unit_of)), 1, bounded=False)
    check(config, before, count(config, frames([*people[1:], extra], HOMES, unit_of)), 1, bounded=True)


def test_persons_without_a_unit_and_invalid_codes_stay_within_the_bound():
    """A person with an unknown MAFID counts nowhere; codes outside their domain change one household at most."""
    config = config_of(2)
    people = [Person(FIRST_MAFID, age, 1, "01", "20") for age in (30, 31, 32)]
    before = count(config, frames(people, HOMES, realistic_unit))
    lost = Person(899_999_999, 30, 1, "01", "20")
    for extra, bound in ((lost, 0), (Person(FIRST_MAFID, 999, 9, "99", "00"), 8)):
        after = count(config, frames([*people, extra], HOMES, realistic_unit))
        for _, _, l2 in squares_and_sums(config, before, after, 1):
            assert l2.max() <= bound


@pytest.mark.parametrize(("size", "age", "relship"), [(511, 5, "25"), (2**10, 40, "20"), (2**16 + 9, 5, "30")])
def test_huge_households_are_truncated_too(size, age, relship):
    """C1: identical persons, about as many as a packed count can hold and more; the contribution is still at most τ."""
    config = config_of(3)
    people = [Person(FIRST_MAFID, age, 1, "01", relship) for _ in range(size)]
    counts = count(config, frames(people, HOMES, realistic_unit))
    assert {int(v.sum()) for (name, _), v in counts.items() if name == "PH1_num"} == {3}
    assert all(v.min() >= 0 and v.sum() <= 3 for (name, _), v in counts.items() if not name.endswith("_dropped"))
    assert {int(v.sum()) for (name, _), v in counts.items() if name == "PH1_dropped"} == {size - 3}


@pytest.mark.parametrize(("table", "column"), [("geo", "RTYPE"), ("geo", "TABBLKST"), ("units", "RTYPE")])
def test_a_household_without_a_type_or_a_state_counts_nowhere(table, column):
    """C1.3: with a null record type or state, a household is not a housing unit within the state filter."""
    config = config_of(2)
    tables = frames([Person(FIRST_MAFID, 30, 1, "01", "20")], {FIRST_MAFID: ("44", "000001")}, realistic_unit)
    whole = tables[table]
    index = whole.schema.get_field_index(column)
    field = whole.schema.field(index)
    tables[table] = whole.set_column(index, field, pa.nulls(whole.num_rows, field.type))
    assert not any(vector.any() for vector in count(config, tables).values())
