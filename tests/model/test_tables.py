"""The table declarations agree with the published table shells."""

import pytest

from phsafe.model.spec import Derived
from phsafe.model.tables import CENSUS_2020

TABLES = {table.name: table for table in CENSUS_2020.tables}

CELLS = {
    "PH1_num": [2, 3],
    "PH1_denom": [1],
    "PH2": [3, 4, 6, 7, 9, 10, 12, 13],
    "PH3": [2, 4, 5, 6, 7, 9, 10],
    "PH4": [2, 3],
    "PH5_num": [2, 3],
    "PH5_denom": [1],
    "PH6": [3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 18, 19, 20, 21],
    "PH7": [2, 3, 4],
    "PH8_num": [2, 3],
    "PH8_denom": [2, 3],
}
#: What truncation drops. Cells are lines of the shell, except for the ages of PH6, which have none.
TRUNCATION = {
    "PH1_dropped": [2, 3],
    "PH1_oversized": [1],
    "PH2_oversized": CELLS["PH2"],
    "PH3_dropped": [2, 3, 9, 10],
    "PH3_oversized": [4, 5, 6, 7],
    "PH4_dropped": [2, 3],
    "PH4_oversized": [1],
    "PH6_dropped": [1, 2, 3, 4],
    "PH6_oversized": [2, 7, 12, 17],
    "PH7_oversized": CELLS["PH7"],
}
TOTALS = {
    "PH1": {1: (2, 3)},
    "PH2": {1: (2, 5, 8, 11), 2: (3, 4), 5: (6, 7), 8: (9, 10), 11: (12, 13)},
    "PH3": {1: (2, 3, 8), 3: (4, 5, 6, 7), 8: (9, 10)},
    "PH4": {1: (2, 3)},
    "PH5": {1: (2, 3)},
    "PH6": {
        1: (2, 7, 12, 17),
        2: (3, 4, 5, 6),
        7: (8, 9, 10, 11),
        12: (13, 14, 15, 16),
        17: (18, 19, 20, 21),
    },
    "PH7": {1: (2, 3, 4)},
    "PH8": {1: (2, 3)},
}


def test_outputs_and_their_cells():
    assert {output.name: list(output.cells) for output in CENSUS_2020.outputs} == CELLS | TRUNCATION
    assert list(TABLES) == list(TOTALS)


@pytest.mark.parametrize("name", TOTALS)
def test_shell_totals(name):
    shell = TABLES[name].shell
    assert {line.number: line.of for line in shell if line.of} == TOTALS[name]
    assert [line.number for line in shell] == list(range(1, len(shell) + 1))


@pytest.mark.parametrize("name", ["PH2", "PH3", "PH4", "PH6", "PH7"])
def test_every_line_of_a_count_table_is_a_cell_or_a_total(name):
    shell = TABLES[name].shell
    assert [line.number for line in shell if not line.of] == CELLS[name]


def test_iterations():
    by = {t.name: t.iterate_by for t in CENSUS_2020.tabulations}
    total_only = ["PH1_dropped", "PH2_oversized", "PH4_dropped", "PH6_dropped", "PH6_oversized"]
    assert [name for name, who in by.items() if who is None] == ["PH2", "PH6", *total_only]
    assert [name for name, who in by.items() if who == "person"] == ["PH3", "PH3_dropped"]


def test_every_universe_is_measured_beyond_its_threshold():
    """PH2 and PH7 have the universe of PH1; the cells of the others cover everyone whom the threshold drops."""
    universes = {(t.persons, t.units) for t in CENSUS_2020.tabulations if t.is_truncated}
    for kind in ("dropped", "oversized"):
        beyond = [t.beyond for t in CENSUS_2020.truncation if t.kind == kind]
        assert {(t.persons, t.units) for t in beyond} == universes
    for tabulation in CENSUS_2020.truncation:
        assert tabulation.beyond is CENSUS_2020.tabulation(tabulation.threshold)
        assert CENSUS_2020.title(tabulation).endswith(f"({tabulation.name.split('_')[0]})")


def test_derived_cells():
    assert [d for d in CENSUS_2020.outputs if isinstance(d, Derived)] == list(CENSUS_2020.derived)
    assert {d.name: (d.source, d.cells) for d in CENSUS_2020.derived} == {
        "PH5_num": ("PH4", {2: (2,), 3: (3,)}),
        "PH8_num": ("PH7", {2: (2, 3), 3: (4,)}),
    }


def test_averages():
    assert {name: (t.average.numerator, t.average.denominator, t.average.per, t.average.at_least)
            for name, t in TABLES.items() if t.average} == {
        "PH1": ("PH1_num", "PH1_denom", {1: 1, 2: 1, 3: 1}, 1),
        "PH5": ("PH5_num", "PH5_denom", {1: 1, 2: 1, 3: 1}, 2),
        "PH8": ("PH8_num", "PH8_denom", {1: 1, 2: 2, 3: 3}, 1),
    }  # fmt: skip


def test_labels_correct_the_errors_of_the_paper():
    labels = [line.label for line in TABLES["PH6"].shell]
    assert labels[2:6] == ["Under 4 years", "4 and 5 years", "6 to 11 years", "12 to 17 years"]
    assert not any("12 and 17" in label for label in labels)
    assert not any("couple family" in line.label for line in TABLES["PH2"].shell)


def test_ph1_ph2_and_ph7_have_the_same_universe():
    """The identities between PH1, PH2 and PH7 hold only if they have the same universe."""
    same = [CENSUS_2020.tabulation(name) for name in ("PH1_num", "PH2", "PH7")]
    assert len({(t.persons, t.units) for t in same}) == 1
