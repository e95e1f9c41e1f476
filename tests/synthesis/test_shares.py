"""Shares of a small nation, loosely; docs/synth.md has them tightly at a million households."""

from itertools import pairwise

import pytest

from phsafe.synthesis import synth
from phsafe.synthesis.plan import plan, share_out
from phsafe.synthesis.profile import nation, profiles
from phsafe.synthesis.shares import TAILS, compare, table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return synth(tmp_path_factory.mktemp("shares") / "us", 100_000, jobs=1)


def test_the_nation_has_the_shares_asked_for(folder):
    for share in compare(folder):
        # Rare shares are a few dozen households here.
        allowed = 60 if share.name in TAILS else 12 if share.asked < 1 else 3
        assert abs(share.off) < allowed, share


def test_each_state_has_its_own_profile(folder):
    for state in ("06", "48"):
        off = {share.name: share.off for share in compare(folder, state) if share.asked > 5}
        assert max(map(abs, off.values())) < 2, off


def test_the_comparison_is_a_table(folder):
    text = table(compare(folder))
    assert text.startswith("| share | asked for | made | off |")
    assert "more than 10 people" in text


def test_the_profiles_together_are_the_nation():
    assert len(profiles()) == 52
    assert nation()["HHT_1"] == pytest.approx(46.71, rel=0.002)
    assert nation().population == 331_449_281


def test_households_are_shared_out_in_proportion_to_the_states():
    chunks = plan(1_000_000, tuple(sorted(set(profiles()) - {"72"})), 0)
    assert sum(chunk.households for chunk in chunks) == 1_000_000
    california = sum(chunk.households for chunk in chunks if chunk.state == "06")
    assert california == pytest.approx(1_000_000 * 39_538_223 / 2.7085 / 134_964_552, rel=0.001)
    assert share_out(1, [1, 2]) == [0, 1]


def test_chunks_follow_each_other_without_gaps():
    chunks = plan(3_000_000, ("06", "15"), 0)
    assert len({chunk.state for chunk in chunks}) == 2
    for before, after in pairwise(chunks):
        assert before.first_mafid + before.units == after.first_mafid
        if before.state == after.state:
            assert before.first_position + before.units == after.first_position
