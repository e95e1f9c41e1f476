"""Decisions are entries like all others: amendments, imports, notes, finished releases and superseded ledgers."""

import json
import shutil
import sqlite3
from contextlib import closing
from decimal import Decimal
from fractions import Fraction

import pytest

from phsafe.privacy import ledger_chain, ledger_file
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger, LedgerError

WHY = {"by": "the board", "reason": "the disk was lost"}


def test_an_amended_cap_stays_on_record_with_its_reason(filled, third):
    """Four of six thirds are spent."""
    small = Loss("zcdp", Fraction(3), Fraction(6))
    with pytest.raises(LedgerError, match="raise the cap with a reason"):
        filled.charge(small, "r", {})
    filled.amend("the board", "corrected data", cap=Decimal("4.5"))
    assert filled.read().cap == Fraction(9, 2)
    filled.charge(small, "r", {})
    filled.amend("the board", "no more", cap=filled.read().spent)
    assert filled.read().left == 0
    amendments = filled.read().of("amend")
    assert [(e.fields["cap"], e.fields["by"], e.fields["reason"]) for e in amendments] == [
        (Fraction(9, 2), "the board", "corrected data"),
        (Fraction(13, 3), "the board", "no more"),
    ]
    assert filled.verify() == []


def test_amendments_that_make_no_sense_are_refused(filled):
    for options, words in (
        ({"cap": 1}, "expected a cap of at least 4/3, which is spent already"),
        ({}, "got neither"),
        ({"cap": 0}, "above 0"),
        ({"cap": -1}, "above 0"),
        ({"max_rho": 0}, "above 0"),
    ):
        with pytest.raises(LedgerError, match=words):
            filled.amend("me", "why", **options)
    assert filled.read().of("amend") == []


def test_a_forged_amendment_is_detected(filled, third):
    """Write access to the file without the key is not enough to raise the cap, not even with a consistent chain."""
    database = sqlite3.connect(filled.path)
    number, body, last, signature = database.execute("SELECT * FROM entries ORDER BY number DESC").fetchone()
    forged = {k: v for k, v in json.loads(body).items() if k in ("time", "version", "user", "host")}
    forged |= {"kind": "amend", "cap": "1000", "max_rho": None, "by": "the board", "reason": "approved"}
    text = json.dumps(forged, sort_keys=True, separators=(",", ":"))
    digest = ledger_chain._hash(ledger_chain._message(number + 1, last, text))
    database.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (number + 1, text, digest, signature))
    database.execute("UPDATE head SET entries = ?", (number + 2,))
    database.commit()
    database.close()
    assert filled.read().cap == 1000, "it reads like an amendment"
    assert filled.verify()[0].startswith("entry 5 is not signed with the ledger's key")
    with pytest.raises(LedgerError, match="tampered with"):
        filled.charge(third, "r", {})


@pytest.mark.parametrize(("definition", "most"), [("zcdp", 4), ("puredp", 2)])
def test_imported_spending_counts(path, definition, most):
    ledger = Ledger.create(path, 2, definition)
    ledger.import_spending(Decimal("0.5"), "me", "the system of 2020")
    ledger.import_spending(1, "me", "the system of 2021", bounded=Decimal("1.5"))
    now = ledger.read()
    assert (now.spent, now.spent_bounded) == (Fraction(3, 2), most * Fraction(1, 2) + Fraction(3, 2))
    with pytest.raises(LedgerError, match=r"expected at most 0\.5 ., the amount left, got 1; raise the cap first"):
        ledger.import_spending(1, "me", "too much")
    ledger.import_spending(now.left, "me", "the rest")
    for amounts in ((0, None), (-1, None), (1, 0)):
        with pytest.raises(LedgerError, match="expected an amount above 0"):
            ledger.import_spending(amounts[0], "me", "why", bounded=amounts[1])
    assert len(ledger.read().of("import")) == 3


def test_a_finished_release_has_the_hashes_of_its_files(filled, third):
    files = {"manifest.json": "0" * 64, "PH1_num/ph1_num.csv": "1" * 64}
    filled.finish("release-2", files)
    assert [charge.files for charge in filled.charges()] == [None, None, files, None]
    for name in ("release-2", "unknown"):
        with pytest.raises(LedgerError, match=f"charged and not finished, got {name}"):
            filled.finish(name, files)
    assert filled.read().spent == 4 * third.unbounded, "finishing costs nothing"
    assert filled.verify() == []


def test_notes_are_signed_entries(filled):
    entry = filled.note("me", "audited")
    assert (entry.number, entry.kind, entry.fields) == (5, "note", {"by": "me", "text": "audited"})
    assert filled.read().head == entry.hash and filled.verify() == []


