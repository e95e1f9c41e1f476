"""Claim C12: charges never exceed the cap of a ledger, even with parallel processes and crashes."""

import random
import signal
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction

import pytest

from phsafe.privacy import ledger_policy
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError

LOSS = Loss("zcdp", Fraction("1.257281"), Fraction("2.514562"))


def test_a_charge_is_recorded_exactly(path):
    ledger = Ledger.create(path, Decimal("2.6"))
    details = {"sensitivity": "published", "skip_validation": True}
    returned = ledger.charge(LOSS, "r1", details, ledger.fingerprint([b"a", b"b"]))
    (entry,) = Ledger.open(path).charges()
    assert entry.entry == returned
    assert (returned.number, entry.release_id, entry.loss, entry.details) == (1, "r1", LOSS, details)
    assert entry.charged == LOSS and entry.files is None
    assert entry.fingerprint == ledger.fingerprint([b"ab"]) != ledger.fingerprint([b"other"])
    statement = ledger.read()
    assert (statement.spent, statement.left, statement.cap) == (
        LOSS.unbounded,
        Fraction("1.342719"),
        Fraction("2.6"),
    )
    assert statement.spent_bounded == LOSS.bounded
    assert ledger.verify() == []


def test_the_cap_can_be_reached_exactly_but_not_exceeded(path, third):
    ledger = Ledger.create(path, Decimal(1))
    for i in range(3):
        ledger.charge(third, str(i), {})
    assert ledger.read().left == 0
    with pytest.raises(LedgerError, match=r"needs 1/3 ρ, but 0 of 1 ρ is left"):
        ledger.charge(third, "3", {})
    assert len(ledger.charges()) == 3
    assert ledger.verify() == []


def test_refused_charges(path, third):
    ledger = Ledger.create(path, Decimal(1))
    with pytest.raises(LedgerError, match=r"needs 1\.257281 ρ, but 1 of 1 ρ is left") as refusal:
        ledger.check(LOSS)
    assert len(refusal.value.reasons) == 1
    for unbounded, bounded in ((-1, -2), (-1, 2), (1, -2)):
        with pytest.raises(LedgerError, match="never refunds"):
            ledger.charge(Loss("zcdp", Fraction(unbounded), Fraction(bounded)), "r", {})
    ledger.charge(third, "r", {})
    with pytest.raises(LedgerError, match="has already been charged"):
        ledger.charge(third, "r", {})
    assert len(ledger.charges()) == 1


def test_a_charge_of_zero_is_recorded(path):
    ledger = Ledger.create(path, Decimal(1))
    ledger.charge(Loss("zcdp", Fraction(0), Fraction(0)), "r", {})
    assert [entry.release_id for entry in ledger.charges()] == ["r"]


def test_the_caller_is_notified_once_the_ledger_is_locked_and_before_anything_is_written(path, third):
    ledger = Ledger.create(path, Decimal(1))
    seen = []
    ledger.charge(third, "r", {}, None, lambda: seen.append(ledger.charges()))
    assert seen == [()]

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.charge(third, "stopped", {}, None, stop)
    assert [entry.release_id for entry in ledger.charges()] == ["r"]


def test_releases_of_different_modes_add_up(path):
    """Unbounded losses add up across modes, and the bounded losses are recorded with them."""
    ledger = Ledger.create(path, Decimal(2))
    ledger.charge(Loss("zcdp", Fraction(1), Fraction(4)), "tight", {"sensitivity": "tight"})
    ledger.charge(Loss("zcdp", Fraction(1, 2), Fraction(2)), "bounded", {"sensitivity": "tight-bounded"})
    statement = ledger.read()
    assert (statement.spent, statement.spent_bounded, statement.left) == (Fraction(3, 2), 6, Fraction(1, 2))


def test_a_zcdp_release_is_refused_on_a_pure_dp_ledger(path, third):
    ledger = Ledger.create(path, Decimal(1), "puredp")
    with pytest.raises(LedgerError, match="is for pure DP, and a zCDP release doesn't satisfy pure DP for any ε"):
        ledger.charge(third, "r", {})
    ledger.charge(Loss("puredp", Fraction(1), Fraction(2)), "r", {})
    assert ledger.read().left == 0


def test_the_version_is_unknown_if_the_package_is_not_installed(monkeypatch):
    def missing(name):
        raise ledger_policy.PackageNotFoundError(name)

    monkeypatch.setattr(ledger_policy, "version", missing)
    assert ledger_policy.program_version() == "unknown"


CHARGE = """
import sys
from decimal import Decimal
from fractions import Fraction
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError
path, name, cap, times = sys.argv[1:]
loss = Loss("zcdp", Fraction("1.257281"), Fraction("2.514562"))
small = Loss("zcdp", Fraction(1, 1000), Fraction(2, 1000))
try:
    ledger = Ledger.create(path, Decimal(cap))
except LedgerError:
    ledger = Ledger.open(path)
try:
    for i in range(int(times)):
        ledger.charge(loss if times == "1" else small, f"{name}-{i}", {})
        print(f"{name}-{i}", flush=True)
except LedgerError as error:
    sys.exit(str(error))
"""


def start(path, name, cap, times):
    command = [sys.executable, "-c", CHARGE, str(path), name, str(cap), str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("exists", [True, False])
def test_of_five_parallel_releases_exactly_two_fit_under_the_cap(path, exists):
    if exists:
        Ledger.create(path, Decimal("2.6"))
    processes = [start(path, f"p{i}", "2.6", 1) for i in range(5)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 0, 1, 1, 1]
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0 or "is left in the ledger" in errors
    ledger = Ledger.open(path)
    assert (len(ledger.charges()), ledger.read().left, ledger.verify()) == (2, Fraction("0.085438"), [])


def test_kill_9_never_loses_a_charge_or_damages_the_ledger(path, third):
    ledger = Ledger.create(path, Decimal(1000))
    rng = random.Random(5)
    confirmed: set[str] = set()
    for trial in range(12):
        with start(path, f"t{trial}", 1000, 100_000) as process:
            assert process.stdout is not None
            first = process.stdout.readline().strip()
            time.sleep(rng.uniform(0, 0.04))
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read()  # communicate() would skip what readline() has buffered.
        confirmed.update({first, *rest.split("\n")[:-1]})
        assert ledger.verify() == []
    charged = {entry.release_id for entry in ledger.charges()}
    assert len(confirmed) > 12
    assert confirmed <= charged
    assert len(charged) - len(confirmed) <= 12, "at most one unconfirmed charge per kill, and it is kept"
    ledger.charge(third, "after", {})
