"""The files of a ledger are created atomically, for their owner only; anything else under their names is refused."""

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

from phsafe.privacy import ledger, ledger_chain, ledger_file, ledger_keys, ledger_policy
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError


def names(path):
    return [path.name, f"{path.name}.key", f"{path.name}.pub"]


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_files_are_owner_only_whatever_the_umask(path, umask, third):
    before = os.umask(umask)
    try:
        Ledger.create(path, Decimal(3)).charge(third, "r", {})
    finally:
        os.umask(before)
    files = sorted(path.parent.iterdir())
    assert [f.name for f in files] == names(path), "nothing else is left behind"
    assert [stat.S_IMODE(f.stat().st_mode) for f in files] == [0o600, 0o600, 0o644], "all but the public key"


def test_a_ledger_is_never_replaced(path):
    Ledger.create(path, Decimal(1))
    with pytest.raises(LedgerError, match="never replaced"):
        Ledger.create(path, Decimal(100))
    assert Ledger.open(path).read().cap == 1


@pytest.mark.parametrize("cap", [0, -1])
def test_a_cap_must_be_above_zero(path, cap):
    with pytest.raises(LedgerError, match="above 0"):
        Ledger.create(path, cap)
    assert not path.exists()


def test_an_unknown_privacy_definition_is_refused(path):
    with pytest.raises(LedgerError, match="expected one of zcdp, puredp as the privacy definition, got 'laplace'"):
        Ledger.create(path, 1, "laplace")
    assert Ledger.create(path, 1, "puredp").read().definition == "puredp"


def test_impossible_paths_are_reported(tmp_path):
    for call in (Ledger.open, lambda p: Ledger.create(p, 1)):
        with pytest.raises(LedgerError, match="File name too long"):
            call(tmp_path / ("x" * 300))
    with pytest.raises(LedgerError, match="can't read the ledger's key: File name too long"):
        ledger_keys.load_signer(tmp_path / ("x" * 253))
    with pytest.raises(LedgerError, match="no folder"):
        Ledger.create(tmp_path / "nowhere" / "ledger", 1)
    with pytest.raises(LedgerError, match="can't create the file"):
        ledger_keys.load_or_create(tmp_path / "nowhere" / "ledger")
    assert ledger_file.unfinished(tmp_path / "nowhere" / "ledger") == []
    assert list(tmp_path.iterdir()) == []


def test_a_failed_creation_leaves_nothing_under_the_final_name(path):
    """The temporary file stays while the name is free; otherwise its key would look like that of a lost ledger."""

    def full(_):
        raise OSError(28, "No space left on device")

    def refused(_):
        raise LedgerError("no")

    with pytest.raises(LedgerError, match="can't create the file: No space left on device"):
        ledger_file.create_atomically(path, full)
    with pytest.raises(LedgerError, match=r"^no$"):
        ledger_file.create_atomically(path, refused)
    temporary = ledger_file.unfinished(path)
    assert sorted(path.parent.iterdir()) == sorted(temporary)
    assert len(temporary) == 2
    with pytest.raises(LedgerError, match="never replaced"):
        ledger_file.create_atomically(path, lambda _: path.write_text("somebody else's"))
    # The name is taken now, so the temporary files are useless and removed.
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_text() == "somebody else's"


def test_concurrent_creation_uses_the_file_that_was_created_first(path, monkeypatch):
    """Another process creates the ledger, or its keys, after we have checked for them."""
    create_file = ledger_file.create_atomically

    def late(file, fill):
        create_file(file, fill)
        create_file(file, fill)

    with monkeypatch.context() as patched:
        patched.setattr(ledger_file, "create_atomically", late)
        with pytest.raises(LedgerError, match="never replaced"):
            Ledger.create(path, Decimal(100))
    assert Ledger.open(path).verify() == []
    files = [ledger_file.key_path(path), ledger_file.public_path(path)]
    keys = {file: file.read_text() for file in files}
    public = ledger_keys.load_signer(path).public_key
    for file in files:
        file.unlink()

    def too_late(file, fill, mode):
        create_file(file, lambda temporary: temporary.write_text(keys[file]), mode)
        create_file(file, fill, mode)

    monkeypatch.setattr(ledger_keys, "create_atomically", too_late)
    assert ledger_keys.load_or_create(path).public_key == public


def test_temporary_files_for_an_existing_ledger_are_removed(filled):
    temporary = filled.path.with_name(f".{filled.path.name}.0123456789abcdef.new")
    temporary.write_text("half of a ledger")
    Ledger.open(filled.path)
    assert not temporary.exists()


def test_a_temporary_file_removed_by_another_process_is_not_an_error(filled, monkeypatch):
    gone = filled.path.with_name(f".{filled.path.name}.0123456789abcdef.new")
    monkeypatch.setattr(ledger_file, "unfinished", lambda _: [gone])
    assert len(Ledger.open(filled.path).charges()) == 4


