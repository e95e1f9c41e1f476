"""The noise has the claimed distribution and calibration, and only planned measurements can be made.

Each statistical test uses a fixed number of draws and has a false-alarm rate of one in a million, `FALSE_ALARM`.
"""

import math
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from phsafe.configs.config import Config
from phsafe.configs.grid import level_rows
from phsafe.errors import ConfigError
from phsafe.privacy import mechanism
from phsafe.privacy.accountant import account_of, plan
from phsafe.privacy.mechanism import MechanismError, expected_noise, make_noise, noise_of, open_session
from phsafe.privacy_math.sensitivity import MODES, of

EXAMPLES = Path(__file__).parents[2] / "examples"
US = Config.load(EXAMPLES / "us.json")
PR = Config.load(EXAMPLES / "pr.json")
FALSE_ALARM = 1e-6
DRAWS = 100_000


def zeros(config):
    return {
        (m.tabulation.name, m.level.key): np.zeros(len(level_rows(config, m.tabulation, m.level)), dtype=np.int64)
        for m in config.measurements()
    }


def variants(config):
    return [replace(config.with_sensitivity(mode), privacy=privacy) for mode in MODES for privacy in ("zcdp", "puredp")]


# --- the claimed distribution -----------------------------------------------------------------------------------


def pmf(definition, scale, x):
    """The probabilities of the integers x, computed from the definition of the distribution."""
    x = np.asarray(x, dtype=float)
    far = np.arange(-math.ceil(40 * scale) - 40, math.ceil(40 * scale) + 41).astype(float)

    def weight(y):
        return np.exp(-(y**2) / (2 * scale**2)) if definition == "zcdp" else np.exp(-np.abs(y) / scale)

    return weight(x) / weight(far).sum()


def p_value(definition, scale, draws):
    """Chi-square test over at most 16 bins of similar probability, combined with a variance test (Bonferroni)."""
    reach = max(int(np.abs(draws).max()), math.ceil(20 * scale)) + 1
    x = np.arange(-reach, reach + 1)
    p = pmf(definition, scale, x)
    bins = np.minimum((np.cumsum(p) - p / 2) * 16, 15.999).astype(int)
    _, bins = np.unique(bins, return_inverse=True)
    expected = np.bincount(bins, weights=p) * len(draws)
    observed = np.bincount(bins[np.asarray(draws) + reach], minlength=len(expected))
    few = expected < 10
    if few.any():  # merge tiny bins into the largest one
        largest = int(np.argmax(expected))
        for i in np.flatnonzero(few):
            expected[largest] += expected[i]
            observed[largest] += observed[i]
        expected, observed = expected[~few], observed[~few]
    chi = stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1)
    second, fourth = ((p * x.astype(float) ** k).sum() for k in (2, 4))
    z = (np.mean(np.square(draws, dtype=float)) - second) / math.sqrt((fourth - second**2) / len(draws))
    return 2 * min(chi, 2 * stats.norm.sf(abs(z)))


SCALES = [0.45, 0.8, 11.0, 121.58222272310974, 5_000.0]


@pytest.mark.parametrize("definition", ["zcdp", "puredp"])
@pytest.mark.parametrize("scale", SCALES)
def test_draws_fit_the_claimed_scale_and_not_one_three_percent_off(definition, scale):
    draws = np.array(make_noise(definition, DRAWS, scale)([0] * DRAWS))
    assert p_value(definition, scale, draws) > FALSE_ALARM
    for off in (0.97, 1.03):
        assert p_value(definition, scale * off, draws) < FALSE_ALARM
    # Successive draws are independent: their correlation is normal with variance 1/n.
    if draws.std() > 0:
        r = np.corrcoef(draws[1:], draws[:-1])[0, 1]
        assert 2 * stats.norm.sf(abs(r) * math.sqrt(DRAWS - 1)) > FALSE_ALARM


