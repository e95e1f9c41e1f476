"""`phsafe ledger`: every decision is an entry with a name and a reason, shown, and verified with the public key."""

import json
from fractions import Fraction

import pytest

from phsafe.privacy.accountant import Loss
from phsafe.privacy.ledger import Ledger

LOSS = Loss("zcdp", Fraction(1, 2), Fraction(1))


@pytest.fixture
def ledger(tmp_path):
    made = Ledger.create(tmp_path / "a.ledger", 2, population="a [bold]town[/]", states=("44",), max_rho=1)
    made.charge(LOSS, "finished-release", {"config": {"state_filter": ["44"]}, "settings": {"skip_validation": True}})
    made.finish("finished-release", {"manifest.json": "0" * 64})
    made.charge(Loss("puredp", Fraction(1, 2), Fraction(1)), "torn-release", {})
    return made


def test_init_makes_what_was_asked_for(phsafe_command, tmp_path):
    file = tmp_path / "us.ledger"
    words = ("--population", "the US, 2020", "--states", "us", "--max-rho", "3")
    done = phsafe_command("ledger", "init", file, "--cap", "2.5", *words)
    assert (done.code, done.out) == (0, "")
    assert f"Created the ledger {file} with a cap of 2.5 ρ for the US, 2020. Keep {file}.key beside it" in done.err
    now = Ledger.open(file).read()
    assert (now.cap, now.population, len(now.states), now.max_rho) == (Fraction(5, 2), "the US, 2020", 51, 3)
    again = phsafe_command("ledger", "init", file, "--cap", "2.5")
    assert again.code == 1 and "a ledger is never replaced" in again.err


def test_init_supersedes_with_a_reason_only(phsafe_command, ledger):
    for words in (["--supersede"], ["--reason", "why"], ["--by", "me"]):
        assert phsafe_command("ledger", "init", ledger.path, "--cap", "3", *words).code == 2
    assert len(ledger.charges()) == 2
    done = phsafe_command("ledger", "init", ledger.path, "--cap", "3", "--supersede", "--reason", "new keys")
    assert done.code == 0
    assert "It supersedes a.ledger.superseded-1, which had spent 0.625 ρ: carry it over with" in done.err
    shown = phsafe_command("ledger", "show", ledger.path)
    assert "Supersedes, reason: new keys" in shown.out and "named by the first release" in shown.out


def test_spending_in_another_unit_is_not_carried_over_as_it_is(phsafe_command, tmp_path):
    old = Ledger.create(tmp_path / "l", 1, "puredp")
    old.charge(Loss("puredp", Fraction(1, 2), Fraction(1)), "r", {})
    done = phsafe_command("ledger", "init", old.path, "--cap", "3", "--supersede", "--reason", "one unit")
    assert "which had spent 0.5 ε.\n" in done.err


def test_a_lost_ledger_has_an_unknown_spending(phsafe_command, ledger):
    ledger.path.unlink()
    done = phsafe_command("ledger", "init", ledger.path, "--cap", "3", "--supersede", "--reason", "lost", "--by", "me")
    assert done.code == 0 and "which had spent an unknown amount." in done.err
    assert Ledger(ledger.path).read().opening.fields["supersedes"]["by"] == "me"


@pytest.mark.parametrize(
    "words",
    [
        ["init", "new", "--cap", "0"],
        ["init", "new", "--cap", "1", "--privacy", "laplace"],
        ["init", "new", "--cap", "1", "--max-rho", "x"],
        ["amend", "a.ledger", "--by", "me", "--reason", "why"],
        ["amend", "a.ledger", "--cap", "3", "--by", "me"],
        ["amend", "a.ledger", "--cap", "3", "--reason", "why"],
        ["import", "a.ledger", "--amount", "-1", "--by", "me", "--reason", "why"],
        ["import", "a.ledger", "--amount", "0.1"],
        ["note", "a.ledger", "--by", "me"],
    ],
)
def test_a_wrong_command_exits_with_2_and_adds_nothing(phsafe_command, ledger, monkeypatch, words):
    monkeypatch.chdir(ledger.path.parent)
    head = ledger.read().head
    assert phsafe_command("ledger", *words).code == 2
    assert ledger.read().head == head and not (ledger.path.parent / "new").exists()