def test_a_superseded_ledger_is_kept_closed_and_named(filled, third):
    old_head = filled.read().head
    new = Ledger.create(filled.path, 7, supersede=WHY)
    kept = Ledger(filled.path.with_name(f"{filled.path.name}.superseded-1"))
    assert kept.verify() == [] and len(kept.charges()) == 4
    assert kept.verify(old_head) == []
    named = new.read().opening.fields["supersedes"]
    assert named == {"file": kept.path.name, "privacy": "zcdp", "head": kept.read().head, "spent": "4/3", **WHY}
    assert (new.read().cap, new.read().spent, new.verify()) == (7, 0, [])
    with pytest.raises(LedgerError, match=r"superseded by the board \(the disk was lost\); use the new one"):
        kept.charge(third, "r", {})
    assert new.read().opening.fields["public_key"] != kept.read().opening.fields["public_key"]


def test_superseding_twice_keeps_both(filled):
    Ledger.create(filled.path, 7, supersede=WHY)
    last = Ledger.create(filled.path, 8, supersede=WHY)
    assert last.read().opening.fields["supersedes"]["file"].endswith(".superseded-2")
    assert sorted(path.name.removeprefix(filled.path.name) for path in filled.path.parent.iterdir()) == sorted(
        f"{number}{ending}" for number in ("", ".superseded-1", ".superseded-2") for ending in ("", ".key", ".pub")
    )


def test_the_ledger_that_was_set_aside_is_named_after_a_gap_too(filled):
    Ledger.create(filled.path, 7, supersede=WHY)
    second = Ledger.create(filled.path, 8, supersede=WHY)
    second.import_spending(3, "me", "earlier")
    for file in filled.path.parent.glob(f"{filled.path.name}.superseded-1*"):
        file.unlink()
    named = Ledger.create(filled.path, 9, supersede=WHY).read().opening.fields["supersedes"]
    assert (named["file"], named["spent"]) == (f"{filled.path.name}.superseded-1", "3")


