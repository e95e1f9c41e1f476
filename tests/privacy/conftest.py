from decimal import Decimal
from fractions import Fraction

import pytest

from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "population.ledger"


@pytest.fixture
def made():
    """Create a ledger, or open it if it was completed before: what repeating a command does."""

    def make(path, cap=1):
        return Ledger.open(path) if path.exists() else Ledger.create(path, cap)

    return make


@pytest.fixture
def third():
    return Loss("zcdp", Fraction(1, 3), Fraction(2, 3))


@pytest.fixture
def filled(path, third):
    ledger = Ledger.create(path, Decimal(2))
    for i in range(4):
        ledger.charge(third, f"release-{i}", {"sensitivity": "published"}, ledger.fingerprint([b"data"]))
    return ledger
