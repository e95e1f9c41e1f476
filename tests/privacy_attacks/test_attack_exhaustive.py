"""Claims C4, C5 and C7 for every small population: never above the bound, and equal to it for some cell map."""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, product

import household_search as search
import pytest

from phsafe.privacy_math import sensitivity


@cache
def maxima(counted: str, tau: int) -> dict[str, list[tuple[int, int]]]:
    contributions = search.person_contributions if counted == "persons" else search.unit_contributions
    changes = [search.Changes(contributions, tau, cells) for cells in search.cell_maps()]
    return {"unbounded": [c.unbounded() for c in changes], "bounded": [c.bounded() for c in changes]}


def claimed(counted: str, tau: int, mode: str) -> dict[str, tuple[int, int]]:
    delta = sensitivity.of(counted, tau, mode)
    return {
        "unbounded": (delta.l1, delta.l2_squared),
        "bounded": (delta.bounded_l1, delta.bounded_l2_squared),
    }


def test_the_search_has_the_expected_size():
    assert len(search.cell_maps()) == 52  # the partitions of five items: four joined rows and "nowhere"
    assert len(search.households(4)) == 70  # multisets of at most four of the four base records
    assert len(search.person_contributions(("A", "a", "b", "b"), 2, (0, 1, 2, 3))) == 1 + 2 * 3


@pytest.mark.parametrize("tau", [1, 2, 3])
@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
@pytest.mark.parametrize("counted", ["persons", "units"])
def test_largest_distances_equal_the_tight_bound(counted, neighbours, tau):
    found = maxima(counted, tau)[neighbours]
    bound = claimed(counted, tau, "tight")[neighbours]
    assert all(l1 <= bound[0] and l2 <= bound[1] for l1, l2 in found)
    assert bound in found
    factor = {"unbounded": 1, "bounded": 2}[neighbours]
    k = tau if counted == "persons" else 1
    assert bound == (2 * factor * k, 2 * factor**2 * k**2)


@pytest.mark.parametrize("tau", [1, 2, 3])
@pytest.mark.parametrize("counted", ["persons", "units"])
def test_largest_distances_are_within_the_published_bound(counted, tau):
    delta = 2 * tau + 2 if counted == "persons" else 2
    stated = {"unbounded": (delta, delta**2), "bounded": (2 * delta, 2 * delta**2)}
    assert claimed(counted, tau, "published") == stated
    for neighbours, found in maxima(counted, tau).items():
        bound = stated[neighbours]
        assert all(l1 <= bound[0] and l2 <= bound[1] for l1, l2 in found)


def test_bounded_changes_can_align_so_squares_do_not_add():
    """Twice the unbounded square looks like a bound but isn't: two households can change in the same direction."""
    unbounded = max(l2 for _, l2 in maxima("persons", 2)["unbounded"])
    assert max(l2 for _, l2 in maxima("persons", 2)["bounded"]) == 4 * unbounded > 2 * unbounded


def test_the_reduction_gives_the_same_maxima():
    """Whole populations and whole unit functions, counted naively, against the search household by household."""
    records = [(base, m) for base in "ab" for m in (0, 1)]
    populations = [tuple(p) for n in range(4) for p in combinations_with_replacement(records, n)]
    units, maps = (0, 1), [cells for cells in search.cell_maps() if search.NOWHERE not in cells]

    def household(population, m):
        return tuple(sorted(base for base, of in population if of == m))

    def count(population, unit_of, cells, keep):
        total = [0] * search.CELLS
        for m in (0, 1):
            members = household(population, m)
            unit = unit_of[m, members]
            for base in members[:1] if keep == "first" else members[-1:]:
                total[cells[2 * search.PERSON[base] + unit]] += 1
        return total

    def distance(pair, cells, keep):
        points = sorted({(m, household(p, m)) for p in pair for m in (0, 1)})
        best = 0
        for values in product(units, repeat=len(points)):
            unit_of = dict(zip(points, values, strict=True))
            one, two = (count(p, unit_of, cells, keep) for p in pair)
            best = max(best, sum((x - y) ** 2 for x, y in zip(one, two, strict=True)))
        return best

    unbounded, bounded = 0, 0
    for population in populations:
        for rest in {population[:i] + population[i + 1 :] for i in range(len(population))}:
            for cells, keep in product(maps, ("first", "last")):
                unbounded = max(unbounded, distance((population, rest), cells, keep))
                if len(population) == 3:
                    for record in records:
                        other = tuple(sorted((*rest, record)))
                        bounded = max(bounded, distance((population, other), cells, keep))
    assert (unbounded, bounded) == (2, 8)


def test_the_bound_is_smaller_if_the_unit_cannot_move_a_row():
    """Proposition P1: with a fixed unit and truncation by a fixed order, removing a record brings in at most one."""
    order = {"a": 0, "A": 1, "b": 2}
    for tau in (1, 2, 3):
        worst = 0
        for members in search.households(5):
            inside = [r for r in members if r in order]
            for rest in search.without(members):
                kept = [sorted((r for r in h if r in order), key=order.__getitem__)[:tau] for h in (inside, rest)]
                gap = [
                    sum(search.PERSON[r] == p for r in kept[0]) - sum(search.PERSON[r] == p for r in kept[1])
                    for p in (0, 1)
                ]
                worst = max(worst, sum(x * x for x in gap))
        assert worst == 2
