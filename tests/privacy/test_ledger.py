"""Claim C12: the ledger can't be overspent, by parallel processes, crashes or tampering, without being found out."""

import errno
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction

import pytest

from phsafe.privacy import ledger, ledger_chain, ledger_file
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError

LOSS = Loss("zcdp", Fraction("1.257281"), Fraction("2.514562"))
THIRD = Loss("zcdp", Fraction(1, 3), Fraction(2, 3))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "population.ledger"


@pytest.fixture
def filled(path):
    ledger = Ledger.create(path, Decimal(2))
    for i in range(4):
        ledger.charge(THIRD, f"release-{i}", {"sensitivity": "published"}, ledger.fingerprint([b"data"]))
    return ledger


# --- charging ---------------------------------------------------------------------------------------------------


def test_a_charge_is_recorded_exactly(path):
    ledger = Ledger.create(path, Decimal("2.6"))
    details = {"sensitivity": "published", "skip_validation": True}
    made = ledger.charge(LOSS, "r1", details, ledger.fingerprint([b"a", b"b"]))
    (entry,) = Ledger.open(path).entries()
    assert entry == made
    assert (entry.number, entry.release_id, entry.loss, entry.details) == (1, "r1", LOSS, details)
    assert entry.fingerprint == ledger.fingerprint([b"ab"]) != ledger.fingerprint([b"other"])
    assert (ledger.spent, ledger.left, ledger.cap) == (LOSS.unbounded, Fraction("1.342719"), Fraction("2.6"))
    assert ledger.read().spent_bounded == LOSS.bounded
    assert ledger.verify() == []


def test_the_cap_can_be_reached_exactly_and_not_passed(path):
    ledger = Ledger.create(path, Decimal(1))
    for i in range(3):
        ledger.charge(THIRD, str(i), {})
    assert ledger.left == 0
    with pytest.raises(LedgerError, match=r"needs 1/3 ρ, but 0 of 1 ρ is left"):
        ledger.charge(THIRD, "3", {})
    assert len(ledger.entries()) == 3


def test_what_is_refused(path):
    ledger = Ledger.create(path, Decimal(1))
    with pytest.raises(LedgerError, match=r"needs 1\.257281 ρ, but 1 of 1 ρ is left") as refusal:
        ledger.check(LOSS)
    assert len(refusal.value.reasons) == 1
    with pytest.raises(LedgerError, match="never refunds"):
        ledger.charge(Loss("zcdp", Fraction(-1), Fraction(-2)), "r", {})
    with pytest.raises(LedgerError, match=r"counts zCDP; a pure DP release needs a ledger of its own"):
        ledger.charge(Loss("puredp", Fraction(1, 2), Fraction(1)), "r", {})
    ledger.charge(THIRD, "r", {})
    with pytest.raises(LedgerError, match="was charged before"):
        ledger.charge(THIRD, "r", {})
    assert len(ledger.entries()) == 1


def test_releases_of_different_modes_add_up(path):
    """Unbounded losses add up whatever the mode; the bounded loss is kept beside them."""
    ledger = Ledger.create(path, Decimal(2))
    ledger.charge(Loss("zcdp", Fraction(1), Fraction(4)), "tight", {"sensitivity": "tight"})
    ledger.charge(Loss("zcdp", Fraction(1, 2), Fraction(2)), "bounded", {"sensitivity": "tight-bounded"})
    statement = ledger.read()
    assert (statement.spent, statement.spent_bounded, statement.left) == (Fraction(3, 2), 6, Fraction(1, 2))


def test_pure_dp_has_its_own_ledger(path):
    ledger = Ledger.create(path, Decimal(1), "puredp")
    with pytest.raises(LedgerError, match="counts pure DP"):
        ledger.charge(THIRD, "r", {})
    ledger.charge(Loss("puredp", Fraction(1), Fraction(2)), "r", {})
    assert ledger.left == 0


