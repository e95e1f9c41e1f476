"""Shares of a small nation, within loose limits; docs/how-to/synth.md has tight ones for a million households."""

from itertools import pairwise

import pytest

from phsafe.synthetic import synth
from phsafe.synthetic.chunk_plan import plan, share_out
from phsafe.synthetic.fidelity import TAILS, compare, table
from phsafe.synthetic.state_profiles import nation, profiles


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("shares") / "us", 100_000, jobs=1)


def test_the_nation_matches_its_target_shares(folder):
    for share in compare(folder):
        # Rare shares amount to a few dozen households here.
        allowed = 60 if share.name in TAILS else 12 if share.target < 1 else 3
        assert abs(share.error) < allowed, share


def test_each_state_matches_its_own_profile(folder):
    for state in ("06", "48"):
        errors = {share.name: share.error for share in compare(folder, state) if share.target > 5}
        assert max(map(abs, errors.values())) < 2, errors


def test_the_comparison_is_a_markdown_table(folder):
    text = table(compare(folder))
    assert text.startswith("| share | target | generated | error |")
    assert "more than 10 people" in text


def test_the_state_profiles_add_up_to_the_nation():
    assert len(profiles()) == 52
    assert nation()["HHT_1"] == pytest.approx(46.71, rel=0.002)
    assert nation().population == 331_449_281


def test_households_are_allocated_to_states_proportionally():
    chunks = plan(1_000_000, tuple(sorted(set(profiles()) - {"72"})), 0)
    assert sum(chunk.households for chunk in chunks) == 1_000_000
    california = sum(chunk.households for chunk in chunks if chunk.state == "06")
    assert california == pytest.approx(1_000_000 * 39_538_223 / 2.7085 / 134_964_552, rel=0.001)
    assert share_out(1, [1, 2]) == [0, 1]


def test_chunks_are_contiguous():
    chunks = plan(3_000_000, ("06", "15"), 0)
    assert len({chunk.state for chunk in chunks}) == 2
    for before, after in pairwise(chunks):
        assert before.first_mafid + before.units == after.first_mafid
        if before.state == after.state:
            assert before.first_position + before.units == after.first_position