def test_residuals_of_whole_runs_have_the_reported_variances():
    """Claim C6, end to end: squared residuals divided by the reported σ², over ten runs, level by level."""
    counts = {key: np.arange(len(v)) * 1000 for key, v in zeros(US).items()}
    squares = {key: [] for key in counts}
    for _ in range(10):
        session = open_session(US, counts)
        for m in US.measurements():
            key = (m.tabulation.name, m.level.key)
            residuals = np.array(session.measure(m)) - counts[key]
            squares[key].extend(residuals.astype(float) ** 2 / noise_of(US, m)[0].variance)
    for key, values in squares.items():
        tail = stats.chi2.sf(sum(values), len(values)), stats.chi2.cdf(sum(values), len(values))
        # σ is above 10 at every level, where the squares of a discrete Gaussian are chi-square to many digits.
        assert 2 * min(tail) > FALSE_ALARM, key
    everything = np.concatenate([np.array(v) for v in squares.values()])
    assert len(everything) > 100_000
    assert 0.97 < everything.mean() < 1.03


# --- calibration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", variants(US) + variants(PR))
def test_the_scale_is_the_smallest_that_the_map_accepts(config):
    for m in config.measurements():
        blocks = config.blocks(m.tabulation, m.level)
        assert sum(block.share for block in blocks) == 1
        for block, noise in zip(blocks, noise_of(config, m), strict=True):
            budget, _ = block.delta.loss(config.privacy, block.share * Fraction(m.budget))
            distance = block.delta.distance(config.privacy)
            sensitivity = distance if config.privacy == "zcdp" else int(distance)

            def loss(scale, sensitivity=sensitivity):
                return Fraction(make_noise(config.privacy, 3, scale).map(sensitivity))

            assert loss(noise.scale) <= budget < loss(math.nextafter(noise.scale, 0)) * (1 + Fraction(1, 2**52))
        assert noise_of(config, m) == expected_noise(config, m), "budgets report the noise that releases use"


@pytest.mark.parametrize("config", [c for c in variants(US) if c.privacy == "zcdp"])
def test_variances_match_the_formulas(config):
    for m in config.measurements():
        tau, rho = config.tau.get(m.tabulation.name), Fraction(m.budget)
        gate = m.level.iteration_level.is_total and m.tabulation.name in ("PH1_num", "PH1_denom", "PH4", "PH5_denom")
        tight = Fraction(1 if tau is None else tau**2, 2 if gate else 1)
        k = {
            "published": 2 if tau is None else 2 * (tau + 1) ** 2,
            "tight": tight,
            "tight-bounded": 2 * tight,
            "structured": Fraction(1, 2) if gate and m.tabulation.name == "PH1_num" else tight,
        }[config.sensitivity]
        noises = noise_of(config, m)
        ks = [k]
        if len(noises) == 2:  # PH3: three cells of Δ = 1 and four of Δ² = 2τ², with their shares of ρ.
            share = Fraction("0.0926")
            assert float(share) == pytest.approx(3**0.5 / (3**0.5 + (4 * 2 * tau**2) ** 0.5), abs=5e-5)
            ks = [Fraction(1, 2) / share, k / (1 - share)]
        for noise, factor in zip(noises, ks, strict=True):
            variance = Fraction(noise.variance)
            assert factor / rho * (1 - Fraction(1, 10**15)) <= variance <= factor / rho * (1 + Fraction(1, 10**14))
            assert Fraction(noise.scale) ** 2 >= factor / rho, "never less noise than the exact formula"


def test_geometric_scale_and_variance():
    config = replace(PR, privacy="puredp")
    m = config.measurements()[0]
    (noise,) = noise_of(config, m)
    b = 22 / float(m.budget)
    assert noise.distribution == "Two-Sided Geometric"
    assert noise.scale == pytest.approx(b, rel=1e-14)
    assert noise.variance == pytest.approx(2 * math.exp(-1 / b) / (1 - math.exp(-1 / b)) ** 2, rel=1e-9)


