import copy
import pickle
import random
from dataclasses import replace

import pytest

from phsafe.errors import CatalogError
from phsafe.model.conditions import Where, where
from phsafe.model.levels import HISPANIC, LEVELS, NATION, STATE, UNATTRIBUTED, Geography, IterationLevel, Level
from phsafe.model.spec import Catalog, Line, Table, Tabulation
from phsafe.model.tables import CENSUS_2020


def table(*tabulations, name="PH9"):
    return Table(name, "Title", "Universe", (Line(1, "Total"),), tabulations)


def persons(cells=None, name="PH9", **fields):
    return Tabulation(name, cells or {1: where()}, persons=where(RTYPE=3), **fields)


def test_cells_can_not_be_changed_after_their_checks():
    """Otherwise cells might overlap, or read the unit, while the sensitivity that was derived before is still used."""
    given = {1: where(QAGE=range(18)), 2: where(QAGE=range(18, 116))}
    tabulation = persons(given)
    given[3] = where(TEN="1")
    changes = {
        "__setitem__": (1, where(TEN="1")), "__delitem__": (1,), "__ior__": ({3: where()},), "clear": (), "pop": (1,),
        "popitem": (), "setdefault": (3, where()), "update": ({3: where()},),
    }  # fmt: skip
    for method, arguments in changes.items():
        with pytest.raises(TypeError, match="can't be changed"):
            getattr(tabulation.cells, method)(*arguments)
    assert tabulation.cells == {1: where(QAGE=range(18)), 2: where(QAGE=range(18, 116))}
    for copied in (pickle.loads(pickle.dumps(tabulation)), copy.deepcopy(tabulation), replace(tabulation)):
        assert copied == tabulation
        with pytest.raises(TypeError, match="can't be changed"):
            copied.cells[1] = where()


def test_overlapping_cells_are_refused():
    with pytest.raises(ValueError, match="cells 1 and 3 overlap"):
        persons({1: where(QAGE=range(18)), 2: where(QAGE=range(18, 40)), 3: where(RELSHIP="20", QAGE=17)})
    with pytest.raises(ValueError, match="overlap"):
        persons({1: where(), 2: where(QAGE=5)})


@pytest.mark.parametrize(
    "make",
    [
        lambda: persons({1: where(MAFID=100_000_001)}),
        lambda: persons({1: where(TABBLKST="44")}),
        lambda: persons({1: where(RTYPE=3)}),
        lambda: persons({1: where(AGE=3)}),
        lambda: Tabulation("PH9", {1: where(QAGE=3)}),
        lambda: Tabulation("PH9", {1: where()}, persons=where(HHT="1")),
        lambda: Tabulation("PH9", {1: where()}, units=where(QAGE=3)),
        lambda: Tabulation("PH9", {1: where()}, persons=where(MAFID=100_000_001)),
        lambda: Tabulation("PH9", {1: where()}, units=where(MAFID=100_000_001)),
    ],
)
def test_columns_of_another_record_are_refused(make):
    with pytest.raises(ValueError, match="expected columns among"):
        make()


@pytest.mark.parametrize("cell", [where(QAGE="17"), where(RELSHIP=20), where(TEN=1)])
def test_codes_of_another_type_are_refused(cell):
    with pytest.raises(ValueError, match="expected codes of"):
        persons({1: cell})


class Wider(Where):
    """A subclass of a condition that runs code."""

    def allows(self, row):
        return bool(random.getrandbits(1))


@pytest.mark.parametrize("condition", [lambda row: True, Wider(), "QAGE > 3"])
def test_anything_but_a_plain_condition_is_refused(condition):
    for fields in ({"cells": {1: condition}}, {"persons": condition}, {"units": condition}):
        with pytest.raises(TypeError, match=r"expected a condition built with where\(\), got"):
            Tabulation(**{"name": "PH9", "cells": {1: where()}, "persons": where()} | fields)


def test_a_tabulation_of_units_cannot_iterate_by_person():
    with pytest.raises(ValueError, match="iterate by person"):
        Tabulation("PH9", {1: where()}, iterate_by="person")
    with pytest.raises(ValueError, match="got 'dog'"):
        persons(iterate_by="dog")


@pytest.mark.parametrize("name", ["", "../PH9", "PH 9", "9PH", "PH9\n", "PH9/x", "PH|9"])
def test_invalid_names_are_refused(name):
    with pytest.raises(ValueError, match="name"):
        persons(name=name)


