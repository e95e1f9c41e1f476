from itertools import combinations

import pytest

from phsafe.model import schema
from phsafe.model.schema import GEO, LAYOUTS, PERSONS, RACES, STATES, UNITS, US_STATES


def test_column_names_and_order():
    assert PERSONS.names == ("RTYPE", "MAFID", "QAGE", "CENHISP", "CENRACE", "RELSHIP")
    assert UNITS.names == (
        "RTYPE", "MAFID", "FINAL_POP", "NPF", "HHSPAN", "HHRACE", "TEN", "HHT", "HHT2", "CPLT",
    )  # fmt: skip
    assert GEO.names == (
        "RTYPE", "MAFID", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE", "REGIONCE",
        "DIVISIONCE", "PLACEFP", "AIANNHCE",
    )  # fmt: skip
    assert [c.name for c in GEO.columns if c.required] == ["RTYPE", "MAFID", "TABBLKST"]
    assert all(c.required for layout in (PERSONS, UNITS) for c in layout.columns)


@pytest.mark.parametrize(
    ("layout", "column", "first", "last", "size"),
    [
        (PERSONS, "RTYPE", 3, 5, 2),
        (PERSONS, "MAFID", 100_000_001, 899_999_999, 799_999_999),
        (PERSONS, "QAGE", 0, 115, 116),
        (PERSONS, "CENHISP", 1, 2, 2),
        (PERSONS, "CENRACE", "01", "63", 63),
        (PERSONS, "RELSHIP", "20", "38", 19),
        (UNITS, "RTYPE", 2, 4, 2),
        (UNITS, "FINAL_POP", 0, 99_999, 100_000),
        (UNITS, "NPF", 0, 97, 97),
        (UNITS, "HHSPAN", 0, 2, 3),
        (UNITS, "HHRACE", "00", "63", 64),
        (UNITS, "TEN", "0", "4", 5),
        (UNITS, "HHT", "0", "7", 8),
        (UNITS, "HHT2", "00", "12", 13),
        (UNITS, "CPLT", "0", "5", 6),
        (GEO, "REGIONCE", "1", "9", 5),
    ],
)
def test_domains(layout, column, first, last, size):
    codes = layout[column].codes
    assert (codes[0], codes[-1], len(codes)) == (first, last, size)
    assert layout[column].is_integer == isinstance(first, int)


def test_a_family_has_at_least_two_people():
    assert 1 not in UNITS["NPF"].codes


def test_race_codes_are_all_combinations_ordered_by_size():
    assert list(RACES) == [f"{n:02d}" for n in range(1, 64)]
    assert RACES["06"] == {6}
    assert RACES["07"] == {1, 2}
    assert RACES["08"] == {1, 3}
    assert RACES["22"] == {1, 2, 3}
    assert RACES["63"] == set(range(1, 7))
    assert len(set(RACES.values())) == 63
    assert [len(races) for races in RACES.values()] == sorted(len(races) for races in RACES.values())
    assert all(RACES[f"{i + 7:02d}"] == set(pair) for i, pair in enumerate(combinations(range(1, 7), 2)))


def test_states_are_the_50_states_dc_and_puerto_rico():
    missing = {"03", "07", "14", "43", "52"}
    assert list(US_STATES) == [f"{n:02d}" for n in range(1, 57) if f"{n:02d}" not in missing]
    assert set(STATES) == {*US_STATES, "72"}
    assert STATES["44"] == "Rhode Island"
    assert STATES["11"] == "District of Columbia"


def test_relationships():
    assert set(schema.FAMILY) == {"20", "21", "23", *(str(n) for n in range(25, 34))}
    assert schema.OWN_CHILDREN == ("25", "26", "27")
    assert schema.RELSHIP_LABELS["35"] == "Foster child"


def test_layouts_are_frozen():
    with pytest.raises(AttributeError):
        PERSONS.columns[0].name = "X"
    assert [layout.name for layout in LAYOUTS] == ["persons", "units", "geo"]
