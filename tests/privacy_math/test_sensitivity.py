"""Sensitivities and losses agree with the tables of docs/privacy.md and with brute force over small households."""

from fractions import Fraction
from itertools import product

import pytest

from phsafe.privacy_math.sensitivity import MODES, of, person_sensitivity, sqrt_up, unit_sensitivity


@pytest.mark.parametrize("tau", [1, 6, 10, 99_999])
def test_published_is_the_papers_bound(tau):
    delta = person_sensitivity(tau, "published")
    assert (delta.l1, delta.l2_squared) == (2 * tau + 2, (2 * tau + 2) ** 2)
    assert delta.variance_times_rho == 2 * (tau + 1) ** 2
    assert delta.loss("zcdp", Fraction(1, 3)) == (Fraction(1, 3), Fraction(2, 3))


@pytest.mark.parametrize("tau", [1, 6, 10])
def test_variances_and_losses_of_the_modes(tau):
    persons = [2 * (tau + 1) ** 2, tau**2, 2 * tau**2, tau**2]
    assert [of("persons", tau, mode).variance_times_rho for mode in MODES] == persons
    assert [unit_sensitivity(mode).variance_times_rho for mode in MODES] == [2, 1, 2, 1]
    assert [of("persons", tau, mode).loss("zcdp", Fraction(1)) for mode in MODES] == [
        (1, 2),
        (1, 4),
        (Fraction(1, 2), 2),
        (1, 4),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_pure_dp_losses_are_the_budget_and_twice_the_budget(mode):
    assert of("persons", 10, mode).loss("puredp", Fraction(7)) == (7, 14)
    assert of("persons", 10, mode).distance("puredp") == (22 if mode == "published" else 20)


def _norms(parts):
    """The largest squared L2 distance and the largest L1 distance between two of the vectors."""
    squares = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for x in parts for y in parts]
    sums = [sum(abs(a - b) for a, b in zip(x, y, strict=True)) for x in parts for y in parts]
    return max(squares), max(sums)


@pytest.mark.parametrize("tau", [1, 2, 3])
def test_unbounded_delta_is_the_largest_change_of_one_household(tau):
    """Claim C4, for all contributions of a household to three cells: the bound holds and is attained."""
    parts = [c for c in product(range(tau + 1), repeat=3) if sum(c) <= tau]
    delta = person_sensitivity(tau, "tight")
    assert _norms(parts) == (delta.l2_squared, delta.l1)
    published = person_sensitivity(tau, "published")
    assert published.l2_squared >= delta.l2_squared
    assert published.l1 >= delta.l1


@pytest.mark.parametrize("tau", [1, 2])
def test_bounded_delta_is_the_largest_change_of_two_households(tau):
    """Claim C5: a replaced record affects two households, whose changes can go in the same direction."""
    parts = [c for c in product(range(tau + 1), repeat=2) if sum(c) <= tau]
    pairs = [tuple(a + b for a, b in zip(x, y, strict=True)) for x in parts for y in parts]
    delta = person_sensitivity(tau, "tight")
    assert _norms(pairs) == (delta.bounded_l2_squared, delta.bounded_l1)
    published = person_sensitivity(tau, "published")
    assert published.bounded_l2_squared >= delta.bounded_l2_squared, "claim C9: the paper's 2ρ holds"


def test_losses_follow_from_the_distances():
    """Claim C9: with σ² = k/ρ, Δ²/(2σ²) is at most the stated loss, and equal to it in the tight modes."""
    for kind, tau in (("units", None), ("oversized", 10), ("dropped", 10), *(("persons", tau) for tau in (1, 6, 10))):
        for mode in MODES:
            delta, tight = of(kind, tau, mode), of(kind, tau, "tight")
            k = delta.variance_times_rho
            unbounded, bounded = (Fraction(x) / (2 * k) for x in (tight.l2_squared, tight.bounded_l2_squared))
            stated = delta.loss("zcdp", Fraction(1))
            if mode == "published":
                assert unbounded <= stated[0]
                assert bounded <= stated[1]
            else:
                assert (unbounded, bounded) == stated


@pytest.mark.parametrize("mode", MODES)
def test_dropped_persons_and_oversized_households(mode):
    """Claim C14: one record changes one cell by one, in every mode. Claim C15: oversized households are units."""
    dropped = of("dropped", 10, mode)
    assert (dropped.l2_squared, dropped.l1, dropped.bounded_l2_squared, dropped.bounded_l1) == (1, 1, 2, 2)
    assert (
        dropped.loss("zcdp", Fraction(1, 3))
        == dropped.loss("puredp", Fraction(1, 3))
        == (
            Fraction(1, 3),
            Fraction(2, 3),
        )
    )
    assert dropped.variance_times_rho == Fraction(1, 2)
    assert of("oversized", 10, mode) == of("units", None, mode) == unit_sensitivity(mode)


def test_square_roots_are_rounded_up():
    for square in (1, 2, 200, 484, 2 * 99_999**2, 10**30 + 1):
        root = sqrt_up(square)
        assert square <= Fraction(root) ** 2 <= square * (1 + Fraction(1, 2**51))


def test_displayed_delta():
    assert of("persons", 10, "published").displayed("zcdp") == 22
    assert isinstance(of("persons", 10, "published").displayed("zcdp"), int)
    assert of("persons", 10, "tight").displayed("zcdp") == pytest.approx(10 * 2**0.5)
    assert of("persons", 10, "tight-bounded").displayed("zcdp") == pytest.approx(20 * 2**0.5)
    assert of("units", None, "tight-bounded").displayed("zcdp") == pytest.approx(2 * 2**0.5)


def test_a_threshold_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        person_sensitivity(0, "tight")
