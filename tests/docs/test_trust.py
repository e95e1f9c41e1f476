"""The page of promises covers every claim and every promise of the threat model, with tests that exist."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def trust():
    spec = importlib.util.spec_from_file_location("trust", ROOT / "docs" / "_ext" / "trust.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_claim_belongs_to_a_promise(trust):
    assert set(trust.claims()) == {label for promise in trust.PROMISES for label in promise.claims}


def test_every_promise_has_a_proof_tests_and_a_limit(trust):
    every = set(trust.names())
    for promise in trust.PROMISES:
        assert promise.proof and promise.open
        tests = trust.tests_of(promise)
        assert len(tests) > 3, promise.title
        assert set(tests) <= every, f"{promise.title}: {sorted(set(tests) - every)}"


def test_every_test_of_the_threat_model_supports_a_promise(trust):
    page = (ROOT / "docs" / "explanation" / "threat-model.md").read_text()
    named = set(re.findall(r"`(tests/[\w/.]+::\w+)`", page))
    supporting = {test for promise in trust.PROMISES for test in trust.tests_of(promise)}
    # Their files are about the explorer, the report and inputs, not about what is published.
    others = ("tests/browser/", "tests/explorer/", "tests/reports/", "tests/acs_pums/", "tests/readers/")
    assert len(named) > 50
    assert [
        test
        for test in sorted(named - supporting)
        if not test.startswith((*others, "tests/model/", "tests/engines/", "tests/cli/"))
    ] == []


def test_a_promise_without_a_test_is_an_error(trust):
    promise = trust.PROMISES[0]._replace(tests=("tests/privacy/test_nothing.py::*",))
    with pytest.raises(ValueError, match="expected tests like"):
        trust.tests_of(promise)


def test_the_page_shows_every_promise_with_its_tests(site, trust):
    page = (site / "explanation" / "trust.html").read_text(encoding="utf-8")
    for promise in trust.PROMISES:
        assert f'id="{trust.anchor(promise.title)}"' in page
    assert "kill 9 never loses a charge or damages the ledger" in page