def test_a_ledger_that_is_in_use_is_not_superseded(filled, monkeypatch):
    """It would stay open under another name, beside the new one, and both would accept charges."""
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.0)
    with closing(sqlite3.connect(filled.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="another process has locked the ledger"):
            Ledger.create(filled.path, 7, supersede=WHY)
    assert len(filled.charges()) == 4 and filled.verify() == []


def test_superseding_goes_on_where_it_was_cut_short(filled):
    """Killed after any of the renames: what is there is set aside, and the old ledger is still named."""
    old = filled.path.with_name(f"{filled.path.name}.superseded-1")
    head = filled.read().head
    moves = [(ledger_file.key_path, True), (ledger_file.public_path, True), (lambda path: path, False)]
    for i in range(len(moves)):
        copy = filled.path.parent / f"copy{i}" / filled.path.name
        copy.parent.mkdir()
        for file in filled.path.parent.glob(f"{filled.path.name}*"):
            shutil.copy2(file, copy.parent)
        for name, _ in moves[: i + 1]:
            name(copy).rename(name(copy.with_name(old.name)))
        with pytest.raises(LedgerError, match="never replaced" if copy.exists() else "was moved or deleted"):
            Ledger.create(copy, 7)
        named = Ledger.create(copy, 7, supersede=WHY).read().opening.fields["supersedes"]
        assert (named["file"], named["head"]) == (old.name, head)


def test_a_lost_or_damaged_ledger_can_be_superseded(path):
    Ledger.create(path, 1)
    path.unlink()
    lost = Ledger.create(path, 2, supersede=WHY).read().opening.fields["supersedes"]
    assert (lost["head"], lost["spent"]) == (None, None)
    path.write_bytes(b"damaged")
    damaged = Ledger.create(path, 3, supersede=WHY).read().opening.fields["supersedes"]
    assert (damaged["file"], damaged["head"]) == (f"{path.name}.superseded-2", None)
    assert path.with_name(damaged["file"]).read_bytes() == b"damaged"
    database = sqlite3.connect(path)
    database.executescript('DROP TRIGGER no_update_of_entries; UPDATE entries SET body = \'{"definition":"x"}\'')
    database.close()
    assert Ledger.create(path, 4, supersede=WHY).read().opening.fields["supersedes"]["privacy"] is None


def test_an_old_journal_is_never_applied_to_a_new_ledger(path):
    """A killed process leaves it; SQLite would apply it to any ledger of that name."""
    Ledger.create(path, 1)
    journal = path.with_name(f"{path.name}-journal")
    for file in (path, ledger_file.key_path(path), ledger_file.public_path(path)):
        file.unlink()
    journal.write_bytes(b"old")
    with pytest.raises(LedgerError, match="the ledger that was here was moved or deleted"):
        Ledger.create(path, 2)
    assert Ledger.create(path, 2, supersede=WHY).verify() == []
    assert path.with_name(f"{path.name}.superseded-1-journal").read_bytes() == b"old"
    assert Ledger.open(path).read().cap == 2


def test_a_ledger_that_cannot_be_renamed_is_not_superseded(filled, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(ledger_file.Path, "rename", refuse)
        with pytest.raises(LedgerError, match="can't rename the ledger that was here: Permission denied"):
            Ledger.create(filled.path, 3, supersede=WHY)
    assert len(filled.charges()) == 4 and filled.verify() == []


def test_nothing_to_supersede(path):
    with pytest.raises(LedgerError, match="expected a ledger to supersede, got neither a ledger nor its key"):
        Ledger.create(path, 1, supersede=WHY)
    assert list(path.parent.iterdir()) == []


FORMAT_1 = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), entries INTEGER NOT NULL, mac TEXT NOT NULL);
INSERT INTO entries VALUES (0, '{"format":1,"definition":"zcdp","cap":"3"}', 'h0');
INSERT INTO entries VALUES (1, '{"release_id":"a","unbounded":"1.25","bounded":"2.5"}', 'h1');
INSERT INTO entries VALUES (2, '{"release_id":"b","unbounded":"0.5","bounded":"1"}', 'h2');
"""


def test_a_superseded_ledger_counts_pure_dp_charges_in_its_own_unit(path):
    for definition, spent in (("zcdp", "0.125"), ("puredp", "0.5")):
        ledger = Ledger.create(path.with_name(definition), 1, definition)
        ledger.charge(Loss("puredp", Fraction(1, 2), Fraction(1)), "r", {})
        assert Fraction(spent) == ledger.read().spent
        named = Ledger.create(ledger.path, 1, supersede=WHY).read().opening.fields["supersedes"]
        assert (named["privacy"], named["spent"]) == (definition, spent)


def test_a_ledger_of_format_1_is_refused_with_the_way_to_go_on(path, third):
    database = sqlite3.connect(path)
    database.executescript(f"PRAGMA application_id = {ledger_file.APPLICATION_ID}; {FORMAT_1}")
    database.close()
    path.chmod(0o600)
    old = Ledger(path)
    words = rf"got format 1, whose entries are not signed; .* phsafe ledger init {path} --cap RHO --supersede"
    for call in (old.read, lambda: Ledger.open(path)):
        with pytest.raises(LedgerError, match=words):
            call()
    assert "got format 1" in old.verify()[0]
    named = Ledger.create(path, 3, supersede=WHY).read().opening.fields["supersedes"]
    assert (named["head"], named["spent"]) == ("h2", "1.75")
    Ledger(path).import_spending(Decimal(named["spent"]), "me", "format 1")
    assert Ledger(path).read().left == Fraction(5, 4)


IMPOSSIBLE = {
    "a second opening": lambda body: body | {"kind": "open"},
    "an unknown kind": lambda body: {"kind": "refund"},
    "a field too many": lambda body: {"kind": "note", "by": "x", "text": "y", "more": "z"},
    "a field too few": lambda body: {"kind": "note", "by": "x"},
    "finishing what was not charged": lambda body: {"kind": "finish", "release_id": "unknown", "files": {}},
    "a hash that is none": lambda body: {"kind": "finish", "release_id": "release-0", "files": {"a": "b"}},
    "a release charged twice": lambda body: {"kind": "charge"},
    "a zCDP charge on a pure-DP ledger": lambda body: {"kind": "charge", "release_id": "new", "definition": "zcdp"},
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_signed_entries_that_make_no_sense_count_as_damage(path, third, case):
    """The holder of the key can sign anything; it is still not believed."""
    from phsafe.privacy import ledger_keys, ledger_policy

    ledger = Ledger.create(path, 2, "puredp" if "pure" in case else "zcdp")
    loss = Loss("puredp", Fraction(1, 3), Fraction(2, 3)) if "pure" in case else third
    ledger.charge(loss, "release-0", {})
    with ledger_file.connection(path) as database, ledger_file.transaction(database, "IMMEDIATE"):
        rows = ledger_chain.rows(database)
        made = IMPOSSIBLE[case](json.loads(rows[0].body))
        if made["kind"] == "charge":
            made = json.loads(rows[1].body) | made
        body = made if made["kind"] == "open" else made | ledger_policy.common_fields()
        ledger_chain.append(database, ledger_keys.load_signer(path), rows[-1], body)
    with pytest.raises(LedgerError, match="an entry can't be read"):
        ledger.read()
    assert "an entry can't be read" in ledger.verify()[0]


def test_finishing_twice_counts_as_damage(filled):
    from phsafe.privacy import ledger_keys

    filled.finish("release-0", {"a": "0" * 64})
    with ledger_file.connection(filled.path) as database, ledger_file.transaction(database, "IMMEDIATE"):
        last = ledger_chain.rows(database)[-1]
        ledger_chain.append(database, ledger_keys.load_signer(filled.path), last, json.loads(last.body))
    with pytest.raises(LedgerError, match="an entry can't be read"):
        filled.read()
