"""Every claim is linked to code and tests, and the simpler claims are attacked here."""

from __future__ import annotations

import importlib
import inspect
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path

import claims
import numpy as np
import pytest
from engine import count
from population import FIRST_MAFID, Person, frames, hostile_unit, realistic_unit
from test_attack_neighbours import HOMES, config_of

from phsafe.configs.config import Config
from phsafe.configs.grid import level_rows
from phsafe.configs.parameters import parameters_2020
from phsafe.model.conditions import where
from phsafe.model.exact_numbers import float_above
from phsafe.model.spec import Tabulation
from phsafe.privacy import mechanism
from phsafe.privacy.accountant import Loss, epsilon
from phsafe.privacy.ledger import Ledger, LedgerError
from phsafe.privacy_math import sensitivity

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTED = claims.documented()
CITED = claims.cited()
#: Modules on which the privacy guarantee depends: each must cite a claim, in its own docstring or in a function's.
GUARDED = (
    "phsafe.privacy_math.sensitivity",
    "phsafe.privacy_math.level_structure",
    "phsafe.privacy_math.level_blocks",
    "phsafe.privacy.mechanism",
    "phsafe.privacy.accountant",
    "phsafe.privacy.ledger",
    "phsafe.counting.truncate",
    "phsafe.counting.households",
    "phsafe.counting.kernel",
    "phsafe.counting.vectorize",
    "phsafe.model.conditions",
    "phsafe.model.levels",
    "phsafe.configs.grid",
    "phsafe.pipeline.publish",
)


def test_all_claims_are_documented():
    assert [c for c in DOCUMENTED if "." not in c] == [f"C{i}" for i in range(1, 20)]
    assert [c for c in DOCUMENTED if "." in c] == ["C1.1", "C1.2", "C1.3", "C1.4"]


@pytest.mark.parametrize("claim", DOCUMENTED.values(), ids=list(DOCUMENTED))
def test_every_claim_has_code_that_cites_it_and_a_test(claim):
    assert claim.code and claim.tests
    for name in claim.code:
        assert claim.label in CITED.get(name, ()), f"{name} does not cite {claim.label} in its docstring"
    for reference in claim.tests:
        assert claims.is_test(reference), f"{reference} does not exist"


def test_every_citation_is_listed_with_its_claim():
    for name, labels in CITED.items():
        for label in labels:
            assert label in DOCUMENTED, f"{name} cites {label}, which is not in docs/privacy.md"
            assert name in DOCUMENTED[label].code, f"docs/privacy.md, {label}: {name} relies on it, but is not listed"


@pytest.mark.parametrize("module", GUARDED)
def test_every_guarded_module_cites_a_claim(module):
    assert any(name == module or name.startswith(f"{module}.") for name in CITED)
    assert importlib.import_module(module)


def test_the_grid_is_the_same_for_any_data():
    """C1.4: with no people or with some, the same vectors of the same lengths."""
    config = config_of(2)
    some = [Person(FIRST_MAFID, 30, 2, "63", "20")]
    for people in ([], 5 * some):
        counts = count(config, frames(people, HOMES, realistic_unit))
        assert list(counts) == [(m.tabulation.name, m.level.key) for m in config.measurements()]
        for m in config.measurements():
            rows = level_rows(config, m.tabulation, m.level)
            assert counts[m.tabulation.name, m.level.key].shape == (len(rows),)
            assert len(set(rows)) == len(rows)


@pytest.mark.parametrize("codes", [lambda row: True, 1.5, [1.5], [None], [("a",)], object()])
def test_conditions_beyond_a_single_row_are_refused(codes):
    """C2: no functions, expressions or floats; no MAFID; no columns of another table."""
    with pytest.raises(TypeError, match="QAGE: expected"):
        where(QAGE=codes)
    for cells, persons, units in (
        ({1: where(MAFID=100_000_001)}, where(RTYPE=3), where()),
        ({1: where()}, where(MAFID=100_000_001), where()),
        ({1: where()}, where(RTYPE=3), where(MAFID=100_000_001)),
        ({1: where()}, where(HHT="1"), where()),
        ({1: where()}, where(RTYPE=3), where(QAGE=1)),
        ({1: where(QAGE=1)}, None, where()),
    ):
        with pytest.raises(ValueError, match="expected columns among"):
            Tabulation("X", cells=cells, persons=persons, units=units)