# --- files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_files_are_for_the_owner_only_whatever_the_umask(path, umask):
    before = os.umask(umask)
    try:
        Ledger.create(path, Decimal(3)).charge(LOSS, "r", {})
    finally:
        os.umask(before)
    files = sorted(path.parent.iterdir())
    assert [f.name for f in files] == [path.name, f"{path.name}.key"], "nothing else is left behind"
    assert [stat.S_IMODE(f.stat().st_mode) for f in files] == [0o600, 0o600]


def test_a_ledger_is_never_replaced(path):
    Ledger.create(path, Decimal(1))
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(path, Decimal(100))
    assert Ledger.open_or_create(path, Decimal(100))[0].cap == 1


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_must_be_above_zero(path, cap):
    with pytest.raises(LedgerError, match="above 0"):
        Ledger.create(path, cap)
    assert not path.exists()


def test_a_definition_must_be_known(path):
    with pytest.raises(
        LedgerError, match="expected one of zcdp, puredp as privacy definition, got 'laplace'"
    ):
        Ledger.create(path, 1, "laplace")
    assert Ledger.create(path, 1, "puredp").definition == "puredp"


def test_names_that_no_disk_takes(tmp_path):
    for call in (Ledger.open, lambda p: Ledger.open_or_create(p, 1)):
        with pytest.raises(LedgerError, match="File name too long"):
            call(tmp_path / ("x" * 300))
    with pytest.raises(LedgerError, match="can't read the ledger's key: File name too long"):
        ledger_file.load_key(tmp_path / ("x" * 253))
    with pytest.raises(LedgerError, match="no folder"):
        Ledger.open_or_create(tmp_path / "nowhere" / "ledger", 1)
    with pytest.raises(LedgerError, match="can't make the file"):
        ledger_file.load_or_make_key(tmp_path / "nowhere" / "ledger")
    assert ledger_file.unfinished(tmp_path / "nowhere" / "ledger") == []
    assert list(tmp_path.iterdir()) == []


def test_what_goes_wrong_while_a_file_is_made_leaves_nothing_under_its_name(path):
    """What was begun stays while the name is free, so that the key beside it is not taken for a lost ledger's."""

    def full(_):
        raise OSError(28, "No space left on device")

    def refused(_):
        raise LedgerError("no")

    with pytest.raises(LedgerError, match="can't make the file: No space left on device"):
        ledger_file.publish(path, full)
    with pytest.raises(LedgerError, match=r"^no$"):
        ledger_file.publish(path, refused)
    begun = ledger_file.unfinished(path)
    assert sorted(path.parent.iterdir()) == sorted(begun)
    assert len(begun) == 2
    with pytest.raises(LedgerError, match="never replaced"):
        ledger_file.publish(path, lambda _: path.write_text("somebody else's"))
    ledger_file.sweep(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "somebody else's"


def test_who_comes_second_gets_what_is_there(path, monkeypatch):
    """Another process makes the ledger, or its key, between the look and the making."""
    create, publish = Ledger.create, ledger_file.publish

    def late(path, cap, definition):
        create(path, Decimal(1))
        return create(path, cap, definition)

    monkeypatch.setattr(Ledger, "create", late)
    found, made = Ledger.open_or_create(path, Decimal(100))
    assert (found.cap, made) == (1, False)
    key = ledger_file.load_key(path)
    ledger_file.key_path(path).unlink()

    def too_late(place, fill):
        publish(place, lambda file: file.write_text(key.hex()))
        publish(place, fill)

    monkeypatch.setattr(ledger_file, "publish", too_late)
    assert ledger_file.load_or_make_key(path) == key


def test_odd_files_are_refused_in_one_sentence(tmp_path):
    real = Ledger.create(tmp_path / "real", Decimal(1)).path
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "text").write_text("not a database, but long enough to be looked at " * 40)
    (tmp_path / "empty").touch()
    with sqlite3.connect(tmp_path / "sqlite") as other:
        other.execute("CREATE TABLE entries (x)")
    other.close()
    damaged = bytearray(real.read_bytes())
    damaged[4096 : 3 * 4096] = b"\xff" * (2 * 4096)
    (tmp_path / "damaged").write_bytes(damaged)
    expected = {
        "link": "symbolic link", "text": "got another file", "empty": "got another file",
        "sqlite": "got another file", "damaged": "damaged", "absent": "no ledger here", ".": "not a plain file",
    }  # fmt: skip
    for name, words in expected.items():
        for call in (Ledger.open, lambda p: Ledger(p).charge(THIRD, "r", {})):
            with pytest.raises(LedgerError, match=words) as error:
                call(tmp_path / name)
            assert len(error.value.reasons) == 1
        assert Ledger(tmp_path / name).verify(), name
    with pytest.raises(LedgerError, match="no folder"):
        Ledger.create(tmp_path / "nowhere" / "ledger", Decimal(1))
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(tmp_path / "link", Decimal(1))


