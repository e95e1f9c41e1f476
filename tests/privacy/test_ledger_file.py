"""The files of a ledger: made once, whole, for the owner alone; whatever else stands under their names is refused."""

import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from phsafe.privacy import ledger, ledger_chain, ledger_file
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_files_are_for_the_owner_only_whatever_the_umask(path, umask, third):
    before = os.umask(umask)
    try:
        Ledger.create(path, Decimal(3)).charge(third, "r", {})
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
    with pytest.raises(LedgerError, match="expected one of zcdp, puredp as privacy definition, got 'laplace'"):
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
    # Now the name is taken, and nothing that was begun can get it.
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


def test_what_others_began_for_a_ledger_that_is_there_is_removed(filled):
    begun = filled.path.with_name(f".{filled.path.name}.0123456789abcdef.new")
    begun.write_text("half of a ledger")
    assert Ledger.open_or_create(filled.path, Decimal(9))[1] is False
    assert not begun.exists()


def test_what_another_process_has_removed_first_is_no_fault(filled, monkeypatch):
    gone = filled.path.with_name(f".{filled.path.name}.0123456789abcdef.new")
    monkeypatch.setattr(ledger_file, "unfinished", lambda _: [gone])
    assert Ledger.open_or_create(filled.path, Decimal(9))[1] is False


def test_what_a_power_cut_must_not_undo_is_flushed(path, monkeypatch):
    """The key is on disk before it has its name, and each name before anybody relies on it; SQLite flushes the rest."""
    done, flush, link = [], os.fsync, os.link

    def flushed(descriptor):
        status = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")
        flush(descriptor)

    def named(temporary, name):
        link(temporary, name)
        done.append(name.name)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "link", named)
    made = Ledger.create(path, Decimal(1))
    assert done == ["64 bytes", f"{path.name}.key", "folder", path.name, "folder"]
    with ledger_file.connection(made.path) as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,), "EXTRA"


def test_functions_in_a_schema_are_not_trusted(filled):
    with ledger_file.connection(filled.path) as database:
        assert database.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_nothing_stays_open(path, third):
    before = sorted(Path("/dev/fd").iterdir())
    Ledger.create(path, Decimal(1)).charge(third, "r", {})
    assert sorted(Path("/dev/fd").iterdir()) == before


def test_odd_files_are_refused_in_one_sentence(tmp_path, third):
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
        for call in (Ledger.open, lambda p: Ledger(p).charge(third, "r", {})):
            with pytest.raises(LedgerError, match=words) as error:
                call(tmp_path / name)
            assert len(error.value.reasons) == 1
        assert Ledger(tmp_path / name).verify(), name
    with pytest.raises(LedgerError, match="no folder"):
        Ledger.create(tmp_path / "nowhere" / "ledger", Decimal(1))
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(tmp_path / "link", Decimal(1))


def test_a_read_only_ledger_can_be_read_but_not_charged(filled, monkeypatch, third):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anything, so chmod proves nothing
    assert len(filled.entries()) == 4
    with pytest.raises(LedgerError, match="can't be written; nothing was charged"):
        filled.charge(third, "r", {})


def test_a_locked_ledger_is_reported(filled, monkeypatch, third):
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(filled.path, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="another process holds the ledger"):
            filled.charge(third, "r", {})
        holder.execute("ROLLBACK")
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process holds the ledger"):
            filled.check(Loss("zcdp", Fraction(1, 100), Fraction(2, 100)))  # one writer looks at a time
    finally:
        holder.close()


def test_the_key_is_needed_and_secret(filled, third):
    key = ledger_file.key_path(filled.path)
    key.chmod(0o644)
    with pytest.raises(LedgerError, match="chmod 600"):
        filled.charge(third, "r", {})
    key.chmod(0o600)
    content = key.read_text()
    key.write_text("short")
    assert filled.verify() != []
    key.unlink()
    with pytest.raises(LedgerError, match="key is missing"):
        filled.charge(third, "r", {})
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
def test_a_ledger_whose_making_was_killed_is_made_by_the_next(path, place, times, third):
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
    ledger.charge(third, "r", {})
    assert ledger.verify() == []
    assert sorted(f.name for f in path.parent.iterdir()) == [path.name, f"{path.name}.key"], "nothing is left"


def test_a_second_name_is_refused(filled, third):
    """Under two names SQLite keeps two journals, and may lose what one of them holds."""
    os.link(filled.path, filled.path.with_name("copy"))
    with pytest.raises(LedgerError, match="hard link"):
        filled.charge(third, "r", {})
    filled.path.with_name("copy").unlink()
    assert filled.verify() == []


def test_a_transaction_that_fails_leaves_nothing_and_lets_others_in(filled):
    with ledger_file.connection(filled.path) as database, ledger_file.connection(filled.path) as other:
        with pytest.raises(KeyError), ledger_file.transaction(database, "IMMEDIATE"):
            database.execute("INSERT INTO entries VALUES (5, '', '')")
            raise KeyError
        assert not database.in_transaction
        with ledger_file.transaction(other, "IMMEDIATE"):
            assert len(ledger_chain.rows(other)) == 5


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


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "IMMEDIATE"])
def test_waiting_for_a_ledger_can_be_stopped(heard, filled, third, lock):
    """SQLite's own waiting would not hear a signal for half a minute. IMMEDIATE lets it be opened, and then waits."""
    holder = sqlite3.connect(filled.path, isolation_level=None)
    holder.execute(f"BEGIN {lock}")
    gave_up = threading.Event()
    for seconds, act in ((0.5, lambda: signal.raise_signal(signal.SIGINT)), (20, gave_up.set)):
        timer = threading.Timer(seconds, act)
        timer.daemon = True
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        filled.charge(third, "r", {})
    assert not gave_up.is_set()
    holder.close()
    assert len(filled.entries()) == 4


def test_a_charge_waits_for_those_who_read(filled, third):
    """They keep it from its COMMIT, where SQLite itself waits: longer than a step of ours, or a second."""
    reader = sqlite3.connect(filled.path, isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entries").fetchall()
    done = threading.Timer(10 * ledger_file._STEP_MS / 1000, reader.close)
    done.start()
    filled.charge(third, "r", {})
    done.join()
    assert len(filled.entries()) == 5


@pytest.mark.parametrize(
    "name",
    ["it's", 'a"b', "a b", "a?mode=ro#x", "%41", "a\nb", "a;b", "*", "é", "\udcff", "-l", "$(x)"],
    ids=ascii,
)
def test_odd_names(tmp_path, name, third):
    ledger = Ledger.create(tmp_path / name, Decimal(1))
    ledger.charge(third, "r", {})
    assert ledger.verify() == []
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([name, f"{name}.key"])


@pytest.mark.parametrize(("number", "is_told"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_flushed_by_itself_is_no_fault(tmp_path, monkeypatch, number, is_told):
    def fail(_):
        raise OSError(number, "no")

    monkeypatch.setattr(ledger_file.os, "fsync", fail)
    if is_told:
        with pytest.raises(OSError, match="no"):
            ledger_file._sync_folder(tmp_path)
    else:
        ledger_file._sync_folder(tmp_path)
