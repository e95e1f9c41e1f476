"""The private key signs, the public key verifies, and a group can share both without the world."""

import json
import os
import sqlite3
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from phsafe.privacy import ledger_chain, ledger_file, ledger_keys
from phsafe.privacy.ledger import Ledger, LedgerError


def test_signatures_can_be_verified_with_any_ed25519_library(filled):
    """Number, previous hash and body, as the documentation gives them."""
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(ledger_file.public_path(filled.path).read_text()))
    with ledger_file.connection(filled.path) as database:
        rows = ledger_chain.rows(database)
    before = ""
    for row in rows:
        message = f"entry\n{row.number}\n{before}\n{row.body}".encode()
        public.verify(bytes.fromhex(row.signature), message)
        before = row.hash
    assert filled.read().opening.fields["public_key"] == public.public_bytes_raw().hex()


def test_a_signature_is_bound_to_its_message_and_key():
    first, second = ledger_keys.Signer(bytes(32)), ledger_keys.Signer(bytes([1]) * 32)
    signature = first.sign(b"message")
    assert ledger_keys.is_signed(first.public_key, signature, b"message")
    for key, signed, message in (
        (second.public_key, signature, b"message"),
        (first.public_key, signature, b"messagf"),
        (first.public_key, signature[:-2], b"message"),
        (first.public_key, "no hex", b"message"),
        (first.public_key, None, b"message"),
        ("00", signature, b"message"),
    ):
        assert not ledger_keys.is_signed(key, signed, message)


def test_derived_secrets_differ_by_purpose_and_key():
    first, second = ledger_keys.Signer(bytes(32)), ledger_keys.Signer(bytes([1]) * 32)
    secrets = {first.derive(b"a"), first.derive(b"b"), second.derive(b"a"), bytes(32)}
    assert len(secrets) == 4 and {len(secret) for secret in secrets} == {32}
    assert first.derive(b"a") == first.derive(b"a")


def test_the_public_key_alone_verifies_and_another_one_does_not(filled, tmp_path):
    key, public = ledger_file.key_path(filled.path), ledger_file.public_path(filled.path)
    key.unlink()
    elsewhere = public.rename(tmp_path / "published.pub")
    assert filled.verify(public_key=elsewhere) == []
    assert "public key is missing" in filled.verify()[0]
    other = Ledger.create(tmp_path / "other", 1).path
    wrong = filled.verify(public_key=ledger_file.public_path(other))
    assert "the public key is that of another ledger" in wrong[0] and len(wrong) == 2


def test_an_entry_signed_with_another_key_is_detected(filled, tmp_path, third):
    """As by someone who can write the ledger and has a key, but not this one."""
    signer = ledger_keys.load_signer(Ledger.create(tmp_path / "other", 1).path)
    with ledger_file.connection(filled.path) as database, ledger_file.transaction(database, "IMMEDIATE"):
        last = ledger_chain.rows(database)[-1]
        ledger_chain.append(database, signer, last, {"kind": "amend", "cap": "1000"})
    assert filled.verify()[0].startswith("entry 5 is not signed with the ledger's key")
    with pytest.raises(LedgerError, match="tampered with: entry 5 is not signed"):
        filled.charge(third, "r", {})


@pytest.mark.parametrize(("mode", "is_accepted"), [(0o600, True), (0o640, True), (0o660, True), (0o604, False)])
def test_a_group_may_share_the_key_and_the_world_may_not(filled, third, mode, is_accepted):
    ledger_file.key_path(filled.path).chmod(mode)
    if is_accepted:
        filled.charge(third, "r", {})
    else:
        with pytest.raises(LedgerError, match="every user of this machine can read or change the key"):
            filled.charge(third, "r", {})


def test_a_journal_takes_the_mode_of_the_ledger(filled):
    """So that every member of a group can roll back what another one left."""
    filled.path.chmod(0o660)
    with ledger_file.connection(filled.path) as database:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO entries VALUES (5, '', '', '')")
        journal = filled.path.with_name(f"{filled.path.name}-journal")
        assert stat.S_IMODE(journal.stat().st_mode) == 0o660
        database.execute("ROLLBACK")


def test_a_public_key_that_belongs_to_another_is_not_adopted(path):
    ledger_file.public_path(path).write_text("00" * 32)
    temporary = path.with_name(f".{path.name}.0123456789abcdef.new")
    temporary.touch()  # a creation that was cut short
    with pytest.raises(LedgerError, match="expected the public key of"):
        Ledger.create(path, 1)


def test_another_user_with_the_public_key_verifies_and_cannot_charge(filled, powerless):
    """File modes stop another user from reading the private key; nothing that they need is in it."""
    os.chown(filled.path, -1, os.getgid())
    filled.path.chmod(0o640)
    code = """
import os, sys
from fractions import Fraction
from pathlib import Path
from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger
Path(sys.argv[1] + ".key").chmod(0)
ledger = Ledger(sys.argv[1])
print(ledger.verify(), len(ledger.charges()))
ledger.charge(Loss("zcdp", Fraction(1, 9), Fraction(1)), "r", {})
"""
    output = powerless(code, filled.path)
    assert output.startswith("[] 4\n")
    assert "can't read the ledger's key: Permission denied" in output


def test_the_holder_of_the_key_can_rewrite_a_ledger_but_not_a_noted_head(filled):
    """What a ledger on its owner's disk can't do: the threat model promises no more."""
    noted = filled.read().head
    signer = ledger_keys.load_signer(filled.path)
    with ledger_file.connection(filled.path) as database:
        opening = json.loads(ledger_chain.rows(database)[0].body)
    filled.path.unlink()
    filled.path.touch(mode=0o600)
    database = sqlite3.connect(filled.path, isolation_level=None)
    ledger_chain.start(database, signer, opening | {"cap": "1000"})
    database.close()
    assert (filled.read().cap, filled.read().spent, filled.verify()) == (1000, 0, [])
    assert "the head given is not in this ledger" in filled.verify(noted)[0]
