"""Claims C16 to C19 against an independent search: never above the claimed distances, and equal to them.

The search (`structure_search`) knows the model only: places, signatures, kept persons. It shares no code with
`phsafe.privacy_math.level_structure`, which derives the classes from the declarations of a table.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import structure_search as search

from phsafe.configs.config import Config
from phsafe.model.conditions import where
from phsafe.model.levels import A_G, H_I, NATION, UNATTRIBUTED, Iteration, IterationLevel, Level
from phsafe.model.spec import Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy_math.level_structure import BLIND, Structure, is_blind, structure_of

ROOT = Path(__file__).resolve().parents[2]
TAUS = (1, 2, 3)
NATIONAL = tuple(Level(NATION, iterations) for iterations in (UNATTRIBUTED, A_G, H_I))


def places_of(kinds: int, signatures: int, cells: int):
    """All tables of places up to renaming the cells; ⊥ is the last signature."""
    for flat in product(range(-1, cells), repeat=kinds * signatures):
        names = [c for c in dict.fromkeys(flat) if c != search.NOWHERE]
        if names and names == sorted(names) and names[-1] == len(names) - 1:
            yield tuple((*flat[i * signatures : (i + 1) * signatures], search.NOWHERE) for i in range(kinds))


def is_rectangular(places) -> bool:
    """Whether each place is a set of persons times a set of signatures, as conditions require."""
    rows = {}
    for i, row in enumerate(places):
        for j, cell in enumerate(row):
            rows.setdefault(cell, set()).add((i, j))
    rows.pop(search.NOWHERE)
    return all(len(r) == len({i for i, _ in r}) * len({j for _, j in r}) for r in rows.values())


def class_of(places) -> Structure:
    """The class by its definition in words."""
    of_person = [set(row) - {search.NOWHERE} for row in places]
    distinct = min(2, len(set().union(*of_person)))
    if any(len(found) > 1 for found in of_person):
        return Structure("moves", distinct, True, True)
    admitted = [{row[j] != search.NOWHERE for row, found in zip(places, of_person, strict=True) if found}
                for j in range(len(places[0]))]  # fmt: skip
    mixed = any(len(one) > 1 for one in admitted)
    return Structure("mixed gate" if mixed else "uniform gate", distinct, True, True)


SMALL = [(2, 2, 3, 1), (2, 2, 3, 2), (2, 2, 3, 3), (3, 2, 2, 1), (3, 2, 2, 2), (2, 3, 2, 1), (2, 3, 2, 2)]


@pytest.mark.parametrize(("kinds", "signatures", "cells", "tau"), SMALL)
def test_every_small_table_of_places(kinds, signatures, cells, tau):
    """C16: every place of every person under every signature, every household of up to τ + 2, every unit function."""
    seen = Counter()
    for places in places_of(kinds, signatures, cells):
        structure = class_of(places)
        l2, l1 = structure.distances(tau)
        unbounded, bounded = search.unbounded(places, cells, tau), search.bounded(places, cells, tau)
        assert unbounded[0] <= l1 and unbounded[1] <= l2, (places, structure)
        assert bounded[0] <= 2 * l1 and bounded[1] <= 4 * l2, (places, structure)
        if is_rectangular(places):
            assert (unbounded, bounded) == ((l1, l2), (2 * l1, 4 * l2)), (places, structure)
            seen[structure.level_class] += 1
    assert set(seen) == {"moves", "mixed gate", "uniform gate"}


def test_copies_of_one_kind_suffice():
    """The convexity step of `Table.largest` against the search over all households, for τ = 1 to 3."""
    for places, tau in product(places_of(2, 2, 2), TAUS):
        rows = np.array([[search.NOWHERE] * 3, *places])
        table = search.Table({"level": rows})
        found = (table.largest(tau, {"level": 1.0}, "l1"), table.largest(tau, {"level": 1.0}))
        assert found == search.unbounded(places, 2, tau)


@cache
def searched(tabulation: Tabulation, levels: tuple[Level, ...]) -> search.Table:
    return search.table_of(tabulation, levels)


def check_level(tabulation: Tabulation, level: Level) -> str:
    """Assert that the largest distances found are exactly those of the class derived from the declaration."""
    structure, table = structure_of(tabulation, level), searched(tabulation, (level,))
    for tau in TAUS if tabulation.counts_persons else (1,):
        found = (table.largest(tau, {level.key: 1.0}), table.largest(tau, {level.key: 1.0}, "l1"))
        assert found == tuple(structure.distances(tau)), (tabulation.name, level.key, structure)
    return structure.level_class


@pytest.mark.parametrize("tabulation", [t for t in CENSUS_2020.tabulations if not getattr(t, "beyond", None)],
                         ids=lambda t: t.name)  # fmt: skip
def test_every_tabulation_and_level_of_2020(tabulation):
    """C16: the class of each level, derived by itself, gives exactly the largest distance."""
    found = {level.iteration_level.key: check_level(tabulation, level)
             for level in NATIONAL if tabulation.allows(level)}  # fmt: skip
    gates = {"PH1_num", "PH1_denom", "PH4", "PH5_denom"}
    assert found.pop("*") == ("uniform gate" if tabulation.name in gates else "moves")
    assert set(found.values()) <= {"moves"}


AGES = [where(QAGE=range(18)), where(QAGE=range(18, 65)), where(QAGE=range(65, 116))]
CUSTOM = {
    "one cell reads the unit": ({1: AGES[0], 2: AGES[1] & where(TEN="1"), 3: AGES[2]}, where(), "mixed gate"),
    "one cell reads the unit and has a rival": (
        {1: AGES[0], 2: AGES[1] & where(TEN="1"), 3: AGES[1] & where(TEN="2")}, where(), "moves"),
    "all cells read the same codes": (
        {1: AGES[0] & where(HHT="1"), 2: AGES[1] & where(HHT="1")}, where(), "uniform gate"),
    "cells read different columns": ({1: AGES[0] & where(HHT="1"), 2: AGES[1] & where(TEN="1")}, where(), "mixed gate"),
    "the filter makes a rival impossible": (
        {1: AGES[0] & where(HHT="1"), 2: AGES[0] & where(HHT="4")}, where(HHT=["1", "2"]), "uniform gate"),
    "one cell": ({1: AGES[0]}, where(HHT="1"), "uniform gate"),
    "all codes of a column are still a gate": (
        {1: AGES[0] & where(TEN=["0", "1", "2", "3", "4"]), 2: AGES[1]}, where(), "mixed gate"),
}  # fmt: skip


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_tables_are_classified_right(name):
    cells, units, expected = CUSTOM[name]
    tabulation = Tabulation("X", cells=cells, persons=where(RTYPE=3), units=units)
    assert check_level(tabulation, NATIONAL[0]) == expected
    for level in NATIONAL[1:]:
        assert check_level(tabulation, level) == "moves"
    blind = [cell for cell in cells if is_blind(tabulation, NATIONAL[0], cell)]
    assert blind == ([c for c in cells if set(cells[c].columns) <= {"QAGE"}] if not units.terms else [])
    assert not any(is_blind(tabulation, level, cell) for level in NATIONAL[1:] for cell in cells)


def test_a_level_with_mixed_iterations():
    """Iterations that read one column, or two: by person they are blind, by householder they move people."""
    of_race, of_both = Iteration("X", "x", frozenset({"01"})), Iteration("Y", "y", frozenset({"02"}), frozenset({1}))
    mixed = IterationLevel("M", "mixed", (of_race, of_both), covers=False)
    single = IterationLevel("S", "one group", (Iteration("X", "x", races=frozenset({"01"})),), covers=False)
    for by, classes in (("person", ("uniform gate", "uniform gate")), ("householder", ("moves", "uniform gate"))):
        tabulation = Tabulation("X", cells={1: AGES[0], 2: AGES[1]}, persons=where(RTYPE=3), iterate_by=by)
        levels = [Level(NATION, iterations) for iterations in (mixed, single)]
        assert tuple(check_level(tabulation, level) for level in levels) == classes
        assert [is_blind(tabulation, level, 1) for level in levels] == [by == "person"] * 2
        # A gate that reads the householder's race is not the gate of the universe: it can open while others move.
        assert structure_of(tabulation, levels[1]).reads_units == (by == "householder")


def random_tabulation(rng: np.random.Generator, number: int) -> Tabulation:
    """A random table of two to four cells, of persons or units, with or without a unit filter."""
    persons = rng.random() < 0.8
    columns = {"QAGE": [range(18), range(18, 65), range(65, 116)], "RELSHIP": [["20"], ["25", "26"], ["30"]]}
    units = {"TEN": [["1"], ["2", "3"]], "HHT": [["1", "2"], ["4"], ["3"]]}
    while True:
        cells = {}
        for cell in range(1, int(rng.integers(2, 5))):
            terms = {}
            for name, sets in ((columns | units) if persons else units).items():
                if rng.random() < 0.45:
                    terms[name] = sets[int(rng.integers(len(sets)))]
            cells[cell] = where(**terms)
        try:
            return Tabulation(
                f"R{number}",
                cells=cells,
                persons=where(RTYPE=3) if persons else None,
                units=where(HHT=["1", "2"]) if rng.random() < 0.3 else where(),
                iterate_by=["person", "householder"][int(rng.integers(2))] if persons else "householder",
            )
        except ValueError:
            continue


def test_random_tables_are_classified_right():
    """C16 for tables nobody designed: distances equal, whatever they read."""
    rng = np.random.default_rng(16)
    seen = Counter()
    for number in range(120):
        tabulation = random_tabulation(rng, number)
        for level in (NATIONAL[0], NATIONAL[2]):
            if searched(tabulation, (level,)).rows[level.key].max() >= 0:
                seen[check_level(tabulation, level)] += 1
    assert min(seen[c] for c in ("moves", "mixed gate", "uniform gate")) >= 10


def two_sums(tabulation: Tabulation, levels, tau: int, weights, norm: str = "l2") -> float:
    """C19: the larger of the two sums over levels, for a household that stays and for one that comes or goes."""
    index = 0 if norm == "l2" else 1
    structures = {level.key: structure_of(tabulation, level) for level in levels}
    staying = sum(w * structures[key].staying(tau)[index] for key, w in weights.items())
    entering = sum(w * structures[key].entering(tau)[index] for key, w in weights.items())
    return max(staying, entering)


def weightings(rng: np.random.Generator, keys):
    """Equal weights, one level alone or favoured, and random ones."""
    yield dict.fromkeys(keys, 1.0)
    for key in keys:
        yield {k: float(k == key) for k in keys}
        yield {k: 50.0 if k == key else 1.0 for k in keys}
    for _ in range(4):
        yield {k: float(w) for k, w in zip(keys, 10 ** rng.uniform(-2, 2, len(keys)), strict=True)}


def test_no_household_exceeds_the_joint_loss_of_a_tabulation():
    """C19: for the 2020 tables and random ones, any weights; and no weighting of one level alone overstates it."""
    rng = np.random.default_rng(19)
    tabulations = [CENSUS_2020.tabulation(n) for n in ("PH1_num", "PH1_denom", "PH4", "PH7", "PH8_denom")]
    tabulations += [random_tabulation(rng, number) for number in range(15)]
    below = 0
    for tabulation in tabulations:
        levels = tuple(level for level in NATIONAL if tabulation.allows(level))
        table = searched(tabulation, levels)
        norms = ("l1", "l2") if table.kinds <= 4 else ("l2",)
        for weights, norm in product(weightings(rng, [level.key for level in levels]), norms):
            tau = int(rng.integers(1, 4)) if tabulation.counts_persons else 1
            bound = two_sums(tabulation, levels, tau, weights, norm)
            found = table.largest(tau, weights, norm)
            assert found <= bound * (1 + 1e-12), (tabulation.name, weights, tau)
            separate = sum(w * structure_of(tabulation, level).distances(tau)[norm == "l1"]
                           for level, w in zip(levels, weights.values(), strict=True))  # fmt: skip
            assert bound <= separate * (1 + 1e-12)
            below += bound < separate * 0.99
    assert below > 20


def published_weights(config: Config, tabulation: Tabulation) -> dict[str, float]:
    """1/(2σ²) of the 2020 noise by iteration level; nation and state have the same places under (G)."""
    tau = config.tau.get(tabulation.name)
    k = 2 if tau is None else 2 * (tau + 1) ** 2
    weights: dict[str, float] = {}
    for level in config.levels_of(tabulation):
        key = f"usa_{level.iteration_level.key}"
        weights[key] = weights.get(key, 0.0) + float(config.budgets[tabulation.name][level.key]) / (2 * k)
    return weights


def test_the_2020_noise_accounted_jointly():
    """0.488408 for any cell map, 0.480482 by classes, 0.472713 jointly; the search reaches 0.472556."""
    config = Config.load(ROOT / "examples" / "us.json")
    totals = Counter()
    for tabulation in {m.tabulation: None for m in config.measurements()}:
        levels = tuple(level for level in NATIONAL if tabulation.allows(level))
        weights = published_weights(config, tabulation)
        tau = config.tau.get(tabulation.name, 1)
        structures = [structure_of(tabulation, level) for level in levels]
        totals["any"] += sum(2 * tau**2 * w for w in weights.values())
        totals["classes"] += sum(w * s.distances(tau)[0] for w, s in zip(weights.values(), structures, strict=True))
        totals["joint"] += two_sums(tabulation, levels, tau, weights)
        totals["found"] += searched(tabulation, levels).largest(tau, weights)
    rounded = {name: round(total, 6) for name, total in totals.items()}
    assert rounded == {"any": 0.488408, "classes": 0.480482, "joint": 0.472713, "found": 0.472556}


def test_joint_bounded_loss_is_four_times_the_unbounded():
    """C19: two households can change alike at every level together, so the squares of two changes add up to four."""
    tabulation = CENSUS_2020.tabulation("PH4")
    levels = tuple(level for level in NATIONAL if tabulation.allows(level))
    rng = np.random.default_rng(4)
    table = searched(tabulation, levels)
    for weights in weightings(rng, [level.key for level in levels]):
        assert table.largest_bounded(2, weights) <= 4 * two_sums(tabulation, levels, 2, weights) * (1 + 1e-12)
    moving = {"usa_*": 0.0, "usa_A-G": 1.0, "usa_H,I": 1.0}
    assert table.largest_bounded(2, moving) == 4 * two_sums(tabulation, levels, 2, moving)


def test_tabulations_with_different_gates_must_be_added():
    """A household can leave PH4's universe (no longer a family) while PH7 moves it: the larger of two sums over both
    tabulations would be too small."""
    tau = 2
    ph4, ph7 = (structure_of(CENSUS_2020.tabulation(name), NATIONAL[0]) for name in ("PH4", "PH7"))
    leaves, moves = ph4.entering(tau).l2_squared, ph7.staying(tau).l2_squared
    together = max(ph4.staying(tau).l2_squared + moves, leaves + ph7.entering(tau).l2_squared)
    assert leaves + moves > together


def test_blind_counts_move_by_one():
    """C17: everybody in the filter is counted, whatever the unit; one record comes or goes, or is replaced."""
    kinds, cells = 3, 3
    place = (0, 1, 2)
    for size in range(4):
        for people in product((search.OUTSIDE, *range(kinds)), repeat=size):
            base = np.bincount([place[p] for p in people if p >= 0], minlength=cells)
            for one in (search.OUTSIDE, *range(kinds)):
                joined = np.bincount([place[p] for p in (*people, one) if p >= 0], minlength=cells)
                change = np.abs(joined - base)
                assert change.sum() == (change**2).sum() == (one != search.OUTSIDE) <= BLIND.distances(None).l1
    swap = np.eye(3, dtype=int)[0] - np.eye(3, dtype=int)[1]
    assert (np.abs(swap).sum(), (swap**2).sum()) == (2, 2)


def test_without_public_geography_a_gate_moves():
    """(G) is needed: if the region followed the unit, two regions would be two places of one person."""
    region_follows_unit = ((0, 1, search.NOWHERE),)
    for tau in TAUS:
        assert search.unbounded(region_follows_unit, 2, tau)[1] == 2 * tau**2
        assert search.unbounded(((0, 0, search.NOWHERE),), 1, tau)[1] == tau**2


def test_without_a_fixed_order_a_gate_moves():
    """C1.1 is needed: a truncation that may pick any τ persons swaps all of them when one record comes."""
    one_place_each = ((0, search.NOWHERE), (1, search.NOWHERE))
    for tau in TAUS:
        everybody = (0,) * tau + (1,) * tau
        arbitrary = {((0,) * tau, (1,) * tau)}
        assert len(everybody) == 2 * tau
        assert search.largest(search.changes(one_place_each, 2, arbitrary))[1] == 2 * tau**2
        assert search.unbounded(one_place_each, 2, tau)[1] == max(tau**2, 2)


def test_without_the_same_existence_a_joined_count_is_a_gate():
    """(E) is needed for √2 on the joined count: if a unit can vanish with a member, all τ of them vanish.

    Eleven adults with a unit become ten in group quarters. (E) can't be seen in data, so joined counts are gates, and
    blind counts don't read the unit table.
    """
    joined, always = ((0, search.NOWHERE), (1, search.NOWHERE)), ((0, 0), (1, 1))
    for tau in TAUS:
        assert search.unbounded(joined, 2, tau)[1] == max(tau**2, 2)
        assert search.unbounded(always, 2, tau)[1] == 2


def test_a_whole_household_costs_more_at_gates_and_blind_levels():
    """P2 is weaker there: rewriting τ children into τ adults moves 2τ², and n persons n² if counted blind."""
    tau = 3
    rewritten = {((0,) * tau, (1,) * tau)}
    one_place_each = ((0, search.NOWHERE), (1, search.NOWHERE))
    changes = search.changes(one_place_each, 2, rewritten)
    gate = Structure("uniform gate", 2, reads_units=False, counts_persons=True)
    assert search.largest(changes)[1] == 2 * tau**2 > gate.distances(tau).l2_squared
    assert 5**2 > BLIND.distances(tau).l2_squared
