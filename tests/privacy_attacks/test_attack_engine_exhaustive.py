"""The contributions of households as the real engine counts them, for all small households and all valid cell maps.

Every household is in a region of its own, so one run shows the contribution of each. Claims C1, C1.1, C1.3, C3, C4.
"""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import household_search as search
import numpy as np
import pyarrow as pa
import pytest
from engine import count

from phsafe.configs.config import Config
from phsafe.counting import kernel
from phsafe.model.conditions import where
from phsafe.model.levels import UNATTRIBUTED, Geography, Level
from phsafe.model.spec import Catalog, Line, Table, Tabulation

STATE, KEY = "44", "tract_*"
AGES = {0: range(18), 1: range(18, 116)}
TENURES = {0: "1", 1: "3"}
#: A person as (RTYPE, QAGE): like a, like b, or outside the filter.
RECORDS = {"a": (3, 5), "b": (3, 40), "z": (5, 40)}
#: The unit rows of a household: one that counts, none, two with its MAFID, or group quarters.
UNITS = {"u": [(2, "1")], "v": [(2, "3")], "none": [], "twice": [(2, "1"), (2, "3")], "quarters": [(4, "1")]}
TAUS = (1, 2, 3)


def rectangles(cells: search.CellMap) -> dict[int, dict[str, list[int]]] | None:
    """The conditions of a cell map if each cell is a product of persons and units, as conditions require; else None."""
    found = {}
    for cell in set(cells) - {search.NOWHERE}:
        rows = [divmod(i, 2) for i, c in enumerate(cells) if c == cell]
        persons, units = ({row[k] for row in rows} for k in (0, 1))
        if len(rows) != len(persons) * len(units):
            return None
        found[cell] = {"persons": sorted(persons), "units": sorted(units)}
    return found


def tabulations() -> dict[str, tuple[int | None, search.CellMap, Tabulation]]:
    found = {}
    for number, cells in enumerate(search.cell_maps()):
        sides = rectangles(cells)
        if not sides:
            continue
        conditions = {
            cell: where(
                QAGE=[age for p in side["persons"] for age in AGES[p]],
                TEN=[TENURES[u] for u in side["units"]],
            )
            for cell, side in sides.items()
        }
        for tau in TAUS:
            name = f"P{number}_{tau}"
            tabulation = Tabulation(name, cells=conditions, persons=where(RTYPE=3), iterate_by=None)
            found[name] = (tau, cells, tabulation)
    for number, cells in enumerate(search.cell_maps(2)):
        conditions = {cell: where(TEN=[TENURES[u] for u in (0, 1) if cells[u] == cell]) for cell in set(cells) - {-1}}
        if conditions:
            found[f"U{number}"] = (None, cells, Tabulation(f"U{number}", cells=conditions, iterate_by=None))
    return found


@pytest.fixture(scope="module")
def contributions():
    """For each tabulation: {(members, unit): the contributions of the households with these members and unit}."""
    members = [m for n in range(5) for m in combinations_with_replacement(RECORDS, n)]
    households = [(m, unit) for m, unit, _ in product(members, UNITS, range(3))]
    persons, units = [], []
    for i, (people, unit) in enumerate(households):
        persons += [(100_000_001 + i, *RECORDS[r]) for r in people]
        units += [(100_000_001 + i, *row) for row in UNITS[unit]]
    mafids = [100_000_001 + i for i in range(len(households))]
    codes = [f"{STATE}{i:06d}" for i in range(len(households))]
    frames = {
        "persons": pa.table(
            dict(zip(("MAFID", "RTYPE", "QAGE"), zip(*persons, strict=True), strict=True))
            | {
                "CENHISP": [1] * len(persons),
                "CENRACE": ["01"] * len(persons),
                "RELSHIP": ["36"] * len(persons),
            }
        ),
        "units": pa.table(
            dict(zip(("MAFID", "RTYPE", "TEN"), zip(*units, strict=True), strict=True))
            | {"HHSPAN": [1] * len(units), "HHRACE": ["01"] * len(units), "NPF": [0] * len(units)}
            | {"FINAL_POP": [1] * len(units), "HHT": ["1"] * len(units), "HHT2": ["01"] * len(units)}
            | {"CPLT": ["1"] * len(units)}
        ),
        "geo": pa.table(
            {"RTYPE": [2] * len(mafids), "MAFID": mafids, "TABBLKST": [STATE] * len(mafids)}
            | {"TABTRACTCE": [code[2:] for code in codes]}
        ),
    }
    specs = tabulations()
    level = Level(
        Geography("tract", "Tract", "TRACT", ("TABBLKST", "TABTRACTCE"), tuple((c, c) for c in codes)),
        UNATTRIBUTED,
    )
    tables = [Table(n, "t", "u", tuple(Line(c, "x") for c in t.cells), (t,)) for n, (_, _, t) in specs.items()]
    config = Config.load(
        {
            "privacy_budget": {name: {KEY: 1} for name in specs},
            "tau": {name: tau for name, (tau, _, _) in specs.items() if tau is not None},
            "state_filter": [STATE],
        },
        Catalog(tuple(tables), (level,)),
    )
    counts = count(config, frames)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "BATCH_ROWS", 1)
        one_by_one = count(config, frames)
    assert all((one_by_one[key] == vector).all() for key, vector in counts.items())
    found = {}
    for name, (_, _, tabulation) in specs.items():
        vectors = counts[name, KEY].reshape(len(households), -1)
        full = np.zeros((len(households), search.CELLS), dtype=np.int64)
        full[:, list(tabulation.cells)] = vectors
        by_household = {}
        for household, vector in zip(households, full.tolist(), strict=True):
            by_household.setdefault(household, set()).add(tuple(vector))
        found[name] = by_household
    return found


def test_every_contribution_is_one_the_model_allows(contributions):
    """The engine keeps at most τ of the household's own persons, joined with its single unit."""
    for name, (tau, cells, _) in tabulations().items():
        allowed = search.person_contributions if tau is not None else search.unit_contributions
        for (members, unit), vectors in contributions[name].items():
            if unit in ("none", "twice", "quarters"):
                assert vectors == {(0,) * search.CELLS}
                continue
            index = {"u": 0, "v": 1}[unit]
            only = tuple(c if i % 2 == index else search.NOWHERE for i, c in enumerate(cells))
            assert vectors <= allowed(members, tau or 1, only)


def test_the_largest_distance_between_contributions_is_the_bound(contributions):
    """For any two contributions, so the bound holds however much of one household changes."""
    for tau in (*TAUS, None):
        k = tau or 1
        l1 = l2 = 0
        for name, (of, _, _) in tabulations().items():
            if of == tau:
                vectors = np.array(sorted(set().union(*contributions[name].values())))
                worst = search.largest((vectors[:, None, :] - vectors[None, :, :]).reshape(-1, search.CELLS))
                l1, l2 = max(l1, worst[0]), max(l2, worst[1])
        assert (l1, l2) == (2 * k, 2 * k**2)


def test_worst_case_neighbours_reach_the_bounds_through_the_engine():
    """One person leaves, or moves from one household to another; at both levels, as in the audit."""
    from phsafe.privacy_audit.worst_cases import TAU, neighbours

    for units, bounded in product((False, True), (False, True)):
        pair = neighbours(2, "zcdp", "tight", ("1", "1"), units=units, bounded=bounded)
        first, second = pair.values
        change = (second - first)[:, :4]
        k = 1 if units else TAU
        factor = 2 if bounded else 1
        assert search.largest(change) == (2 * factor * k, 2 * factor**2 * k**2)