def test_a_read_only_ledger_can_be_read_but_not_charged(filled, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anything, so chmod proves nothing
    assert len(filled.entries()) == 4
    with pytest.raises(LedgerError, match="can't be written; nothing was charged"):
        filled.charge(THIRD, "r", {})


def test_a_locked_ledger_is_reported(filled, monkeypatch):
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(filled.path, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="another process holds the ledger"):
            filled.charge(THIRD, "r", {})
        holder.execute("ROLLBACK")
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process holds the ledger"):
            filled.check(Loss("zcdp", Fraction(1, 100), Fraction(2, 100)))  # one writer looks at a time
    finally:
        holder.close()


def test_the_key_is_needed_and_secret(filled):
    key = ledger_file.key_path(filled.path)
    key.chmod(0o644)
    with pytest.raises(LedgerError, match="chmod 600"):
        filled.charge(THIRD, "r", {})
    key.chmod(0o600)
    content = key.read_text()
    key.write_text("short")
    assert filled.verify() != []
    key.unlink()
    with pytest.raises(LedgerError, match="key is missing"):
        filled.charge(THIRD, "r", {})
    key.symlink_to("/dev/null")
    assert filled.verify() != []
    key.unlink()
    key.touch(mode=0o600)
    key.write_text(content)
    assert filled.verify() == []


def test_a_ledger_that_was_lost_does_not_begin_again_by_itself(path):
    """Its key is left. To begin again is a decision, not something that a release does on its own."""
    Ledger.create(path, Decimal(1))
    path.unlink()
    with pytest.raises(LedgerError, match="moved or deleted; put it back"):
        Ledger.open_or_create(path, Decimal(5))
    assert not path.exists()
    assert Ledger.create(path, Decimal(5)).cap == 5


def test_a_ledger_that_could_not_be_made_is_made_by_the_next(path, monkeypatch):
    """The disk was full, and the key was there already: that is no ledger that was lost."""

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(ledger_file, "_patiently", full)
        with pytest.raises(LedgerError, match="disk is full"):
            Ledger.open_or_create(path, Decimal(1))
    assert ledger_file.key_path(path).exists() and not path.exists()
    assert Ledger.open_or_create(path, Decimal(1))[1]
    assert sorted(f.name for f in path.parent.iterdir()) == [path.name, f"{path.name}.key"]


KILLED_AT = [
    "ledger_file.load_or_make_key",
    "ledger_chain.start",
    "os.link",
    "os.link+",
    "ledger_file._sync_folder",
]


@pytest.mark.parametrize("place", KILLED_AT)
@pytest.mark.parametrize("times", [1, 2], ids=["first", "second"])
def test_a_ledger_whose_making_was_killed_is_made_by_the_next(path, place, times):
    """Killed before (or, with +, after) the first or second call of a step: of the key's making or the ledger's."""
    code = f"""
import os, signal, sys
from decimal import Decimal
from phsafe.privacy import ledger_chain, ledger_file
from phsafe.privacy.ledger import Ledger
left = [{times}]
def die(*args):
    left[0] -= 1
    if {place.endswith("+")}:
        really(*args)
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    if not {place.endswith("+")}:
        return really(*args)
really = {place.rstrip("+")}
{place.rstrip("+")} = die
Ledger.create(sys.argv[1], Decimal(1))
"""
    run = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True, text=True)
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    ledger, _ = Ledger.open_or_create(path, Decimal(1))
    ledger.charge(THIRD, "r", {})
    assert ledger.verify() == []
    assert sorted(f.name for f in path.parent.iterdir()) == [path.name, f"{path.name}.key"], "nothing is left"


