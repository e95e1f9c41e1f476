"""Tampering with a ledger is detected and does no harm."""

import random
import sqlite3
from fractions import Fraction

import pytest

from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import LedgerError


def test_triggers_refuse_changes(filled):
    database = sqlite3.connect(filled.path)
    for statement in ("UPDATE entries SET body = ''", "DELETE FROM entries", "DELETE FROM head"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
    database.close()
    assert filled.verify() == []


def recompute(database):
    """Do what a careful forger without the key can do: compute a consistent chain over the changed rows."""
    from phsafe.privacy.ledger_chain import _hash, _message

    before = ""
    rows = database.execute("SELECT number, body FROM entries ORDER BY number").fetchall()
    for number, body in rows:
        before = _hash(_message(number, before, body if isinstance(body, str) else body.decode("latin-1")))
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
    "the head's signature": "UPDATE head SET signature = 'ü'",
    "a signature": "UPDATE entries SET signature = 'ü' WHERE number = 3",
    "another entry's signature": """UPDATE entries SET signature = (SELECT signature FROM entries WHERE number = 2)
                                    WHERE number = 3""",
    "a row's type": "UPDATE entries SET body = x'ff00' WHERE number = 2",
}


def tamper(ledger, tampering, careful):
    """Change a ledger with its triggers removed, then restore the triggers."""
    from phsafe.privacy.ledger_chain import TRIGGERS

    database = sqlite3.connect(ledger.path)
    for name in TRIGGERS:
        database.execute(f"DROP TRIGGER {name}")
    database.executescript(TAMPERINGS[tampering])
    if careful:
        recompute(database)
    for statement in TRIGGERS.values():
        database.execute(statement)
    database.commit()
    database.close()


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_tampering_is_detected(filled, tampering, careful):
    tamper(filled, tampering, careful and tampering not in ("a hash", "the count"))
    assert filled.verify() != []
    with pytest.raises(LedgerError):
        filled.charge(Loss("zcdp", Fraction(1, 100), Fraction(2, 100)), "r", {})


@pytest.mark.parametrize(
    ("tampering", "words"),
    [
        ("a row in the middle", "entry 2 is missing"),
        ("the first row", "the first entry, with the cap, is missing"),
        ("a row", "entry 2 was changed or moved"),
        ("the cap", "the cap or the privacy definition was changed or moved"),
        ("the head", "the head, which records the number of entries, is missing"),
    ],
)
def test_the_first_break_is_named(filled, tampering, words):
    tamper(filled, tampering, careful=False)
    assert words in filled.verify()


def test_details_that_json_cannot_represent_are_refused(filled):
    """Other programs could not read such an entry."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        filled.charge(Loss("zcdp", Fraction(0), Fraction(0)), "r", {"x": float("nan")})
    assert len(filled.charges()) == 4


def test_missing_triggers_and_loose_permissions_are_detected(filled):
    filled.path.chmod(0o644)
    (problem,) = filled.verify()
    assert problem.startswith("every user of this machine can read or change the ledger; set its mode to 600")
    for mode in (0o660, 0o640, 0o600):
        filled.path.chmod(mode)
        assert filled.verify() == []
    database = sqlite3.connect(filled.path)
    database.execute("DROP TRIGGER no_update_of_entries")
    database.close()
    assert filled.verify() == ["the triggers that keep the ledger append-only were removed or changed"]


HOSTILE = {
    "an amount that exhausts memory": '{"unbounded":"1e999999999","bounded":"1"',
    "an amount below 0": '{"unbounded":"-1","bounded":"1"',
    "an amount as a JSON number": '{"unbounded":1,"bounded":1',
    "amounts that are not numbers": '{"unbounded":"1/0","bounded":"nan"',
    "a million digits": '{"unbounded":"' + "1" * 10**6 + '","bounded":"1"',
    "terminal control sequences": '{"release_id":"\\u001b[2J","unbounded":"1","bounded":"1"',
    "details that are not an object": '{"details":[],"unbounded":"1","bounded":"1"',
    "deep nesting": "[" * 100_000,
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_entries_count_as_damage_and_do_no_harm(filled, case, third):
    rest = (
        ',"kind":"charge","time":"","version":"","user":"","host":"","release_id":"","definition":"zcdp",'
        '"population":null,"states":null,"details":{},"fingerprint":null}'
    )
    start = HOSTILE[case]
    given = [part.partition('"')[0] for part in start.split('"')[1::2]]
    fields = [f for f in rest.strip(",}").split(",") if f.partition(":")[0].strip('"') not in given]
    body = start if case == "deep nesting" else f"{start},{','.join(fields)}}}"
    database = sqlite3.connect(filled.path)
    database.execute("INSERT INTO entries VALUES (5, ?, 'x', 'x')", [body])
    database.commit()
    database.close()
    with pytest.raises(LedgerError, match="an entry can't be read"):
        filled.read()
    assert filled.verify() != []
    with pytest.raises(LedgerError, match="nothing was charged"):
        filled.charge(third, "r", {})


def test_a_view_in_place_of_a_table_is_not_queried(filled, third):
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS number, i, i FROM n"
    database = sqlite3.connect(filled.path)
    database.executescript(f"ALTER TABLE entries RENAME TO old; CREATE VIEW entries AS {endless}")
    database.close()
    for call in (filled.read, lambda: filled.charge(third, "r", {})):
        with pytest.raises(LedgerError, match="not those of a ledger"):
            call()
    assert "not those of a ledger" in filled.verify()[0]


@pytest.mark.parametrize("seed", range(5))
def test_torn_writes_are_detected_or_do_no_harm(filled, seed, third):
    """Truncated, zeroed or scrambled anywhere: the entries are unchanged, or the ledger is refused with one message."""
    rng, content = random.Random(seed), filled.path.read_bytes()
    before = filled.read()
    for _ in range(40):
        offset, torn = rng.randrange(len(content)), bytearray(content)
        damage = rng.choice(["cut", "zeros", "noise"])
        size = rng.choice([1, 512, 4096])
        torn[offset : None if damage == "cut" else offset + size] = {
            "cut": b"",
            "zeros": bytes(min(size, len(content) - offset)),
            "noise": rng.randbytes(min(size, len(content) - offset)),
        }[damage]
        filled.path.write_bytes(torn)
        try:
            filled.check(third)
            assert filled.read() == before
        except LedgerError as error:
            assert len(error.reasons) == 1
    filled.path.write_bytes(content)
    assert filled.verify() == []


def test_an_older_copy_is_detected_by_a_noted_head(filled, third):
    old = filled.path.read_bytes()
    head = filled.charge(third, "latest", {}).hash
    assert filled.verify(head) == []
    filled.path.write_bytes(old)
    assert filled.verify() == [], "an older copy is consistent in itself"
    assert "older copy" in filled.verify(head)[0]