@given(
    st.sampled_from(variants(PR)),
    st.integers(1, 99_999),
    st.decimals("1e-10", "1e6", allow_nan=False, places=15),
)
@settings(max_examples=60, deadline=None)
def test_exact_arithmetic_agrees_with_the_privacy_map(config, tau, budget):
    config = replace(config, tau=dict.fromkeys(config.tau, tau))
    for m in (
        config.measurements()[0],
        next(m for m in config.measurements() if not m.tabulation.counts_persons),
    ):
        changed = m._replace(budget=Decimal(budget))
        assert noise_of(config, changed) == expected_noise(config, changed)


def test_noise_that_would_not_fit_64_bits_is_refused_based_on_the_config():
    config = replace(PR, tau=dict.fromkeys(PR.tau, 99_999))
    tiny = config.measurements()[0]._replace(budget=Decimal("1e-28"))
    with pytest.raises(ConfigError, match="64-bit"):
        noise_of(config, tiny)
    with pytest.raises(ConfigError, match="above 0"):
        noise_of(config, tiny._replace(budget=Decimal(0)))


def test_the_largest_scale_is_two_to_the_52():
    """Pure DP for units: b = 2/ε, which is exact in floats if ε is a power of two."""
    config = replace(PR, privacy="puredp")
    unit = next(m for m in config.measurements() if not m.tabulation.counts_persons)
    assert noise_of(config, unit._replace(budget=Decimal(2.0**-51)))[0].scale == 2.0**52
    with pytest.raises(ConfigError, match="64-bit"):
        noise_of(config, unit._replace(budget=Decimal(2.0**-51 * (1 - 2.0**-52))))


def test_large_counts_do_not_wrap_around():
    """OpenDP adds in arbitrary precision and clamps the sum, so no count changes its sign."""
    top = 2**63 - 1
    draws = make_noise("zcdp", 2000, 1000.0)([top] * 1000 + [-top] * 1000)
    assert min(draws[:1000]) > top - 20_000
    assert max(draws[1000:]) < -top + 20_000


# --- composition ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", variants(PR))
def test_the_total_is_the_configs_loss(config):
    session = open_session(config, zeros(config))
    for m in config.measurements():
        session.measure(m)
    account = plan(config)
    assert session.total == pytest.approx(float(sum(event.loss.unbounded for event in account.events)), rel=1e-12)
    assert session.total >= float(account.total.unbounded) * (1 - 1e-12), "joint accounting states less, never more"
    assert account_of(config, session.completed) == plan(config), "the measurements are those of the plan"


def test_a_second_measurement_is_refused():
    session = open_session(PR, zeros(PR))
    m = PR.measurements()[0]
    assert len(session.measure(m)) == 2
    with pytest.raises(MechanismError, match="already measured"):
        session.measure(m)
    assert len(session.completed) == 1


def test_a_measurement_over_budget_is_refused_and_the_planned_one_still_works():
    session = open_session(PR, zeros(PR))
    m = PR.measurements()[0]
    over_budget = m._replace(budget=m.budget * (1 + Decimal("1e-12")))
    with pytest.raises(MechanismError, match="cost more"):
        session.measure(over_budget)
    session.measure(m)


def test_a_measurement_outside_the_plan_is_refused():
    session = open_session(PR, zeros(PR))
    nation = next(m for m in US.measurements() if m.level.key == "usa_*")
    with pytest.raises(MechanismError, match="not in the plan"):
        session.measure(nation)