def test_a_row_counts_once_even_under_an_overlapping_spec():
    """C3: overlapping cells are refused, and even if the check is bypassed, no row counts twice."""
    overlapping = {1: where(QAGE=range(0, 50)), 2: where(QAGE=range(20, 116))}
    with pytest.raises(ValueError, match="overlap"):
        Tabulation("X", cells=overlapping, persons=where(RTYPE=3))
    config = config_of(3)
    tabulation = config.catalog.tabulation("PH1_num")
    before = tabulation.cells
    people = [Person(FIRST_MAFID, 30, 1, "01", "20") for _ in range(5)]
    try:
        object.__setattr__(tabulation, "cells", {2: overlapping[1], 3: overlapping[2]})
        counts = count(config, frames(people, HOMES, realistic_unit))
    finally:
        object.__setattr__(tabulation, "cells", before)
    assert {int(v.sum()) for (name, _), v in counts.items() if name == "PH1_num"} == {3}


def test_noise_is_never_below_its_calibration():
    """C6 and C10: σ² ≥ k/ρ and b ≥ Δ₁/ε in exact rationals, for the 2020 budgets and for less convenient ones."""
    document = parameters_2020("us-measured")
    for mode, definition in product(sensitivity.MODES, ("zcdp", "puredp")):
        config = Config.load(document | {"sensitivity": mode, "privacy_defn": definition})
        for m in config.measurements():
            blocks = config.blocks(m.tabulation, m.level)
            for budget in (m.budget, m.budget / 3, Decimal("0.1")):
                noises = mechanism.noise_of(config, m._replace(budget=Decimal(str(budget))))
                for block, noise in zip(blocks, noises, strict=True):
                    needed = block.noise_factor(definition) / Fraction(Decimal(str(budget)))
                    used = Fraction(noise.scale) ** (2 if definition == "zcdp" else 1)
                    assert needed <= used <= needed * Fraction("1.0000001")
        if definition == "zcdp":
            expected = {"published": (242, 2), "tight-bounded": (200, 2)}.get(mode, (100, 1))
            found = tuple(sensitivity.of(kind, 10, mode).variance_times_rho for kind in ("persons", "units"))
            assert found == expected


def test_noise_is_exactly_calibrated_if_a_float_can_represent_the_scale():
    """Pure DP with Δ₁ = 4 and ε = 1/2: the planned and the used scale are 8. zCDP with Δ₂ = 6 and ρ = 1/2: σ is 6."""
    document = Config.load(ROOT / "examples" / "us.json").to_production()
    tau = dict.fromkeys(document["tau"], 2)
    config = Config.load(document | {"tau": tau, "privacy_defn": "puredp", "sensitivity": "tight"})
    m = config.measurements()[1]._replace(budget=Decimal("0.5"))
    assert mechanism.expected_noise(config, m)[0].scale == mechanism.noise_of(config, m)[0].scale == 8.0
    config = Config.load(document | {"tau": tau})
    assert mechanism.expected_noise(config, m)[0].scale == mechanism.noise_of(config, m)[0].scale == 6.0


@pytest.mark.parametrize("mode", sensitivity.MODES)
@pytest.mark.parametrize("tau", [None, *range(1, 13)])
def test_losses_follow_from_distances_and_noise(tau, mode):
    """C9 and C10: with the largest true distances (C4, C5) and σ² = k/ρ, no loss exceeds the stated one."""
    k, rho = tau or 1, Fraction(3, 7)
    kind = "units" if tau is None else "persons"
    delta = sensitivity.of(kind, tau, mode)
    variance = delta.variance_times_rho / rho
    true = Fraction(2 * k**2) / (2 * variance), Fraction(8 * k**2) / (2 * variance)
    stated = delta.loss("zcdp", rho)
    assert true[0] <= stated[0] and true[1] <= stated[1]
    losses = {"published": (rho, 2 * rho), "tight-bounded": (rho / 2, 2 * rho)}
    assert stated == losses.get(mode, (rho, 4 * rho))
    if mode != "published":
        assert true == stated
    scale = delta.l1 / rho
    pure = delta.loss("puredp", rho)
    assert pure == (rho, 2 * rho)
    assert 2 * k / scale <= pure[0] and 4 * k / scale <= pure[1]
    published = sensitivity.of(kind, tau, "published")
    if mode == "tight-bounded":
        assert delta.variance_times_rho <= published.variance_times_rho


