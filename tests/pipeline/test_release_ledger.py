"""A release is charged to a ledger that exists; a new one is made only on request, for the population of the config."""

import shutil
from fractions import Fraction

import polars as pl
import pytest

import phsafe
from phsafe.errors import PHSafeError
from phsafe.privacy.ledger import Ledger, LedgerError

LOSS = Fraction("1.226649")


@pytest.fixture
def release(pr_document, small, tmp_path):
    def run(name="out", document=pr_document, ledger="pr.ledger", **options):
        return phsafe.release(
            document, small, tmp_path / name, ledger=tmp_path / ledger, skip_validation=True, **options
        )

    return run


def test_a_missing_ledger_is_refused_with_the_command_to_type(release, tmp_path):
    path = tmp_path / "a population.legder"
    with pytest.raises(LedgerError) as refused:
        release(ledger=path.name)
    assert f"type phsafe ledger init '{path}' --cap 1.226649" in str(refused.value)
    assert list(tmp_path.iterdir()) == [], "and nothing was made"


def test_copied_data_get_no_ledger_of_their_own(pr_document, small, tmp_path):
    for name in ("people", "copy"):
        shutil.copytree(small, tmp_path / name)
    phsafe.release(pr_document, tmp_path / "people", tmp_path / "out", new_ledger=True, skip_validation=True)
    with pytest.raises(LedgerError, match="there is no ledger at this path"):
        phsafe.release(pr_document, tmp_path / "copy", tmp_path / "out2", skip_validation=True)
    assert not (tmp_path / "copy.ledger").exists()


def test_a_new_ledger_has_the_loss_as_its_cap_and_names_the_population(release, tmp_path):
    release(new_ledger=True)
    now = Ledger.open(tmp_path / "pr.ledger").read()
    assert (now.cap, now.left, now.population, now.states, now.max_rho) == (LOSS, 0, "Puerto Rico", ("72",), None)
    (charge,) = now.charges
    assert charge.entry.fields["population"] == "Puerto Rico" and charge.entry.fields["states"] == ("72",)


def test_a_new_ledger_as_described(release, tmp_path):
    release(new_ledger=True, cap=3, population="PR 2020", max_rho=2)
    now = Ledger.open(tmp_path / "pr.ledger").read()
    assert (now.cap, now.population, now.max_rho) == (3, "PR 2020", 2)
    release("again")
    with pytest.raises(LedgerError, match="expected no ledger yet, got one; leave out --new-ledger"):
        release("third", new_ledger=True, cap=3, population="PR 2020", max_rho=2)
    assert len(Ledger.open(tmp_path / "pr.ledger").charges()) == 2


def test_a_ledger_of_a_refused_run_serves_its_repetition(release, tmp_path, pr_document, small_frames):
    """With the same options, and only while nothing was charged."""
    broken = small_frames | {"units": pl.concat([small_frames["units"], small_frames["units"].head(1)])}
    with pytest.raises(PHSafeError, match="failed validation"):
        phsafe.release(pr_document, broken, tmp_path / "out", ledger=tmp_path / "pr.ledger", new_ledger=True, cap=2)
    with pytest.raises(LedgerError, match="expected no ledger yet"):
        release(new_ledger=True, cap=3)
    release(new_ledger=True, cap=2)
    assert len(Ledger.open(tmp_path / "pr.ledger").charges()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cap": 3}, "describe a new ledger: add --new-ledger"),
        ({"population": "PR"}, "describe a new ledger: add --new-ledger"),
        ({"new_ledger": True, "cap": Fraction(1)}, r"expected a cap of at least 1\.226649 ρ, .*, got 1"),
        ({"new_ledger": True, "max_rho": 1}, r"at most ρ = 1, got 1\.226649"),
    ],
)
def test_a_refused_request_makes_nothing(release, tmp_path, options, words):
    with pytest.raises(LedgerError, match=words):
        release(**options)
    assert list(tmp_path.iterdir()) == []


def test_an_absurd_budget_is_refused_before_a_ledger_is_made(release, tmp_path, pr_document):
    pr_document["privacy_budget"]["PH2"]["state_*"] = 10**6
    with pytest.raises(LedgerError, match="at most ρ = 10, got 1000001"):
        release(new_ledger=True)
    assert list(tmp_path.iterdir()) == []
    Ledger.create(tmp_path / "pr.ledger", 10**7)
    with pytest.raises(LedgerError, match="at most ρ = 10"):
        release()
    release(max_rho=10**7)


def test_a_lost_ledger_is_not_replaced(release, tmp_path):
    release(new_ledger=True)
    (tmp_path / "pr.ledger").unlink()
    for options in ({}, {"new_ledger": True}):
        with pytest.raises(LedgerError, match="the ledger that was here was moved or deleted; restore it"):
            release("again", **options)


def test_puerto_rico_and_the_states_have_ledgers_of_their_own(release, us, us_document, tmp_path):
    release(new_ledger=True, cap=9)
    stages = []
    with pytest.raises(LedgerError, match=r"is for Puerto Rico \(states 72\)"):
        release("us", us_document, progress=lambda stage, _: stages.append(stage))
    assert stages == [], "before anything is counted"
    release("us", us_document, "us.ledger", new_ledger=True, cap=9)
    with pytest.raises(LedgerError, match="also about 72; use a separate ledger for each population"):
        release("pr", ledger="us.ledger")
    release("part", us_document | {"state_filter": ["44", "56"]}, "us.ledger")


def test_the_population_of_a_config_is_that_of_its_ledger(release, pr_document, tmp_path):
    named = pr_document | {"population": "Puerto Rico, 2020 Census"}
    with pytest.raises(LedgerError, match="expected the population of the config, Puerto Rico, 2020 Census, got PR"):
        release(document=named, new_ledger=True, population="PR")
    made = release(document=named, new_ledger=True, cap=9)
    assert made.config.population == made.manifest["config"]["population"] == "Puerto Rico, 2020 Census"
    release("without", pr_document)
    with pytest.raises(LedgerError, match="the config is for Puerto Rico, 2030 Census"):
        release("other", pr_document | {"population": "Puerto Rico, 2030 Census"})


def test_both_privacy_definitions_share_a_ledger(release, pr_document, tmp_path):
    pure = pr_document | {"privacy_defn": "puredp"}
    release(document=pure, new_ledger=True, cap=3)
    release("gaussian")
    now = Ledger.open(tmp_path / "pr.ledger").read()
    assert (now.definition, now.spent) == ("zcdp", LOSS**2 / 2 + LOSS)
    assert now.spent_bounded == (2 * LOSS) ** 2 / 2 + 2 * LOSS
    Ledger.create(tmp_path / "pure.ledger", 9, "puredp")
    release("pure", pure, "pure.ledger")
    with pytest.raises(LedgerError, match="a zCDP release doesn't satisfy pure DP for any ε"):
        release("refused", ledger="pure.ledger")
