"""The declarations of tables PH1–PH8: universes, cells, iterations, table shells and derived tabulations.

No other code depends on the name of a table. Everything else (counting, noise, budgets, validation, files, labels,
estimates, documentation) reads these declarations, so adding a table means adding a declaration here and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping

from phsafe.model.conditions import Where, where
from phsafe.model.levels import LEVELS
from phsafe.model.schema import FAMILY, OWN_CHILDREN
from phsafe.model.spec import Average, Catalog, Derived, IterateBy, Line, Table, Tabulation


def _shell(*lines: tuple[int, str] | tuple[int, str, tuple[int, ...]]) -> tuple[Line, ...]:
    """Number the lines from 1. Each is (indent, label) or (indent, label, the lines it adds up)."""
    return tuple(Line(number, line[1], line[0], *line[2:]) for number, line in enumerate(lines, start=1))


HOUSEHOLD_PERSON = where(RTYPE=3)
OCCUPIED = where(RTYPE=2, HHT=[str(code) for code in range(1, 8)])
FAMILY_UNIT = where(HHT=["1", "2", "3"])
MINOR, ADULT = range(0, 18), range(18, 116)
BY_AGE = {2: where(QAGE=MINOR), 3: where(QAGE=ADULT)}
AGE_SHELL = _shell((0, "Total:", (2, 3)), (1, "Under 18 years"), (1, "18 years and over"))
MARRIED, COHABITING = ["01", "02"], ["03", "04"]
#: Household types (HHT2) with own children under 18, with their labels in PH3 and PH6.
WITH_OWN_CHILDREN = {
    "01": "In married couple family",
    "03": "In cohabiting couple family",
    "10": "In male householder, no spouse or partner present family",
    "06": "In female householder, no spouse or partner present family",
}
CHILD_AGES = {
    "Under 4 years": range(0, 4),
    "4 and 5 years": range(4, 6),
    "6 to 11 years": range(6, 12),
    "12 to 17 years": range(12, 18),
}
FAMILY_AGES = [
    (3 + 5 * i + j, where(HHT2=household_type, QAGE=ages))
    for i, household_type in enumerate(WITH_OWN_CHILDREN)
    for j, ages in enumerate(CHILD_AGES.values())
]
#: Minors by relationship, in any type of household: the lines of PH3's shell.
BY_RELATIONSHIP = {
    2: where(RELSHIP=["20", "21", "22", "23", "24", "34", "35", "36"]),
    3: where(RELSHIP=OWN_CHILDREN),
    9: where(RELSHIP="30"),
    10: where(RELSHIP=["28", "29", "31", "32", "33"]),
}

# Counts of persons up to a threshold. PH1_num, PH2 and PH7 have the same universe.
PH1_PERSONS = Tabulation("PH1_num", persons=HOUSEHOLD_PERSON, cells=BY_AGE)
PH2_PERSONS = Tabulation(
    "PH2",
    persons=HOUSEHOLD_PERSON,
    cells={
        3: where(HHT2=MARRIED, CPLT="1"),
        4: where(HHT2=MARRIED, CPLT="2"),
        6: where(HHT2=COHABITING, CPLT="3"),
        7: where(HHT2=COHABITING, CPLT="4"),
        9: where(HHT2="09"),
        10: where(HHT2=["10", "11", "12"]),
        12: where(HHT2="05"),
        13: where(HHT2=["06", "07", "08"]),
    },
    iterate_by=None,
)
PH3_PERSONS = Tabulation(
    "PH3",
    persons=where(RTYPE=3, QAGE=MINOR),
    cells={
        2: BY_RELATIONSHIP[2],
        **{
            line: BY_RELATIONSHIP[3] & where(HHT2=household_type)
            for line, household_type in enumerate(WITH_OWN_CHILDREN, start=4)
        },
        9: BY_RELATIONSHIP[9],
        10: BY_RELATIONSHIP[10],
    },
    iterate_by="person",
)
PH4_PERSONS = Tabulation("PH4", persons=where(RTYPE=3, RELSHIP=FAMILY), units=FAMILY_UNIT, cells=BY_AGE)
PH6_PERSONS = Tabulation(
    "PH6", persons=where(RTYPE=3, QAGE=MINOR, RELSHIP=OWN_CHILDREN), cells=dict(FAMILY_AGES), iterate_by=None
)
PH7_PERSONS = Tabulation(
    "PH7", persons=HOUSEHOLD_PERSON, cells={2: where(TEN="1"), 3: where(TEN="2"), 4: where(TEN=["3", "4"])}
)


def _dropped(
    name: str, beyond: Tabulation, cells: Mapping[int, Where], iterate_by: IterateBy | None = None
) -> Tabulation:
    """The persons beyond a threshold, by attributes of the person alone."""
    return Tabulation(name, cells, persons=beyond.persons, iterate_by=iterate_by, beyond=beyond)


def _oversized(
    name: str, beyond: Tabulation, cells: Mapping[int, Where], iterate_by: IterateBy | None = "householder"
) -> Tabulation:
    """The households with more persons than a threshold."""
    return Tabulation(name, cells, units=beyond.units, iterate_by=iterate_by, beyond=beyond)


PH1 = Table(
    name="PH1",
    title="Average Household Size by Age",
    universe="Households",
    shell=AGE_SHELL,
    tabulations=(
        PH1_PERSONS,
        Tabulation("PH1_denom", units=OCCUPIED, cells={1: where()}),
    ),
    average=Average("PH1_num", "PH1_denom", per={1: 1, 2: 1, 3: 1}, at_least=1),
    truncation=(
        _dropped("PH1_dropped", PH1_PERSONS, BY_AGE),
        _oversized("PH1_oversized", PH1_PERSONS, {1: where()}),
    ),
)

PH2 = Table(
    name="PH2",
    title="Household Type for the Population in Households",
    universe="Population in households",
    shell=_shell(
        (0, "Total:", (2, 5, 8, 11)),
        (1, "In married couple household:", (3, 4)),
        (2, "Opposite-sex married couple"),
        (2, "Same-sex married couple"),
        (1, "In cohabiting couple household:", (6, 7)),
        (2, "Opposite-sex cohabiting couple"),
        (2, "Same-sex cohabiting couple"),
        (1, "Male householder, no spouse or partner present:", (9, 10)),
        (2, "Living alone"),
        (2, "Living with others"),
        (1, "Female householder, no spouse or partner present:", (12, 13)),
        (2, "Living alone"),
        (2, "Living with others"),
    ),
    tabulations=(PH2_PERSONS,),
    truncation=(_oversized("PH2_oversized", PH2_PERSONS, PH2_PERSONS.cells, iterate_by=None),),
)

PH3 = Table(
    name="PH3",
    title="Household Type by Relationship for the Population Under 18 Years",
    universe="Population in households under 18 years",
    shell=_shell(
        (0, "Total:", (2, 3, 8)),
        (1, "Householder, spouse, unmarried partner, or nonrelative"),
        (1, "Own child:", (4, 5, 6, 7)),
        *((2, label) for label in WITH_OWN_CHILDREN.values()),
        (1, "Other relatives:", (9, 10)),
        (2, "Grandchild"),
        (2, "Other relatives"),
    ),
    tabulations=(PH3_PERSONS,),
    truncation=(
        _dropped("PH3_dropped", PH3_PERSONS, BY_RELATIONSHIP, iterate_by="person"),
        _oversized("PH3_oversized", PH3_PERSONS, {4 + i: where(HHT2=code) for i, code in enumerate(WITH_OWN_CHILDREN)}),
    ),
)

PH4 = Table(
    name="PH4",
    title="Population in Families by Age",
    universe="Population in families",
    shell=AGE_SHELL,
    tabulations=(PH4_PERSONS,),
    truncation=(
        _dropped("PH4_dropped", PH4_PERSONS, BY_AGE),
        _oversized("PH4_oversized", PH4_PERSONS, {1: where()}),
    ),
)

PH5 = Table(
    name="PH5",
    title="Average Family Size by Age",
    universe="Families",
    shell=AGE_SHELL,
    tabulations=(Tabulation("PH5_denom", units=FAMILY_UNIT, cells={1: where()}),),
    derived=(Derived("PH5_num", source="PH4", cells={2: (2,), 3: (3,)}),),
    average=Average("PH5_num", "PH5_denom", per={1: 1, 2: 1, 3: 1}, at_least=2),
)

PH6 = Table(
    name="PH6",
    title="Family Type and Age for Own Children Under 18 Years",
    universe="Own children under 18 years",
    shell=_shell(
        (0, "Total:", (2, 7, 12, 17)),
        *(
            line
            for i, label in enumerate(WITH_OWN_CHILDREN.values())
            for line in [
                (1, f"{label}:", tuple(range(3 + 5 * i, 7 + 5 * i))),
                *((2, age, ()) for age in CHILD_AGES),
            ]
        ),
    ),
    tabulations=(PH6_PERSONS,),
    truncation=(
        # Ages have no line of their own: the youngest are cell 1. Household types have lines 2, 7, 12 and 17.
        _dropped("PH6_dropped", PH6_PERSONS, dict(enumerate((where(QAGE=a) for a in CHILD_AGES.values()), start=1))),
        _oversized(
            "PH6_oversized",
            PH6_PERSONS,
            {2 + 5 * i: where(HHT2=code) for i, code in enumerate(WITH_OWN_CHILDREN)},
            iterate_by=None,
        ),
    ),
)

PH7 = Table(
    name="PH7",
    title="Total Population in Occupied Housing Units by Tenure",
    universe="Population in occupied housing units",
    shell=_shell(
        (0, "Total:", (2, 3, 4)),
        (1, "Owned with a mortgage or a loan"),
        (1, "Owned free and clear"),
        (1, "Renter occupied"),
    ),
    tabulations=(PH7_PERSONS,),
    truncation=(_oversized("PH7_oversized", PH7_PERSONS, PH7_PERSONS.cells),),
)

PH8 = Table(
    name="PH8",
    title="Average Household Size of Occupied Housing Units by Tenure",
    universe="Occupied housing units",
    shell=_shell((0, "Total:", (2, 3)), (1, "Owner occupied"), (1, "Renter occupied")),
    tabulations=(Tabulation("PH8_denom", units=OCCUPIED, cells={2: where(TEN=["1", "2"]), 3: where(TEN=["3", "4"])}),),
    derived=(Derived("PH8_num", source="PH7", cells={2: (2, 3), 3: (4,)}),),
    average=Average("PH8_num", "PH8_denom", per={1: 1, 2: 2, 3: 3}, at_least=1),
)

#: The catalog of the 2020 Census product (S-DHC): PH1–PH8 for the nation and each state, at three iteration levels.
CENSUS_2020 = Catalog((PH1, PH2, PH3, PH4, PH5, PH6, PH7, PH8), LEVELS)
