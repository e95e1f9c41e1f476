"""The independent method against brute force: rejection sampling of the 2020 model, a million draws per group."""

import numpy as np
import pytest

from phsafe.estimation.densities import NORMAL
from phsafe.estimation.independent_model import Independent
from phsafe.estimation.measurement_vector import measured
from phsafe.estimation.table_lines import counted, ratios

DRAWS = 1_000_000
GROUPS = 30


def brute_noise(rng, density, variance, terms, size):
    if density is NORMAL:
        return rng.normal(0, np.sqrt(variance), size)
    scale = density.scale(np.array(variance / terms))
    return sum(rng.laplace(0, scale, size) for _ in range(terms))


def chosen(sizes):
    """The smallest groups, and a selection of all sizes."""
    order = np.argsort(sizes, kind="stable")
    return np.unique([*order[: GROUPS // 2], *order[np.linspace(0, len(order) - 1, GROUPS).astype(int)]])[:GROUPS]


def agrees(values, mean, low, high):
    """Assert that mean and quantiles agree with the values, up to sampling error and that of the fixed sequence."""
    n, spread = len(values), values.std()
    assert abs(values.mean() - mean) < spread * (4.5 / np.sqrt(n) + 0.005)
    for bound, share in ((low, 0.05), (high, 0.95)):
        assert abs((values <= bound).mean() - share) < 4.5 * np.sqrt(0.0475 / n) + 0.003


@pytest.fixture(scope="module", params=["zcdp", "puredp"])
def release(request, make_config, noisy, counts):
    config = make_config(privacy_defn=request.param)
    return measured(config, noisy(config, counts(config), seed=7))


@pytest.mark.parametrize("name", ["PH1", "PH5", "PH8"])
def test_averages_match_rejection_sampling(release, name):
    rng = np.random.default_rng(1)
    config, checked = release.config, 0
    table = next(t for t in config.catalog.tables if t.name == name)
    for ratio in ratios(config.catalog, table):
        level = next(x for x in config.levels_of(ratio.denominator) if x.key == "state_A-G")
        above, below = release.block(ratio.numerator, level), release.block(ratio.denominator, level)
        per = below.positions(ratio.per)
        point, low, high, _ = Independent(release).averages(ratio, above, below)
        units = release.counts[per].sum(axis=1)
        rows = chosen(units)
        for row in rows if release.density is NORMAL else rows[::4]:
            parts = [
                release.counts[above.positions(part)[row]].sum()
                + brute_noise(
                    rng, release.density, release.variances[above.positions(part)[row]].sum(), len(part), DRAWS
                )
                for part in ratio.parts
            ]
            d = units[row] + brute_noise(rng, release.density, release.variances[per[row]].sum(), len(ratio.per), DRAWS)
            total, tau = sum(parts), config.tau[ratio.numerator.name]
            possible = (np.min(parts, axis=0) >= 0) & (d >= 1) & (total >= ratio.at_least * d) & (total <= tau * d)
            if possible.sum() < 300:
                continue  # too few accepted draws; covered by the test by numerical integration
            checked += 1
            for i, (_, line) in enumerate(ratio.lines):
                values = sum(parts[p] for p in line)[possible] / d[possible]
                agrees(values, point[row, i], low[row, i], high[row, i])
    assert checked >= (15 if release.density is NORMAL else 5)


def test_counts_match_rejection_sampling(release):
    rng = np.random.default_rng(2)
    config = release.config
    for name in ("PH2", "PH3", "PH7"):
        table = next(t for t in config.catalog.tables if t.name == name)
        block = release.of([counted(table)])[-2]
        estimate, lower, upper, _ = Independent(release).counts(table, block)
        positions = block.positions()
        for row in chosen(release.counts[positions].sum(axis=1))[:4]:
            cells = []
            for position in positions[row]:
                draws = release.counts[position] + brute_noise(
                    rng, release.density, release.variances[position], 1, DRAWS
                )
                cells.append(draws[draws >= 0])
            n = min(map(len, cells))
            if n < 300:
                continue
            means = np.array([cell.mean() for cell in cells])
            errors = np.array([4.5 * cell.std() / np.sqrt(len(cell)) + 0.51 for cell in cells])
            numbers = {number: i for i, number in enumerate(block.tabulation.cells)}
            for i, line in enumerate(table.shell):
                if not line.of:
                    cell = numbers[line.number]
                    assert abs(estimate[row, i] - means[cell]) < errors[cell]
            total = np.sum([cell[:n] for cell in cells], axis=0)
            assert estimate[row, 0] == pytest.approx(sum(estimate[row, [n - 1 for n in numbers]]))
            slack = 4.5 * np.sqrt(0.0475 / n) + 0.003
            assert (total <= lower[row, 0]).mean() < 0.05 + slack
            assert (total <= lower[row, 0] + 1).mean() > 0.05 - slack
            assert (total <= upper[row, 0]).mean() > 0.95 - slack
            assert (total <= upper[row, 0] - 1).mean() < 0.95 + slack


def test_averages_match_numerical_integration():
    """Noisy counts far below zero, where rejection sampling accepts almost nothing."""
    from phsafe.estimation.averages import Bounds, Unknowns, posterior

    sigma = 41.34
    for people, units in [
        (-6 * sigma, 10.0),
        (20.0, -6 * sigma),
        (-5 * sigma, -5 * sigma),
        (-100.0, 4 * sigma),
    ]:
        unknowns = Unknowns(
            np.array([[people]]),
            np.full((1, 1, 1), sigma**2),
            np.array([units]),
            np.array([sigma**2]),
            (1, 1),
        )
        point, low, high, _ = (a[0, 0] for a in posterior(NORMAL, unknowns, Bounds(1, 10), [(0,)])[0])
        d = np.geomspace(1, 600, 1000)[:, None]
        r = (1 + 9 * (np.arange(4000) + 0.5) / 4000)[None, :]
        log_density = -0.5 * ((r * d - people) ** 2 + (d - units) ** 2) / sigma**2
        weight = np.exp(log_density - log_density.max()) * d * d  # d² from d(N, D) = d·dr·dd and dd = d·d(log d)
        marginal = weight.sum(axis=0) / weight.sum()
        share = np.cumsum(marginal) - marginal / 2
        spread = np.sqrt((marginal * r[0] ** 2).sum() - (marginal * r[0]).sum() ** 2)
        assert point == pytest.approx((marginal * r[0]).sum(), abs=0.02 * spread)
        assert np.interp(low, r[0], share) == pytest.approx(0.05, abs=0.005)
        assert np.interp(high, r[0], share) == pytest.approx(0.95, abs=0.005)
