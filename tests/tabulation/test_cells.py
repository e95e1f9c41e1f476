import json
import random

import numpy as np
import polars as pl
import pytest

from phsafe.config import Config
from phsafe.levels import STATE, UNATTRIBUTED, Geography, Level, digits
from phsafe.tables import CENSUS_2020
from phsafe.tabulation.cells import Rows, regions
from phsafe.tabulation.plan import Plan

#: Where numbers need one more byte.
EDGES = [edge + step for edge in (2**7, 2**8, 2**15, 2**16, 2**31, 2**32) for step in (-1, 0, 1)]


def plan_with(us, *columns):
    """The plan of 2020, and of one level more that looks at some columns of geo."""
    if not columns:
        return Plan(Config.load(us))
    code = "44" + "0" * sum(map(digits, columns))
    place = Geography("place", "Place", "PLACE", (*STATE.columns, *columns), ((code, ""),), covers=False)
    document = json.loads(us.read_text())
    for levels in document["privacy_budget"].values():
        levels["place_*"] = 0.1
    return Plan(Config.load(document, CENSUS_2020.extended(levels=(Level(place, UNATTRIBUTED),))))


@pytest.mark.parametrize(
    "columns", [(), ("TABBLKCOU",), ("TABBLKCOU", "TABTRACTCE")], ids=["state", "county", "tract"]
)
def test_a_kind_is_taken_apart_without_regard_to_other_rows(us, columns):
    plan = plan_with(us, *columns)
    persons, units, places = plan.persons.size, plan.units.size, regions(plan)
    parts = [
        (person, unit, region)
        for person in (0, persons - 1)
        for unit in (0, *(edge for edge in EDGES if edge < units), units - 1)
        for region in (0, *(edge for edge in EDGES if edge < places), places - 1)
    ]
    kinds = pl.DataFrame({"kind": [(r * units + u) * persons + p for p, u, r in parts]}).with_columns(n=1)
    together = Rows.of(plan, plan.persons, kinds)
    assert [
        *zip(*(a.tolist() for a in (together.person, together.unit, together.region)), strict=True)
    ] == parts
    for i, (person, unit, region) in enumerate(parts):
        alone = Rows.of(plan, plan.persons, kinds[i])
        assert (alone.person[0], alone.unit[0], alone.region[0]) == (person, unit, region)


def test_rows_that_a_tabulation_can_not_tell_apart_are_counted_together(us):
    plan = plan_with(us)
    numbers = random.Random(1)
    size = regions(plan) * plan.units.size * plan.persons.size
    kinds = [numbers.randrange(size) for _ in range(20_000)]
    rows = Rows.of(
        plan, plan.persons, pl.DataFrame({"kind": kinds}).with_columns(n=1 + pl.int_range(pl.len()) % 5)
    )
    for tabulation in plan.person_tabulations:
        fewer = rows.seen_by(plan, tabulation)
        assert fewer.n.sum() == rows.n.sum()
        (before, cells), (after, fewer_cells) = rows.in_cells(tabulation), fewer.in_cells(tabulation)
        assert np.bincount(cells, before.n).tolist() == np.bincount(fewer_cells, after.n).tolist()
        for level in plan.config.levels_of(tabulation):
            counted = [
                np.bincount(part.iteration_index(plan, tabulation, level) + 1, part.n).tolist()
                for part in (before, after)
            ]
            assert counted[0] == counted[1]
