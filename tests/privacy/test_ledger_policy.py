"""Claim C13 and what a ledger allows besides its cap: whose releases, and how large one may be."""

import pwd
import socket
from decimal import Decimal
from fractions import Fraction

import pytest

from phsafe.privacy import ledger_policy
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError, Population

US, PART, PR = ("04", "44", "56"), ("44", "56"), ("72",)


def about(*states, text="the country", is_stated=False):
    return Population(text, states, is_stated)


def pure(epsilon):
    return Loss("puredp", Fraction(epsilon), 2 * Fraction(epsilon))


def test_pure_dp_releases_are_charged_their_zcdp_loss(path, third):
    """C13: ε²/2 for each kind of neighbours, beside what zCDP releases are charged."""
    ledger = Ledger.create(path, Fraction(1, 2) + Fraction(1, 3))
    ledger.charge(third, "gaussian", {})
    ledger.charge(pure(1), "geometric", {})
    statement = ledger.read()
    assert [charge.loss.definition for charge in statement.charges] == ["zcdp", "puredp"]
    assert (statement.spent, statement.left) == (Fraction(5, 6), 0)
    assert statement.spent_bounded == Fraction(2, 3) + 2
    with pytest.raises(LedgerError, match=r"needs 0\.005 ρ, but 0 of 5/6 ρ is left"):
        ledger.charge(pure("0.1"), "more", {})
    assert ledger.verify() == []


def test_a_pure_dp_ledger_charges_epsilon(path):
    ledger = Ledger.create(path, 1, "puredp")
    ledger.charge(pure(1), "r", {})
    assert (ledger.read().spent, ledger.read().spent_bounded) == (1, 2)


def test_a_release_of_other_states_is_refused(path, third):
    ledger = Ledger.create(path, 2, population="three states", states=US)
    for states in (PR, ("44", "72")):
        with pytest.raises(LedgerError, match=r"is for three states \(states 04, 44, 56\), and .* also about 72;"):
            ledger.charge(third, "r", {}, population=about(*states))
        with pytest.raises(LedgerError, match="nothing was charged"):
            ledger.check(third, about(*states))
    ledger.charge(third, "part", {}, population=about(*PART))
    ledger.charge(third, "all", {}, population=about(*US))
    assert len(ledger.charges()) == 2


def test_a_config_that_names_another_population_is_refused(path, third):
    ledger = Ledger.create(path, 2, population="households of 2020", states=US)
    with pytest.raises(LedgerError, match=r"is for households of 2020, and the config is for households of 2030;"):
        ledger.charge(third, "r", {}, population=about(*US, text="households of 2030", is_stated=True))
    ledger.charge(third, "same", {}, population=about(*US, text="households of 2020", is_stated=True))
    ledger.charge(third, "derived", {}, population=about(*US, text="anything", is_stated=False))


def test_the_first_release_names_the_population_if_nothing_else_did(path, third):
    ledger = Ledger.create(path, 2)
    assert (ledger.read().population, ledger.read().states) == (None, None)
    ledger.charge(third, "first", {}, population=about(*PART, text="two states", is_stated=True))
    assert (ledger.read().population, ledger.read().states) == ("two states", PART)
    with pytest.raises(LedgerError, match="also about 04"):
        ledger.charge(third, "r", {}, population=about(*US))
    with pytest.raises(LedgerError, match="is for two states"):
        ledger.charge(third, "r", {}, population=about(*PART, text="others", is_stated=True))


@pytest.mark.parametrize(
    ("of_ledger", "of_release", "limit"),
    [(None, None, 10), (None, 20, 20), (20, None, 20), (20, 5, 5), (5, 20, 5)],
)
def test_the_smallest_limit_refuses_a_large_loss(path, of_ledger, of_release, limit):
    """An explicit limit replaces the default; of two, the smaller holds. Bounded losses are not compared."""
    ledger = Ledger.create(path, 1000, max_rho=of_ledger)
    allowed = Loss("zcdp", Fraction(limit), 4 * Fraction(limit))
    ledger.check(allowed, max_rho=of_release)
    above = Loss("zcdp", limit + Fraction(1, 10**9), Fraction(0))
    with pytest.raises(LedgerError, match=rf"at most ρ = {limit}, got {limit}.000000001"):
        ledger.charge(above, "r", {}, max_rho=of_release)
    ledger.charge(allowed, "r", {}, max_rho=of_release)


def test_a_pure_dp_loss_is_compared_in_rho(path):
    ledger = Ledger.create(path, 1000, "puredp", max_rho=8)
    ledger.check(pure(4))
    with pytest.raises(LedgerError, match=r"at most ρ = 8, got 8\.40"):
        ledger.check(pure("4.1"))


def test_the_default_limit_lets_the_2020_parameters_pass():
    ledger_policy.check_ceiling(Loss("zcdp", Fraction("1.257281"), Fraction("2.514562")))
    assert round(ledger_policy.MAX_RHO / Fraction("1.257281")) == 8, "about eight times their loss"
    with pytest.raises(LedgerError, match="got 1000000; lower the budgets, or raise the limit"):
        ledger_policy.check_ceiling(Loss("zcdp", Fraction(10**6), Fraction(10**6)), None)


def test_a_superseded_or_amended_limit_holds(path):
    ledger = Ledger.create(path, 1000)
    ledger.amend("board", "small releases only", max_rho=Decimal("0.5"))
    assert (ledger.read().max_rho, ledger.read().cap) == (Fraction(1, 2), 1000)
    with pytest.raises(LedgerError, match=r"at most ρ = 0\.5"):
        ledger.check(Loss("zcdp", Fraction(1), Fraction(2)))


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "\x1b[2J", "x" * 1001])
def test_text_must_be_one_printable_line(path, value, third):
    ledger = Ledger.create(path, 2)
    for call in (
        lambda: ledger.note("me", value),
        lambda: ledger.amend(value, "why", cap=3),
        lambda: ledger.amend("me", value, cap=3),
        lambda: ledger.import_spending(1, "me", value),
        lambda: ledger.charge(third, value, {}),
        lambda: Ledger.create(path.with_name("other"), 1, population=value),
        lambda: Ledger.create(path, 1, supersede={"by": "me", "reason": value}),
        lambda: Ledger.create(path, 1, supersede={"by": value, "reason": "why"}),
    ):
        with pytest.raises(LedgerError, match="expected one line of printable text, of at most 1000 characters"):
            call()
    assert ledger.read().entries == () and ledger.verify() == []
    ledger.note("me", "x" * 1000)


def test_every_entry_records_user_and_host(path, monkeypatch):
    ledger = Ledger.create(path, 1)
    entry = ledger.note("me", "hello")
    assert entry.user == pwd.getpwuid(ledger_policy.os.getuid()).pw_name
    assert entry.host == socket.gethostname()
    monkeypatch.setattr(ledger_policy.os, "getuid", lambda: 4_000_000_123)
    assert ledger.note("me", "again").user == "4000000123", "a user without a name"
