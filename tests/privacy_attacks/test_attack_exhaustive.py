"""Claims C4, C5 and C7 against every small population: never above the bound, and equal to it for some cell map."""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement, product

import household_search as search
import pytest

from phsafe.privacy import sensitivity


@cache
def maxima(kind: str, tau: int) -> dict[str, list[tuple[int, int]]]:
    parts = search.person_parts if kind == "persons" else search.unit_parts
    changes = [search.Changes(parts, tau, cells) for cells in search.cell_maps()]
    return {"unbounded": [c.unbounded() for c in changes], "bounded": [c.bounded() for c in changes]}


def claimed(kind: str, tau: int, mode: str) -> dict[str, tuple[int, int]]:
    delta = sensitivity.of(tau if kind == "persons" else None, mode)
    return {
        "unbounded": (delta.l1, delta.l2_squared),
        "bounded": (delta.bounded_l1, delta.bounded_l2_squared),
    }


def test_the_search_is_as_large_as_it_says():
    assert len(search.cell_maps()) == 52  # the partitions of five things: four joined rows and "nowhere"
    assert len(search.households(4)) == 70  # multisets of at most four of four base records
    assert len(search.person_parts(("A", "a", "b", "b"), 2, (0, 1, 2, 3))) == 1 + 2 * 3


@pytest.mark.parametrize("tau", [1, 2, 3])
@pytest.mark.parametrize("neighbours", ["unbounded", "bounded"])
@pytest.mark.parametrize("kind", ["persons", "units"])
def test_largest_distances_are_the_tight_claim(kind, neighbours, tau):
    found = maxima(kind, tau)[neighbours]
    bound = claimed(kind, tau, "tight")[neighbours]
    assert all(l1 <= bound[0] and l2 <= bound[1] for l1, l2 in found)
    assert bound in found
    factor = {"unbounded": 1, "bounded": 2}[neighbours]
    most = tau if kind == "persons" else 1
    assert bound == (2 * factor * most, 2 * factor**2 * most**2)


@pytest.mark.parametrize("tau", [1, 2, 3])
@pytest.mark.parametrize("kind", ["persons", "units"])
def test_published_bound_covers_them(kind, tau):
    delta = 2 * tau + 2 if kind == "persons" else 2
    stated = {"unbounded": (delta, delta**2), "bounded": (2 * delta, 2 * delta**2)}
    assert claimed(kind, tau, "published") == stated
    for neighbours, found in maxima(kind, tau).items():
        bound = stated[neighbours]
        assert all(l1 <= bound[0] and l2 <= bound[1] for l1, l2 in found)


def test_bounded_changes_line_up_so_squares_do_not_simply_add():
    """The bound that looks obvious, twice the unbounded square, is broken: two households may move the same way."""
    unbounded = max(l2 for _, l2 in maxima("persons", 2)["unbounded"])
    assert max(l2 for _, l2 in maxima("persons", 2)["bounded"]) == 4 * unbounded > 2 * unbounded


def test_the_reduction_loses_nothing():
    """Whole populations, whole unit functions, counted naively: the same maxima as the household-wise search."""
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


def test_where_the_unit_cannot_move_a_row_less_is_possible():
    """Proposition P1: fixed unit, a truncation by a fixed order. One record out, at most one other in."""
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
