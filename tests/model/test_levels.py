import pytest

from phsafe.model.levels import (
    A_G,
    H_I,
    HISPANIC,
    LEVELS,
    NATION,
    STATE,
    TOTAL,
    UNATTRIBUTED,
    WHITE_NOT_HISPANIC,
    Geography,
    Iteration,
    IterationLevel,
    Level,
    in_puerto_rico,
)
from phsafe.model.schema import RACES, US_STATES


def test_keys_and_labels_of_the_six_levels():
    assert [level.key for level in LEVELS] == [
        "usa_*", "usa_A-G", "usa_H,I", "state_*", "state_A-G", "state_H,I",
    ]  # fmt: skip
    assert [level.label for level in LEVELS][:2] == ["Nation × everyone", "Nation × race (A–G)"]


def test_puerto_rico_has_three_levels():
    assert [level.key for level in LEVELS if level.geography.puerto_rico] == [
        "state_*", "state_A-G", "state_H,I",
    ]  # fmt: skip
    assert in_puerto_rico(["72"])
    assert not in_puerto_rico(US_STATES)


def iteration_codes(race, ethnicity, by="person"):
    row = {"CENRACE": race, "CENHISP": ethnicity, "HHRACE": race, "HHSPAN": ethnicity}
    iterations = (i for level in (UNATTRIBUTED, A_G, H_I) for i in level.iterations)
    return "".join(i.code for i in iterations if i.condition(by).allows(row))


@pytest.mark.parametrize("by", ["person", "householder"])
@pytest.mark.parametrize(
    ("race", "ethnicity", "codes"),
    [("01", 1, "*AI"), ("01", 2, "*AH"), ("02", 1, "*B"), ("06", 2, "*FH"), ("07", 1, "*G"), ("63", 2, "*GH"),
     ("00", 0, "*"), ("64", 3, "*"), (None, None, "*"), ("01", None, "*A")],
)  # fmt: skip
def test_iterations(race, ethnicity, codes, by):
    assert iteration_codes(race, ethnicity, by) == codes


def test_every_race_belongs_to_exactly_one_of_a_to_g():
    for race in RACES:
        assert len(iteration_codes(race, 3)) == 2
    assert A_G.covers
    assert UNATTRIBUTED.covers
    assert not H_I.covers


def test_population_groups_are_in_canonical_order():
    level = Level(STATE, H_I)
    groups = [(region, iteration.code) for region, iteration in level.groups(["56", "44"])]
    assert groups == [("44", "H"), ("44", "I"), ("56", "H"), ("56", "I")]
    assert [region for region, _ in Level(NATION, UNATTRIBUTED).groups(["44"])] == ["1"]


COUNTIES = (("44001", "Bristol"), ("44003", "Kent"), ("56001", "Albany"))


def geography(columns=("TABBLKST", "TABBLKCOU"), regions=COUNTIES):
    return Geography("county", "County", "COUNTY", columns, regions, covers=False)


def test_regions_within_states():
    assert geography().width == 5
    assert [code for code, _ in geography().within(["44"])] == ["44001", "44003"]


@pytest.mark.parametrize(
    ("columns", "regions"),
    [
        (("TABBLKCOU",), (("001", "Bristol"),)),
        (("TABBLKST", "MAFID"), ()),
        (("TABBLKST", "QAGE"), ()),
        (("TABBLKST", "TABBLKST"), ()),
        (("TABBLKST", "TABBLKCOU"), (("4401", "too short"),)),
        (("TABBLKST", "TABBLKCOU"), (("44001", "a"), ("44001", "b"))),
        ((), (("1", "a"), ("2", "b"))),
        ((), ()),
    ],
)
def test_inconsistent_geographies_are_refused(columns, regions):
    with pytest.raises(ValueError):
        geography(columns, regions)


@pytest.mark.parametrize(
    "iterations",
    [
        (HISPANIC, TOTAL),
        (HISPANIC, HISPANIC),
        (HISPANIC, Iteration("J", "White", races=frozenset({"01"}))),
        (WHITE_NOT_HISPANIC, Iteration("I", "Hispanic", ethnicities=frozenset({2}))),
    ],
)
def test_overlapping_iterations_are_refused(iterations):
    with pytest.raises(ValueError):
        IterationLevel("x", "x", iterations, covers=False)
