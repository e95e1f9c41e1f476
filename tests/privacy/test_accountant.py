"""Totals are exact, and ε agrees with a second implementation and with brute force."""

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import get_args

import dp_accounting
import pytest
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as st

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import PHSafeError
from phsafe.model.spec import Kind
from phsafe.privacy.accountant import Loss, epsilon, float_above, plan
from phsafe.privacy_math.sensitivity import MODES

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def us():
    return Config.load(EXAMPLES / "us.json")


def test_totals_of_the_2020_run(us):
    account = plan(us)
    assert account.total == Loss("zcdp", Fraction("1.257281"), Fraction("2.514562"))
    levels = account.totals("level")
    nation = sum(levels[key].unbounded for key in levels if key.startswith("usa"))
    assert nation == Fraction("0.030632")
    assert account.total.unbounded - nation == Fraction("1.226649")
    tables = account.totals("tabulation")
    assert len(tables) == 9
    assert sum(loss.unbounded for loss in tables.values()) == account.total.unbounded
    assert plan(Config.load(EXAMPLES / "pr.json")).total.unbounded == Fraction("1.226649")


def test_totals_of_the_modes(us):
    losses = {mode: plan(us.with_sensitivity(mode)).total for mode in ("tight", "tight-bounded")}
    assert losses["tight"] == Loss("zcdp", Fraction("1.257281"), Fraction("5.029124"))
    assert losses["tight-bounded"] == Loss("zcdp", Fraction("0.6286405"), Fraction("2.514562"))


def test_the_2020_noise_accounted_tightly(us):
    """Claims C4 and C5 applied to the published noise: the losses are 2.57 and 1.29 times smaller than stated."""
    tight = plan(us).tight_total
    assert float(tight.unbounded) == pytest.approx(0.488, abs=0.0005)
    assert float(tight.bounded) == pytest.approx(1.954, abs=0.0005)
    for mode in ("tight", "tight-bounded"):
        account = plan(us.with_sensitivity(mode))
        assert account.tight_total == account.total, "tight modes are already accounted tightly"


@pytest.mark.parametrize("mode", MODES)
def test_dropped_persons_cost_the_same_in_every_mode(mode):
    """Claim C14: stated as ρ and 2ρ, also accounted tightly; oversized households cost what units cost (C15)."""
    account = plan(Config.load(parameters_2020("us-measured") | {"sensitivity": mode}))
    for event in account.events:
        if event.kind == "dropped":
            assert event.loss == event.tight_loss() == Loss("zcdp", event.stated, 2 * event.stated)
            assert Fraction(event.noise.variance) >= 1 / (2 * event.stated) * (1 - Fraction(1, 10**15))
    ratios = {kind: {e.loss.unbounded / e.stated for e in account.events if e.kind == kind} for kind in get_args(Kind)}
    assert ratios["oversized"] == ratios["units"] == ratios["persons"]


def test_tight_accounting_under_pure_dp(us):
    pure = Config.load({**us.to_production(), "privacy_defn": "puredp"})
    shares = {e.tabulation: e.tight_loss().unbounded / e.stated for e in plan(pure).events}
    assert shares["PH1_num"] == Fraction(20, 22)
    assert shares["PH3"] == Fraction(12, 14)
    assert shares["PH1_denom"] == 1
    assert plan(pure).total == Loss("puredp", Fraction("1.257281"), Fraction("2.514562"))


@pytest.mark.parametrize("rho", ["0.000022", "0.01", "0.6286405", "1.257281", "2.514562", "30"])
@pytest.mark.parametrize("delta", ["1e-5", "1e-10", "1e-30"])
def test_epsilon_agrees_with_dp_accounting(rho, delta):
    orders = [1 + 10 ** (i / 400) for i in range(-800, 3200)]
    other = rdp.RdpAccountant(orders=orders).compose(dp_accounting.ZCDpEvent(float(rho)))
    theirs = other.get_epsilon(float(delta))
    ours = epsilon(Fraction(rho), Decimal(delta))
    # dp_accounting tries a list of orders, we find the best one: ours is never above theirs, and close to it.
    assert theirs * (1 - 3e-4) <= ours <= theirs * (1 + 1e-9)


@given(
    st.fractions(Fraction(1, 10**6), Fraction(50), max_denominator=10**6),
    st.integers(1, 40),
    st.floats(-6, 12),
)
@settings(max_examples=150, deadline=None)
def test_no_other_order_gives_a_smaller_epsilon(rho, places, exponent):
    delta = Decimal(1).scaleb(-places)
    alpha = 1 + 10**exponent
    other = alpha * float(rho) + (places * math.log(10) + (alpha - 1) * math.log1p(-1 / alpha) - math.log(alpha)) / (
        alpha - 1
    )
    assert epsilon(rho, delta) <= max(other, 0) * (1 + 1e-6) + 1e-9


def test_epsilon_is_not_below_the_exact_delta_of_a_gaussian():
    """A continuous Gaussian with ρ = 1/2 has a known δ(ε); the conversion from zCDP must not understate ε."""
    value = epsilon(Fraction(1, 2), Decimal("1e-6"))
    phi = dp_accounting.pld.privacy_loss_distribution.from_gaussian_mechanism(1.0)
    assert phi.get_delta_for_epsilon(value) <= 1e-6
    assert value < 0.5 + 2 * math.sqrt(0.5 * math.log(1e6)), "tighter than the simple conversion"


def test_epsilon_at_the_edges():
    assert epsilon(Fraction(0)) == 0.0
    assert epsilon(Fraction(1), Decimal("1e-10")) < epsilon(Fraction(1), Decimal("1e-20"))
    for delta in ("0", "1", "-1", "2"):
        with pytest.raises(PHSafeError, match="between 0 and 1"):
            epsilon(Fraction(1), Decimal(delta))


def test_pure_dp_epsilon_is_rounded_up():
    loss = Loss("puredp", Fraction(1, 10), Fraction(1, 5))
    assert Fraction(loss.epsilon()) >= Fraction(1, 10)
    assert Fraction(loss.epsilon_bounded()) >= Fraction(1, 5)
    assert float_above(Fraction(1, 3)) == math.nextafter(1 / 3, 1)


def test_losses_of_different_definitions_cannot_be_added():
    with pytest.raises(ValueError, match="one privacy definition"):
        Loss("zcdp", Fraction(1), Fraction(1)) + Loss("puredp", Fraction(1), Fraction(1))