def test_everything_is_flushed_in_the_order_a_power_failure_requires(path, monkeypatch):
    """The key's contents before its name, and each name before it is relied on; SQLite flushes the rest."""
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
    created = Ledger.create(path, Decimal(1))
    key = ["64 bytes", f"{path.name}.key", "folder"]
    public = ["64 bytes", f"{path.name}.pub", "folder"]
    assert done == [*key, *public, path.name, "folder"]
    with ledger_file.connection(created.path) as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (3,), "EXTRA"


def test_functions_in_a_schema_are_not_trusted(filled):
    with ledger_file.connection(filled.path) as database:
        assert database.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_no_file_stays_open(path, third):
    before = sorted(Path("/dev/fd").iterdir())
    Ledger.create(path, Decimal(1)).charge(third, "r", {})
    assert sorted(Path("/dev/fd").iterdir()) == before


def test_anything_but_a_ledger_is_refused_with_one_message(tmp_path, third):
    real = Ledger.create(tmp_path / "real", Decimal(1)).path
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "text").write_text("not a database, but long enough to have a header " * 40)
    (tmp_path / "empty").touch()
    with sqlite3.connect(tmp_path / "sqlite") as other:
        other.execute("CREATE TABLE entries (x)")
    other.close()
    damaged = bytearray(real.read_bytes())
    damaged[4096 : 3 * 4096] = b"\xff" * (2 * 4096)
    (tmp_path / "damaged").write_bytes(damaged)
    expected = {
        "link": "symbolic link", "text": "got another file", "empty": "got another file",
        "sqlite": "got another file", "damaged": "damaged", "absent": "no ledger at this path",
        ".": "not a regular file",
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
    assert len(filled.charges()) == 4
    with pytest.raises(LedgerError, match="not writable; nothing was charged"):
        filled.charge(third, "r", {})


def test_a_locked_ledger_is_reported(filled, monkeypatch, third):
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.1)
    holder = sqlite3.connect(filled.path, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="another process has locked the ledger"):
            filled.charge(third, "r", {})
        holder.execute("ROLLBACK")
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process has locked the ledger"):
            filled.check(Loss("zcdp", Fraction(1, 100), Fraction(2, 100)))  # checking needs the write lock, too
    finally:
        holder.close()


def test_the_key_must_exist_and_be_private(filled, third):
    key = ledger_file.key_path(filled.path)
    key.chmod(0o644)
    with pytest.raises(LedgerError, match="chmod 600"):
        filled.charge(third, "r", {})
    key.chmod(0o600)
    content = key.read_text()
    for text in ("short", "", "x" * 64, "00" * 33):
        key.write_text(text)
        with pytest.raises(LedgerError, match="expected the ledger's key, got something else"):
            filled.charge(third, "r", {})
    key.unlink()
    with pytest.raises(LedgerError, match="key is missing"):
        filled.charge(third, "r", {})
    key.symlink_to("/dev/null")
    with pytest.raises(LedgerError, match="expected a regular file with the ledger's key"):
        filled.charge(third, "r", {})
    assert filled.verify() == [], "which takes the public key alone"
    key.unlink()
    key.touch(mode=0o600)
    key.write_text(content)
    filled.charge(third, "r", {})


def test_a_lost_ledger_is_not_restarted_automatically(path):
    """Either key still exists. Starting a new ledger is a decision, with a reason."""
    Ledger.create(path, Decimal(1))
    path.unlink()
    for key in (ledger_file.public_path(path), ledger_file.key_path(path)):
        with pytest.raises(LedgerError, match="moved or deleted; restore it"):
            Ledger.create(path, Decimal(5))
        key.unlink()
        assert not path.exists()
    assert Ledger.create(path, Decimal(5)).read().cap == 5


def test_creation_can_be_retried_after_a_full_disk(path, monkeypatch):
    """The key was already written when the disk was full: that doesn't count as a lost ledger."""

    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(ledger_file, "_execute_with_retries", full)
        with pytest.raises(LedgerError, match="disk is full"):
            Ledger.create(path, Decimal(1))
    assert ledger_file.key_path(path).exists() and not path.exists()
    assert Ledger.create(path, Decimal(1)).verify() == []
    assert sorted(f.name for f in path.parent.iterdir()) == names(path)


KILLED_AT = [
    "ledger_keys.load_or_create",
    "ledger_chain.start",
    "os.link",
    "os.link+",
    "ledger_file.flush",
]