def test_a_second_name_is_refused(filled):
    """Under two names SQLite keeps two journals, and may lose what one of them holds."""
    os.link(filled.path, filled.path.with_name("copy"))
    with pytest.raises(LedgerError, match="hard link"):
        filled.charge(THIRD, "r", {})
    filled.path.with_name("copy").unlink()
    assert filled.verify() == []


def test_a_transaction_that_is_over_is_not_rolled_back(filled):
    with ledger_file.connection(filled.path) as database:
        with pytest.raises(KeyError), ledger_file.transaction(database, "DEFERRED"):
            database.execute("COMMIT")
            raise KeyError
        assert not database.in_transaction


def test_a_ledger_made_by_other_hands_with_the_right_key_is_still_read_with_care(filled, monkeypatch):
    """More charged than the cap, and a format of the future."""
    key = ledger_file.load_key(filled.path)
    with ledger_file.connection(filled.path) as database, ledger_file.transaction(database, "IMMEDIATE"):
        last = ledger_chain.rows(database)[-1]
        body = {"time": "", "release_id": "x", "unbounded": "5", "bounded": "10", "details": {}}
        ledger_chain.append(database, key, last, body | {"fingerprint": None, "version": ""})
    assert filled.verify() == ["more was charged than the cap allows"]
    monkeypatch.setattr(ledger, "FORMAT", 2)
    later = Ledger.create(filled.path.with_name("later"), 1)
    with pytest.raises(LedgerError, match="expected format 1; another version of PHSafe may know it"):
        later.read()


def test_a_program_that_was_not_installed_has_no_version(monkeypatch):
    def missing(name):
        raise ledger.PackageNotFoundError(name)

    monkeypatch.setattr(ledger, "version", missing)
    assert ledger.program_version() == "unknown"