def test_opendp_itself_refuses_measurements_beyond_the_plan(monkeypatch):
    """Not only our own check: the composition is used up once every planned level has its slot."""
    dp, runs = mechanism.opendp(), []
    make = dp.combinators.make_adaptive_composition

    def spy(*arguments, **options):
        composition = make(*arguments, **options)

        class Spy:
            map = composition.map

            def __call__(self, data):
                runs.append((composition, composition(data)))
                return runs[-1][1]

        return Spy() if not runs and len(options["d_mids"]) > 1 else composition

    monkeypatch.setattr(dp.combinators, "make_adaptive_composition", spy)
    open_session(PR, zeros(PR))
    composition, run = runs[0]
    extra = mechanism._tabulation(
        (composition.input_domain, composition.input_metric), "zcdp", ("PH1_num", "state_*"), 2, 22.0
    ) >> make_noise("zcdp", 2, 1e9)
    with pytest.raises(dp.mod.OpenDPException, match="out of queries"):
        run(extra)


def test_stability_of_a_tabulation():
    dp = mechanism.opendp()
    space = (dp.domains.user_domain("exact counts", lambda _: True), dp.metrics.user_distance("person records"))
    step = mechanism._tabulation(space, "zcdp", ("a", "b"), 2, of("persons", 10, "tight").distance("zcdp"))
    assert Fraction(step.map(1)) ** 2 >= 200
    assert Fraction(step.map(2)) ** 2 >= 800
    assert step.map(1) == pytest.approx(10 * math.sqrt(2), rel=1e-15)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda v: v[:-1],
        lambda v: v.astype(float),
        lambda v: np.append(v, 0),
        lambda v: v.reshape(1, -1),
    ],
)
def test_counts_that_do_not_match_the_grid_are_refused(spoil):
    counts = zeros(PR)
    key = next(iter(counts))
    refusal = r"PH1_num, state_\*: expected 2 integers, one for each row of the grid"
    with pytest.raises(MechanismError, match=refusal):
        open_session(PR, {**counts, key: spoil(counts[key])})
    del counts[key]
    with pytest.raises(MechanismError, match=refusal):
        open_session(PR, counts)


# --- randomness -------------------------------------------------------------------------------------------------

FORK = """
import os, sys
from phsafe.privacy.mechanism import make_noise
noise = make_noise("zcdp", 30, 1000.0)
noise([0] * 30)
for _ in range(2):
    if os.fork() == 0:
        os.write(1, (repr(noise([0] * 30)) + chr(10)).encode())
        os._exit(0)
os.wait(), os.wait()
print(noise([0] * 30))
"""


def test_runs_and_forked_processes_draw_different_noise():
    a, b = (open_session(PR, zeros(PR)).measure(PR.measurements()[4]) for _ in range(2))
    assert a != b or len(a) < 3
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=60)
    lines = done.stdout.split("\n")[:-1]
    assert len(lines) == 3
    assert len(set(lines)) == 3


def test_a_full_us_run_draws_noise_for_every_row():
    session = open_session(US, zeros(US))
    assert sum(len(session.measure(m)) for m in US.measurements()) == 10_608


def test_an_unexpected_privacy_map_stops_the_run():
    with pytest.raises(MechanismError, match="does not accept the expected noise; nothing was measured"):
        mechanism._smallest_scale(1.0, lambda scale: False)
    assert mechanism._smallest_scale(1.0, lambda scale: scale >= 1.0) == 1.0
    up, down = math.nextafter(1.0, math.inf), math.nextafter(1.0, 0.0)
    assert mechanism._smallest_scale(1.0, lambda scale: scale >= up) == up
    assert mechanism._smallest_scale(1.0, lambda scale: scale >= down) == down
    # Above 1 a float step is 2^(−52), below 1 it is 2^(−53); the search gives up after 64 steps.
    far = 1 + 64 * 2.0**-52
    assert mechanism._smallest_scale(1.0, lambda scale: scale >= far) == far
    with pytest.raises(MechanismError, match="nothing was measured"):
        mechanism._smallest_scale(1.0, lambda scale: scale > far)
    assert mechanism._smallest_scale(1.0, lambda scale: True) == 1 - 64 * 2.0**-53