@pytest.mark.parametrize("step", KILLED_AT)
@pytest.mark.parametrize("times", [1, 2, 3], ids=["first", "second", "third"])
def test_creation_can_be_retried_after_a_kill(path, step, times, third, made):
    """Killed before (or, with +, after) a call of a step, while creating the keys or the ledger."""
    code = f"""
import os, signal, sys
from decimal import Decimal
from phsafe.privacy import ledger_chain, ledger_file, ledger_keys
from phsafe.privacy.ledger import Ledger
left = [{times}]
def die(*args):
    left[0] -= 1
    if {step.endswith("+")}:
        original(*args)
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    if not {step.endswith("+")}:
        return original(*args)
original = {step.rstrip("+")}
{step.rstrip("+")} = die
Ledger.create(sys.argv[1], Decimal(1))
"""
    run = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True, text=True)
    assert run.returncode in (0, -signal.SIGKILL), run.stderr
    ledger = made(path)
    ledger.charge(third, "r", {})
    assert ledger.verify() == []
    assert sorted(f.name for f in path.parent.iterdir()) == names(path), "nothing is left behind"


def test_a_second_hard_link_is_refused(filled, third):
    """Under two names SQLite keeps two journals and may lose the transactions in one of them."""
    os.link(filled.path, filled.path.with_name("copy"))
    with pytest.raises(LedgerError, match="hard link"):
        filled.charge(third, "r", {})
    filled.path.with_name("copy").unlink()
    assert filled.verify() == []


def test_a_failed_transaction_is_rolled_back_and_releases_the_lock(filled):
    with ledger_file.connection(filled.path) as database, ledger_file.connection(filled.path) as other:
        with pytest.raises(KeyError), ledger_file.transaction(database, "IMMEDIATE"):
            database.execute("INSERT INTO entries VALUES (5, '', '', '')")
            raise KeyError
        assert not database.in_transaction
        with ledger_file.transaction(other, "IMMEDIATE"):
            assert len(ledger_chain.rows(other)) == 5


def test_a_finished_transaction_is_not_rolled_back(filled):
    with ledger_file.connection(filled.path) as database:
        with pytest.raises(KeyError), ledger_file.transaction(database, "DEFERRED"):
            database.execute("COMMIT")
            raise KeyError
        assert not database.in_transaction


def test_a_ledger_written_with_the_right_key_by_another_program_is_still_checked(filled, monkeypatch):
    """Charges above the cap are reported, and an unknown format is refused."""
    signer = ledger_keys.load_signer(filled.path)
    with ledger_file.connection(filled.path) as database, ledger_file.transaction(database, "IMMEDIATE"):
        last = ledger_chain.rows(database)[-1]
        body = {"kind": "import", "unbounded": "5", "bounded": "10", "by": "x", "reason": "y"}
        ledger_chain.append(database, signer, last, body | ledger_policy.common_fields())
    assert filled.verify() == ["more was charged than the cap allows"]
    monkeypatch.setattr(ledger, "FORMAT", 3)
    later = Ledger.create(filled.path.with_name("later"), 1)
    with pytest.raises(LedgerError, match="expected format 2, got another; a newer version of PHSafe may support it"):
        later.read()


@pytest.mark.parametrize("lock", ["EXCLUSIVE", "IMMEDIATE"])
def test_waiting_for_a_locked_ledger_can_be_interrupted(heard, filled, third, lock):
    """SQLite's own wait ignores signals for half a minute. With an IMMEDIATE lock the ledger can be opened first."""
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
    assert len(filled.charges()) == 4


def test_a_charge_waits_for_readers(filled, third):
    """Readers block the COMMIT, where SQLite itself waits: longer than one retry interval, and than a second."""
    reader = sqlite3.connect(filled.path, isolation_level=None, check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM entries").fetchall()
    done = threading.Timer(10 * ledger_file._RETRY_MS / 1000, reader.close)
    done.start()
    filled.charge(third, "r", {})
    done.join()
    assert len(filled.charges()) == 5


@pytest.mark.parametrize(
    "name",
    ["it's", 'a"b', "a b", "a?mode=ro#x", "%41", "a\nb", "a;b", "*", "é", "\udcff", "-l", "$(x)"],
    ids=ascii,
)
def test_unusual_file_names_work(tmp_path, name, third):
    ledger = Ledger.create(tmp_path / name, Decimal(1))
    ledger.charge(third, "r", {})
    assert ledger.verify() == []
    assert sorted(f.name for f in tmp_path.iterdir()) == sorted([name, f"{name}.key", f"{name}.pub"])


@pytest.mark.parametrize(("number", "is_raised"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_a_file_system_that_cannot_flush_folders_is_not_an_error(tmp_path, monkeypatch, number, is_raised):
    def fail(_):
        raise OSError(number, "no")

    monkeypatch.setattr(ledger_file.os, "fsync", fail)
    if is_raised:
        with pytest.raises(OSError, match="no"):
            ledger_file.flush(tmp_path)
    else:
        ledger_file.flush(tmp_path)