def test_waiting_for_a_ledger_can_be_stopped(heard, filled):
    """SQLite's own waiting would not hear a signal for half a minute."""
    holder = sqlite3.connect(filled.path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    gave_up = threading.Event()
    for seconds, act in ((0.5, lambda: signal.raise_signal(signal.SIGINT)), (20, gave_up.set)):
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        filled.charge(THIRD, "r", {})
    assert not gave_up.is_set()
    holder.close()
    assert len(filled.entries()) == 4


@pytest.mark.parametrize(
    "name",
    ["it's", 'a"b', "a b", "a?mode=ro#x", "%41", "a\nb", "a;b", "*", "é", "\udcff", "-l", "$(x)"],
    ids=ascii,
)
def test_odd_names(tmp_path, name):
    ledger = Ledger.create(tmp_path / name, Decimal(1))
    ledger.charge(THIRD, "r", {})
    assert ledger.verify() == []
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([name, f"{name}.key"])


# --- tampering --------------------------------------------------------------------------------------------------


def test_triggers_refuse_changes(filled):
    database = sqlite3.connect(filled.path)
    for statement in ("UPDATE entries SET body = ''", "DELETE FROM entries", "DELETE FROM head"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
    database.close()
    assert filled.verify() == []


def recompute(database):
    """What a careful forger without the key does: a fresh, consistent chain over whatever rows are there."""
    from phsafe.privacy.ledger_chain import _hash

    before = ""
    rows = database.execute("SELECT number, body FROM entries ORDER BY number").fetchall()
    for number, body in rows:
        before = _hash(number, before, body)
        database.execute("UPDATE entries SET hash = ? WHERE number = ?", (before, number))
    database.execute("UPDATE head SET entries = ?", (len(rows),))


SWAP = """UPDATE entries SET number = 90 WHERE number = 1; UPDATE entries SET number = 1 WHERE number = 2;
          UPDATE entries SET number = 2 WHERE number = 90;"""
TAMPERINGS = {
    "a row": "UPDATE entries SET body = replace(body, '1/3', '1/9') WHERE number = 2",
    "a row's release": "UPDATE entries SET body = replace(body, 'release-0', 'release-x') WHERE number = 1",
    "a hash": "UPDATE entries SET hash = 'x' || substr(hash, 2) WHERE number = 3",
    "the cap": 'UPDATE entries SET body = replace(body, \'"cap":"2"\', \'"cap":"9"\') WHERE number = 0',
    "a row in the middle": "DELETE FROM entries WHERE number = 2",
    "the first row": "DELETE FROM entries WHERE number = 0",
    "the tail": "DELETE FROM entries WHERE number = 4",
    "all": "DELETE FROM entries",
    "the order": SWAP,
    "the head": "DELETE FROM head",
    "the count": "UPDATE head SET entries = 3",
    "the mac": "UPDATE head SET mac = 'ü'",
    "a row's type": "UPDATE entries SET body = x'ff00' WHERE number = 2",
}


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_found(filled, tampering, careful):
    from phsafe.privacy.ledger_chain import TRIGGERS

    database = sqlite3.connect(filled.path)
    for name in TRIGGERS:
        database.execute(f"DROP TRIGGER {name}")
    database.executescript(TAMPERINGS[tampering])
    if careful and tampering not in ("a hash", "the count"):
        recompute(database)
    for statement in TRIGGERS.values():
        database.execute(statement)
    database.commit()
    database.close()
    assert filled.verify() != []
    with pytest.raises(LedgerError):
        filled.charge(Loss("zcdp", Fraction(1, 100), Fraction(2, 100)), "r", {})


def test_missing_triggers_and_open_modes_are_found(filled):
    filled.path.chmod(0o644)
    assert filled.verify() == ["the ledger can be read or changed by others than its owner"]
    filled.path.chmod(0o600)
    database = sqlite3.connect(filled.path)
    database.execute("DROP TRIGGER no_update_of_entries")
    database.close()
    assert filled.verify() == ["the triggers that keep the ledger append-only were removed or changed"]


HOSTILE = {
    "an amount that fills the memory": '{"unbounded":"1e999999999","bounded":"1"',
    "an amount below 0": '{"unbounded":"-1","bounded":"1"',
    "a number for an amount": '{"unbounded":1,"bounded":1',
    "no number": '{"unbounded":"1/0","bounded":"nan"',
    "digits without end": '{"unbounded":"' + "1" * 10**6 + '","bounded":"1"',
    "orders to a terminal": '{"release_id":"\\u001b[2J","unbounded":"1","bounded":"1"',
    "no details": '{"details":[],"unbounded":"1","bounded":"1"',
    "depth": "[" * 100_000,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_content_is_damage_and_does_no_harm(filled, kind):
    rest = ',"time":"","release_id":"","details":{},"fingerprint":null,"version":""}'
    start = HOSTILE[kind]
    given = [part.partition('"')[0] for part in start.split('"')[1::2]]
    fields = [f for f in rest.strip(",}").split(",") if f.partition(":")[0].strip('"') not in given]
    body = start if kind == "depth" else f"{start},{','.join(fields)}}}"
    database = sqlite3.connect(filled.path)
    database.execute("INSERT INTO entries VALUES (5, ?, 'x')", [body])
    database.commit()
    database.close()
    with pytest.raises(LedgerError, match="an entry can't be read"):
        filled.read()
    assert filled.verify() != []
    with pytest.raises(LedgerError, match="nothing was charged"):
        filled.charge(THIRD, "r", {})


def test_a_view_in_place_of_a_table_is_not_asked(filled):
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS number, i, i FROM n"
    )
    database = sqlite3.connect(filled.path)
    database.executescript(f"ALTER TABLE entries RENAME TO old; CREATE VIEW entries AS {endless}")
    database.close()
    for call in (filled.read, lambda: filled.charge(THIRD, "r", {})):
        with pytest.raises(LedgerError, match="not a ledger's"):
            call()
    assert "not a ledger's" in filled.verify()[0]


@pytest.mark.parametrize("seed", range(5))
def test_torn_writes_are_found_or_do_no_harm(filled, seed):
    """Cut off, zeroed or scrambled anywhere: the same entries as before, or a refusal in words."""
    chance, content = random.Random(seed), filled.path.read_bytes()
    before = filled.read()
    for _ in range(40):
        place, torn = chance.randrange(len(content)), bytearray(content)
        kind = chance.choice(["cut", "zeros", "noise"])
        size = chance.choice([1, 512, 4096])
        torn[place : None if kind == "cut" else place + size] = {
            "cut": b"",
            "zeros": bytes(min(size, len(content) - place)),
            "noise": chance.randbytes(min(size, len(content) - place)),
        }[kind]
        filled.path.write_bytes(torn)
        try:
            filled.check(THIRD)
            assert filled.read() == before
        except LedgerError as error:
            assert len(error.reasons) == 1
    filled.path.write_bytes(content)
    assert filled.verify() == []


def test_an_older_copy_is_found_against_a_noted_head(filled):
    old = filled.path.read_bytes()
    head = filled.charge(THIRD, "latest", {}).hash
    assert filled.verify(head) == []
    filled.path.write_bytes(old)
    assert filled.verify() == [], "an older copy is whole in itself"
    assert "older copy" in filled.verify(head)[0]


# --- processes --------------------------------------------------------------------------------------------------

CHARGE = """
import sys
from decimal import Decimal
from fractions import Fraction
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError
path, name, cap, times = sys.argv[1:]
loss = Loss("zcdp", Fraction("1.257281"), Fraction("2.514562"))
small = Loss("zcdp", Fraction(1, 1000), Fraction(2, 1000))
ledger, _ = Ledger.open_or_create(path, Decimal(cap))
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
def test_of_five_parallel_releases_with_room_for_two_two_succeed(path, exists):
    if exists:
        Ledger.create(path, Decimal("2.6"))
    processes = [start(path, f"p{i}", "2.6", 1) for i in range(5)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 0, 1, 1, 1]
    for process, (_, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0 or "is left in the ledger" in errors
    ledger = Ledger.open(path)
    assert (len(ledger.entries()), ledger.left, ledger.verify()) == (2, Fraction("0.085438"), [])


def test_kill_9_never_loses_a_charge_or_breaks_the_ledger(path):
    ledger = Ledger.create(path, Decimal(1000))
    chance = random.Random(5)
    confirmed: set[str] = set()
    for trial in range(12):
        process = start(path, f"t{trial}", 1000, 100_000)
        assert process.stdout is not None
        first = process.stdout.readline().strip()
        time.sleep(chance.uniform(0, 0.04))
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=60)
        confirmed.update({first, *rest.split("\n")[:-1]})
        assert ledger.verify() == []
    charged = {entry.release_id for entry in ledger.entries()}
    assert len(confirmed) > 12
    assert confirmed <= charged
    assert len(charged) - len(confirmed) <= 12, "at most one unconfirmed charge for each kill, and it stays"
    ledger.charge(THIRD, "after", {})


@pytest.mark.parametrize(
    ("number", "is_told"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)]
)
def test_a_folder_that_cannot_be_flushed_by_itself_is_no_fault(tmp_path, monkeypatch, number, is_told):
    def fail(_):
        raise OSError(number, "no")

    monkeypatch.setattr(ledger_file.os, "fsync", fail)
    if is_told:
        with pytest.raises(OSError, match="no"):
            ledger_file._sync_folder(tmp_path)
    else:
        ledger_file._sync_folder(tmp_path)
