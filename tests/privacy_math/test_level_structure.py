"""The classes of levels, their distances, and the blocks in which they are measured (claims C16 to C19)."""

from decimal import Decimal
from fractions import Fraction

import pytest

from phsafe.model.conditions import where
from phsafe.model.levels import A_G, NATION, UNATTRIBUTED, Level
from phsafe.model.spec import Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.privacy_math.level_blocks import blocks_of, noise_factor
from phsafe.privacy_math.level_structure import BLIND, Distances, Structure, is_blind, structure_of
from phsafe.privacy_math.sensitivity import of

TOTAL, BY_RACE = Level(NATION, UNATTRIBUTED), Level(NATION, A_G)
MINOR, ADULT = where(QAGE=range(18)), where(QAGE=range(18, 116))
PERSONS = where(RTYPE=3)


def table(cells, **changes) -> Tabulation:
    return Tabulation("X", cells=cells, **{"persons": PERSONS} | changes)


@pytest.mark.parametrize(
    ("tabulation", "expected"),
    [
        (table({1: MINOR, 2: ADULT}), Structure("uniform gate", 2, False, True)),
        (table({1: MINOR}), Structure("uniform gate", 1, False, True)),
        (table({1: MINOR, 2: ADULT}, units=where(HHT="1")), Structure("uniform gate", 2, False, True)),
        (table({1: MINOR & where(TEN="1"), 2: ADULT & where(TEN="1")}), Structure("uniform gate", 2, True, True)),
        (table({1: MINOR & where(TEN="1"), 2: ADULT}), Structure("mixed gate", 2, True, True)),
        (table({1: where(TEN="1"), 2: where(TEN="2")}), Structure("moves", 2, True, True)),
        # The filter leaves only one of the two places.
        (table({1: where(HHT="1"), 2: where(HHT="4")}, units=where(HHT="1")), Structure("uniform gate", 1, True, True)),
        (table({1: where()}, persons=None), Structure("uniform gate", 1, False, False)),
        (table({1: where(TEN="1"), 2: where(TEN="2")}, persons=None), Structure("moves", 2, True, False)),
    ],
)
def test_classes_of_the_total_level(tabulation, expected):
    assert structure_of(tabulation, TOTAL) == expected
    assert structure_of(tabulation, BY_RACE).level_class == "moves", "the householder's race can move everyone"


def test_distances():
    gate, single = Structure("uniform gate", 2, False, True), Structure("uniform gate", 1, False, True)
    mixed, moves = Structure("mixed gate", 2, True, True), Structure("moves", 2, True, True)
    assert [s.distances(3) for s in (moves, mixed, gate, BLIND)] == [(18, 6), (10, 4), (9, 3), (1, 1)]
    assert [s.distances(1) for s in (moves, mixed, gate, single)] == [(2, 2), (2, 2), (2, 2), (1, 1)]
    assert [s.staying(3) for s in (moves, mixed, gate, single, BLIND)] == [(18, 6), (10, 4), (2, 2), (1, 1), (1, 1)]
    assert [s.entering(3) for s in (moves, mixed, gate, BLIND)] == [(9, 3), (9, 3), (9, 3), (1, 1)]
    units = Structure("uniform gate", 1, False, False)
    assert (units.distances(None), units.staying(None), units.entering(None)) == ((1, 1), (0, 0), (1, 1))
    assert Structure("moves", 2, True, False).distances(None) == Distances(2, 2)
    for tau in (0, None):
        with pytest.raises(ValueError, match="at least 1"):
            gate.distances(tau)


def test_blind_cells():
    mixed = table({1: MINOR, 2: ADULT & where(TEN="1")})
    assert [is_blind(mixed, TOTAL, cell) for cell in (1, 2)] == [True, False]
    assert not is_blind(mixed, BY_RACE, 1)
    assert is_blind(table({1: MINOR}, iterate_by="person"), BY_RACE, 1)
    assert not is_blind(table({1: MINOR}, units=where(HHT="1")), TOTAL, 1)
    assert not is_blind(table({1: where()}, persons=None), TOTAL, 1)
    for persons in (where(), where(QAGE=range(18)), where(RTYPE=[3, 5]), where(RTYPE=5)):
        assert not is_blind(table({1: MINOR}, persons=persons), TOTAL, 1), "it would include group quarters"


def test_blocks():
    mixed = table({1: MINOR, 2: ADULT & where(TEN="1"), 3: ADULT & where(TEN="2")})
    for mode in ("published", "tight", "tight-bounded"):
        (block,) = blocks_of(mixed, TOTAL, 4, mode)
        assert (block.cells, block.share, block.is_blind) == ((1, 2, 3), 1, False)
        assert block.delta == of("persons", 4, mode), "cells 2 and 3 make it move"
    blind, rest = blocks_of(mixed, TOTAL, 4, "structured")
    assert (blind.cells, blind.is_blind, rest.cells, rest.is_blind) == ((1,), True, (2, 3), False)
    # √(1·1) against √(2·32).
    assert (blind.share, rest.share) == (Fraction("0.1111"), Fraction("0.8889"))
    assert noise_factor((blind, rest), "zcdp") == 16 / Fraction("0.8889") == rest.noise_factor("zcdp")
    assert blind.noise_factor("puredp") == 1 / Fraction("0.1111")
    given = blocks_of(mixed, TOTAL, 4, "structured", Fraction(Decimal("0.5")))
    assert [block.share for block in given] == [Fraction(1, 2)] * 2
    (alone,) = blocks_of(table({1: MINOR, 2: ADULT}), TOTAL, 4, "structured", Fraction(1, 2))
    assert (alone.share, alone.delta.l2_squared, alone.is_blind) == (1, 1, True)
    (dropped,) = blocks_of(CENSUS_2020.tabulation("PH1_dropped"), TOTAL, 10, "tight")
    assert (dropped.delta.l2_squared, dropped.is_blind) == (1, True)


def test_shares_minimise_the_sum_of_variances():
    """C18: no other share, to four places, gives a smaller sum over the cells of PH3."""
    ph3 = CENSUS_2020.tabulation("PH3")

    def total(share):
        blocks = blocks_of(ph3, TOTAL, 6, "structured", share)
        return sum(len(block.cells) * block.noise_factor("zcdp") for block in blocks)

    best = blocks_of(ph3, TOTAL, 6, "structured")[0].share
    assert min(range(1, 10_000), key=lambda n: total(Fraction(n, 10_000))) == best * 10_000


def test_extreme_thresholds_keep_both_blocks():
    ph3 = CENSUS_2020.tabulation("PH3")
    blind, rest = blocks_of(ph3, TOTAL, 99_999, "structured")
    assert blind.share == Fraction(1, 10_000) and blind.share + rest.share == 1