def test_displayed_losses_are_never_understated():
    """Exact if possible, otherwise rounded up, for both privacy definitions and both types of neighbours."""
    zcdp, pure = (Loss(definition, Fraction(1, 2), Fraction(2)) for definition in ("zcdp", "puredp"))
    assert (pure.epsilon(), pure.epsilon_bounded()) == (0.5, 2.0)
    assert zcdp.epsilon() == epsilon(Fraction(1, 2)) < zcdp.epsilon_bounded() == epsilon(Fraction(2))
    assert float_above(Fraction(1)) == 1.0 and Fraction(float_above(Fraction(1, 3))) > Fraction(1, 3)
    assert epsilon(Fraction(0)) == 0.0


@pytest.mark.parametrize("package", ["phsafe.estimation", "phsafe.explorer"])
def test_postprocessing_cannot_see_the_data(package):
    """C11: postprocessing imports no module that reads or counts data, neither indirectly nor lazily."""
    reached = claims.imports(package)
    assert package in reached and len(reached) > 5
    hidden = ("phsafe.readers", "phsafe.engines", "phsafe.counting", "phsafe.pipeline.scan")
    assert not {name for name in reached if name.startswith(hidden)}


def test_a_ledger_never_exceeds_its_cap(tmp_path):
    """C12: for random requests, the total charged is exact and never above the cap."""
    rng = np.random.default_rng(5)
    ledger = Ledger.create(tmp_path / "l.ledger", Decimal("1.257281"))
    granted = Fraction(0)
    for i in range(30):
        asked = Fraction(int(rng.integers(1, 400_000)), 1_000_000)
        loss = Loss("zcdp", asked, asked * int(rng.integers(2, 5)))
        try:
            ledger.charge(loss, f"r{i}", {})
            granted += asked
        except LedgerError:
            assert granted + asked > ledger.read().cap
        assert ledger.read().spent == granted <= ledger.read().cap
    statement = ledger.read()
    assert statement.spent < statement.spent_bounded <= 4 * ledger.read().cap


@pytest.mark.parametrize("epsilon", ["0.01", "0.3", "1", "2.5", "8"])
def test_a_pure_dp_loss_implies_its_zcdp_loss(epsilon):
    """C13: for the two-sided geometric, and for the worst pair of ε-DP, no Rényi divergence is above α·ε²/2."""
    size = Fraction(epsilon)
    rho = Loss("puredp", size, 2 * size).as_zcdp()
    assert (rho.definition, rho.unbounded, rho.bounded) == ("zcdp", size**2 / 2, 2 * size**2)
    assert rho.as_zcdp() == rho
    e = float(size)
    draws = np.arange(-4000, 4001)
    geometric = (-e * np.abs(draws), -e * np.abs(draws - 1))
    p = 1 / (1 + np.exp(-e))
    worst = (np.log([p, 1 - p]), np.log([1 - p, p]))
    for pair in (geometric, worst):
        left, right = (logs - np.logaddexp.reduce(logs) for logs in pair)
        for alpha in (1.0001, 1.1, 1.5, 2, 3, 10, 100):
            divergence = np.logaddexp.reduce(alpha * left + (1 - alpha) * right) / (alpha - 1)
            assert divergence <= alpha * float(rho.unbounded) + 1e-9


def test_a_release_has_no_option_to_skip_truncation():
    """Noise calibrated to τ must never be added to untruncated counts, so neither call nor command allows it."""
    import phsafe
    from phsafe.cli.release import release

    for function in (phsafe.release, release):
        assert not [name for name in inspect.signature(function).parameters if "trunc" in name]


def test_repeated_unit_rows_count_nowhere():
    """C1.3 in unit tabulations: a household with two unit rows is not counted, however large it is."""
    config = config_of(3)
    people = [Person(FIRST_MAFID, age, 1, "01", "20") for age in range(20, 30)]
    twice = count(config, frames(people, HOMES, lambda m, members: 2 * realistic_unit(m, members)))
    assert not any(vector.any() for (name, _), vector in twice.items() if not name.endswith("_dropped"))
    once = count(config, frames(people, {FIRST_MAFID: ("44", "000001")}, hostile_unit))
    assert all(vector.sum() <= 3 for (name, _), vector in once.items() if not name.endswith("_dropped"))
