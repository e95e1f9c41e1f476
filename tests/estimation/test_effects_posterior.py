"""The posterior of effects equals dense Gaussian conditioning, for measurements of any states and effects."""

import numpy as np
import pytest
from scipy import sparse, stats

from phsafe.estimation.effects_posterior import EffectsPosterior, Measurements, Observation, UniversesPosterior

EFFECTS = 40
#: Effects by what measures them: one state each (three states of ten), several states, the nation alone, nothing.
OWN, SHARED, NATION_ONLY = np.arange(30), np.arange(30, 34), np.arange(34, 38)


def measured(rng, states, rows=7):
    """Random measurements of some states ("" is the nation), in two observations with their rows mixed."""
    found = []
    for half in range(2):
        codes = [state for state in states for _ in range(rows)]
        loads = np.zeros((len(codes), EFFECTS))
        for row, state in enumerate(codes):
            columns = np.concatenate([OWN, NATION_ONLY]) if state == "" else OWN[10 * int(state) : 10 * int(state) + 10]
            chosen = np.concatenate([rng.choice(columns, 6, replace=False), rng.choice(SHARED, 2, replace=False)])
            loads[row, chosen] = rng.normal(size=8)
        order = rng.permutation(len(codes))
        width = EFFECTS - 2 * half  # Observations may know fewer effects than exist now.
        values = rng.normal(size=(3, len(codes)))
        found.append(
            Observation(
                values[0],
                sparse.csr_array(loads[order, :width]),
                values[1],
                np.exp(values[2]),
                [codes[i] for i in order],
            )
        )
    return found


@pytest.fixture(
    params=[("", "0", "1", "2"), ("0", "2"), ("",), ("1",), ()],
    ids=["nation and states", "two states", "nation", "one state", "nothing"],
)
def case(request):
    """A posterior; its prior, and the loadings, gaps and noise of its measurements as dense arrays."""
    rng = np.random.default_rng(3)
    prior = np.exp(rng.normal(size=EFFECTS))
    prior[[3, 31, 35, 39]] = 0
    given = Measurements(measured(rng, request.param), EFFECTS)
    return EffectsPosterior(prior, given), prior, given.loads.toarray(), given.gaps, given.noise


@pytest.fixture
def sums():
    rng = np.random.default_rng(4)
    return sparse.csr_array(rng.normal(size=(12, EFFECTS)) * (rng.random((12, EFFECTS)) < 0.3))


def conditioned(prior, loads, noise):
    """The covariance of effects given measurements, and the matrix that maps gaps to their mean."""
    covariance = loads @ np.diag(prior) @ loads.T + np.diag(noise)
    gain = np.diag(prior) @ loads.T @ np.linalg.inv(covariance)
    return np.diag(prior) - gain @ loads @ np.diag(prior), gain


def test_moments_are_those_of_dense_conditioning(case, sums):
    posterior, prior, loads, gaps, noise = case
    after, gain = conditioned(prior, loads, noise)
    dense = sums.toarray()
    assert posterior.mean == pytest.approx(gain @ gaps, abs=1e-10)
    assert posterior.variance(sums) == pytest.approx(np.diag(dense @ after @ dense.T), abs=1e-10)
    assert posterior.covariance(sums) == pytest.approx(dense @ after @ dense.T, abs=1e-10)
    assert posterior.covariance_with(sums) == pytest.approx(after @ dense.T, abs=1e-10)
    if len(gaps):
        assert np.abs(gain @ gaps).max() > 0.1


def test_the_likelihood_is_that_of_the_measurements(case):
    posterior, prior, loads, gaps, noise = case
    expected = 0.0
    if len(gaps):
        normal = stats.multivariate_normal(np.zeros(len(gaps)), loads @ np.diag(prior) @ loads.T + np.diag(noise))
        expected = normal.logpdf(gaps) + len(gaps) / 2 * np.log(2 * np.pi)
    assert posterior.log_likelihood == pytest.approx(expected)


def test_draws_have_the_covariance_of_the_posterior(case, sums):
    posterior = case[0]
    rng = np.random.default_rng(5)
    drawn = sums @ posterior.draws(lambda size: rng.standard_normal((size, 20_000)))
    expected = posterior.covariance(sums)
    assert np.cov(drawn) == pytest.approx(expected, abs=0.06 * np.diag(expected).max())
    assert np.abs(drawn.mean(axis=1)).max() < 0.1


def test_universes_have_no_effects_in_common(case, sums):
    posterior, *_ = case
    prior = np.linspace(1.0, 2.0, 5)
    other = EffectsPosterior(prior, Measurements([], len(prior)))
    both = UniversesPosterior([other, posterior])
    joined = sparse.hstack([sparse.csr_array(np.ones((12, 5))), sums], format="csr")
    assert both.mean[:5] == pytest.approx(0) and both.mean[5:] == pytest.approx(posterior.mean)
    assert both.variance(joined) == pytest.approx(prior.sum() + posterior.variance(sums))
    assert both.covariance(joined) == pytest.approx(prior.sum() + posterior.covariance(sums))
    assert both.covariance_with(joined)[5:] == pytest.approx(posterior.covariance_with(sums))
    assert both.draws(lambda size: np.ones((size, 1))).shape == (45, 1)
    none = UniversesPosterior([])
    assert none.mean.shape == (0,) and none.variance(sparse.csr_array((3, 0))) == pytest.approx(0)
    assert none.covariance_with(sparse.csr_array((3, 0))).shape == (0, 3)
    assert none.draws(lambda size: np.ones((size, 7))).shape == (0, 7)
