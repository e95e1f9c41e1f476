"""In expressions and draws, two tables agree on the people whom both count; the one that knows them better decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from phsafe.estimation.agreeing_tables import agreeing
from phsafe.estimation.beyond_threshold import everybody
from phsafe.estimation.everybody_ties import tied
from phsafe.estimation.fit import fit
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.published_lines import sum_rows
from phsafe.pipeline.scan import Settings, count
from phsafe.synthetic import synth

STATES = ("15", "44", "56")
#: Households are repeated as often, so that thresholds matter more than noise.
TIMES = 300
OWN = [4, 5, 6, 7]


@pytest.fixture(scope="module")
def agreed(tmp_path_factory, make_config, noisy):
    """A function from thresholds to tied estimates, those that agree, and the measurements."""
    folder = synth(tmp_path_factory.mktemp("records") / "data", 60_000, STATES, seed=8)

    def make(**tau):
        config = make_config(STATES)
        config = replace(config, tau=config.tau | tau)
        counts = count(config, folder, Settings(skip_validation=True))
        release = measured(config, noisy(config, {key: TIMES * kept for key, kept in counts.items()}, seed=1))
        loose = tied(release, everybody(release, fit(release)))
        return release, loose, agreeing(loose)

    return make


def own_children(release, level):
    """Own children of every group in PH3 and in PH6, as rows over all cells."""
    positions = release.blocks["PH3", level].positions(OWN), release.blocks["PH6", level].positions()
    return [sum_rows(list(rows), len(release.counts)) for rows in positions]


@pytest.mark.parametrize(("tau", "better"), [({"PH3": 3}, 1), ({"PH6": 3}, 0)])
def test_the_table_with_the_higher_threshold_decides(agreed, tau, better):
    release, loose, one = agreed(**tau)
    for level in ("usa_*", "state_*"):
        rows = own_children(release, level)
        known, less_known = rows[better], rows[1 - better]
        before, after = np.sqrt(loose.variance(known)), np.sqrt(one.variance(known))
        assert after == pytest.approx(before, rel=1e-6)
        assert known @ one.estimates == pytest.approx(known @ loose.estimates, rel=1e-9)
        assert less_known @ one.estimates == pytest.approx(known @ one.estimates, abs=1e-3)
        assert np.sqrt(one.variance(less_known)) == pytest.approx(after, rel=1e-4)
        assert np.max(np.sqrt(one.variance(less_known - known))) < 1e-4 * after.min()


def test_other_tables_stay_as_they_are(agreed):
    release, loose, one = agreed()
    rows = [
        release.blocks[name, level].positions().ravel() for name in ("PH4", "PH7") for level in ("usa_*", "state_A-G")
    ]
    chosen = sparse.eye_array(len(release.counts), format="csr")[np.concatenate(rows)]
    assert chosen @ one.estimates == pytest.approx(chosen @ loose.estimates)
    assert one.variance(chosen) == pytest.approx(loose.variance(chosen))


def test_identities_hold_and_draws_have_the_covariance(agreed):
    release, _, one = agreed(PH3=4)
    states, nation = (own_children(release, level) for level in ("state_*", "usa_*"))
    sums = sparse.vstack([*states, *nation], format="csr")
    covariance = one.covariance(sums)
    assert np.diagonal(covariance) == pytest.approx(one.variance(sums), rel=1e-5)
    added = sparse.csr_array(np.ones((1, len(STATES)))) @ states[1] - nation[1]
    assert (added @ one.estimates)[0] == pytest.approx(0, abs=1e-3)
    assert np.sqrt(one.variance(added))[0] < 1e-4 * np.sqrt(one.variance(nation[1]))[0]
    rng = np.random.default_rng(3)
    draws = one.draws(lambda size: rng.standard_normal((size, 1500)))
    assert np.var(sums @ draws, axis=1) == pytest.approx(one.variance(sums), rel=0.2)
    assert states[0] @ draws == pytest.approx(states[1] @ draws, rel=1e-9)