def test_unknown_states_are_refused(phsafe_command, tmp_path):
    done = phsafe_command("ledger", "init", tmp_path / "l", "--cap", "1", "--states", "44,99")
    assert done.code == 1 and "expected states as FIPS codes, postal codes or names, got '99'" in done.err
    assert list(tmp_path.iterdir()) == []


def test_decisions_are_shown(phsafe_command, ledger):
    by = ("--by", "the board")
    for words, words_after in (
        (["amend", "--cap", "3.5", "--reason", "corrected [red]data"], "2.875 of 3.5"),
        (["amend", "--max-rho", "2", "--reason", "a larger one"], "2.875 of 3.5"),
        (["import", "--amount", "0.25", "--reason", "the old system"], "2.625 of 3.5"),
        (["import", "--amount", "0.125", "--bounded", "0.25", "--reason", "an older one"], "2.5 of 3.5"),
        (["note", "--text", "audited"], "2.5 of 3.5"),
    ):
        done = phsafe_command("ledger", words[0], ledger.path, *words[1:], *by)
        assert (done.code, done.out) == (0, "")
        assert f"{words_after} ρ is left, head {ledger.read().head}" in done.err
    shown = phsafe_command("ledger", "show", ledger.path).out
    text = " ".join(shown.replace("│", " ").split())
    for part in ("corrected", "[red]data", "audited", "the old", "charged, not", "finished-rel", "amend", "import"):
        assert part in text, part
    assert "Population: a [bold]town[/]" in shown
    assert "Cap 3.5 ρ, spent 1 (bounded: 2.75), left 2.5" in shown
    assert ledger.verify() == []


def test_show_as_json(phsafe_command, ledger):
    ledger.amend("me", "why", cap=Fraction(5, 2))
    shown = json.loads(phsafe_command("ledger", "show", ledger.path, "--json").out)
    assert (shown["format"], shown["privacy"], shown["cap"], shown["spent"], shown["left"]) == (
        2, "zcdp", 2.5, 0.625, 1.875,
    )  # fmt: skip
    assert (shown["population"], shown["states"], shown["max_rho"]) == ("a [bold]town[/]", ["44"], 1)
    assert shown["head"] == ledger.read().head
    first, second, third = shown["entries"]
    assert [entry["kind"] for entry in shown["entries"]] == ["charge", "charge", "amend"]
    assert (first["release_id"], first["loss"], first["loss_bounded"], first["finished"]) == (
        "finished-release", 0.5, 1, True,
    )  # fmt: skip
    assert first["files"] == {"manifest.json": "0" * 64}
    assert (second["loss"], second["stated"], second["finished"]) == (
        0.125, {"privacy": "puredp", "loss": 0.5, "loss_bounded": 1}, False,
    )  # fmt: skip
    assert (third["cap"], third["by"], third["reason"]) == (2.5, "me", "why")
    for entry in shown["entries"]:
        assert entry["user"] and entry["host"] and len(entry["hash"]) == 64


def test_verify_needs_the_public_key_only(phsafe_command, ledger, tmp_path):
    for name in ("a.ledger.key", "a.ledger.pub"):
        (tmp_path / name).rename(tmp_path / f"moved.{name}")
    missing = phsafe_command("ledger", "verify", ledger.path)
    assert missing.code == 1 and "the ledger's public key is missing" in missing.err
    head = ledger.read().head
    words = ("--public-key", tmp_path / "moved.a.ledger.pub", "--head", head)
    done = phsafe_command("ledger", "verify", ledger.path, *words)
    assert (done.code, done.err) == (0, f"{ledger.path}: complete and unmodified, releases: 2, head {head}\n")
    assert phsafe_command("ledger", "show", ledger.path).code == 0
    secret = phsafe_command("ledger", "verify", ledger.path, "--public-key", tmp_path / "moved.a.ledger.key")
    assert secret.code == 1, "the private key is not the public one"
    rolled_back = phsafe_command("ledger", "verify", ledger.path, *words[:2], "--head", "0" * 64)
    assert rolled_back.code == 1 and "it is an older copy, or another ledger" in rolled_back.err