def test_a_tabulation_without_cells_is_refused():
    with pytest.raises(ValueError, match="at least one cell"):
        Tabulation("PH9", {})


def test_levels_of_a_tabulation_without_iterations():
    only_hispanic = Level(NATION, IterationLevel("H", "H", (HISPANIC,), covers=False))
    catalog = Catalog(CENSUS_2020.tables, (*CENSUS_2020.levels[:2], *CENSUS_2020.levels[3:], only_hispanic))
    assert [level.key for level in catalog.levels_of(catalog.tabulation("PH2"))] == ["usa_*", "state_*"]
    assert [level.key for level in catalog.levels_of(catalog.tabulation("PH3"))][-1] == "usa_H"


def test_duplicate_tabulations_and_levels_are_refused():
    with pytest.raises(ValueError, match="every tabulation once"):
        CENSUS_2020.extended((table(persons(name="ph2")),))
    with pytest.raises(ValueError, match="every tabulation once"):
        CENSUS_2020.extended((table(persons(name="PH8_num")),))
    with pytest.raises(ValueError, match="every level once"):
        CENSUS_2020.extended(levels=(LEVELS[0],))


def test_two_geographies_of_one_region_type_are_refused():
    other = Geography("s", "S", "STATE", ("TABBLKST",), (("44", "Rhode Island"),), covers=False)
    with pytest.raises(ValueError, match="one geography of region type STATE"):
        Catalog(CENSUS_2020.tables, (Level(STATE, UNATTRIBUTED), Level(other, UNATTRIBUTED)))


def test_extending_does_not_change_the_original_catalog():
    before = CENSUS_2020.outputs
    extended = CENSUS_2020.extended((table(persons()),))
    assert CENSUS_2020.outputs is before
    names = [o.name for o in before if o not in CENSUS_2020.truncation]
    assert [o.name for o in extended.outputs] == [*names, "PH9", *(t.name for t in CENSUS_2020.truncation)]


WHOLE = persons(name="PH9_num")


def beyond(cells=None, name="PH9_dropped", **fields):
    return Tabulation(name, cells or {1: where()}, **({"beyond": WHOLE, "iterate_by": None} | fields))


def test_kinds_follow_from_the_declaration():
    dropped, oversized, units = beyond(persons=WHOLE.persons), beyond(), Tabulation("PH9", {1: where()})
    assert [t.kind for t in (WHOLE, units, dropped, oversized)] == ["persons", "units", "dropped", "oversized"]
    assert [t.is_truncated for t in (WHOLE, units, dropped, oversized)] == [True, False, False, False]
    assert [t.threshold for t in (WHOLE, units, dropped, oversized)] == ["PH9_num", "PH9", "PH9_num", "PH9_num"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"persons": where(RTYPE=3, QAGE=5)}, "expected the person filter of PH9_num"),
        ({"persons": WHOLE.persons, "units": where(HHT="1")}, "without their unit"),
        ({"persons": WHOLE.persons, "iterate_by": "householder"}, "can't iterate by householder"),
        ({"persons": WHOLE.persons, "cells": {1: where(TEN="1")}}, "expected columns among"),
        ({"persons": WHOLE.persons, "cells": {1: where(QAGE=5, HHRACE="01")}}, "expected columns among"),
        ({"cells": {1: where(QAGE=5)}}, "expected columns among"),
        ({"iterate_by": "person"}, "can't iterate by person"),
        ({"beyond": Tabulation("PH9", {1: where()})}, "expected beyond to be a tabulation of persons"),
        ({"beyond": beyond(persons=WHOLE.persons)}, "expected beyond to be a tabulation of persons"),
    ],
)
def test_dropped_persons_read_nothing_but_the_person(fields, message):
    """Claim C14 needs that no declaration can bring in the unit, and both that a threshold exists."""
    with pytest.raises(ValueError, match=message):
        beyond(**fields)


def test_what_truncation_drops_has_a_place_of_its_own():
    dropped = beyond(persons=WHOLE.persons)
    whole = Table("PH9", "Title", "Universe", (Line(1, "Total"),), (WHOLE,), truncation=(dropped,))
    assert Catalog((whole,), LEVELS).tabulations == (WHOLE, dropped)
    for tabulations, truncation in (((WHOLE, dropped), ()), ((), (dropped,)), ((), (WHOLE,))):
        with pytest.raises(CatalogError, match="expected tabulations beyond a threshold"):
            Table("PH9", "Title", "Universe", (Line(1, "Total"),), tabulations, truncation=truncation)
