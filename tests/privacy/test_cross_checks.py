"""Every loss that `phsafe budget` prints agrees with dp-accounting and with OpenDP, which share no code with it.

Checked from the printed noise and sensitivity of each level, for every shipped config, mode and privacy definition.
"""

import json
import math
from decimal import Decimal
from fractions import Fraction

import dp_accounting
import opendp.prelude as dp
import pytest
from dp_accounting import rdp

from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.model.exact_numbers import dumps
from phsafe.privacy.accountant import plan
from phsafe.privacy_math.sensitivity import MODES

dp.enable_features("contrib")
NAMES = ("us", "pr", "us-measured", "pr-measured")
DELTA = 1e-10
#: Fine enough for a relative difference of 3e-4 to the best order.
ORDERS = [1 + 10 ** (i / 200) for i in range(-400, 1600)]
#: Figures are printed as floats, and scales are rounded up to floats.
CLOSE = 1e-9


def printed(phsafe_command, tmp_path, name, mode, definition):
    """The config, and the document that `phsafe budget --json` prints for it."""
    config = Config.load(parameters_2020(name) | {"sensitivity": mode, "privacy_defn": definition})
    file = tmp_path / "config.json"
    file.write_text(dumps(config.to_production()))
    return config, json.loads(phsafe_command("budget", file, "--json").out)


def epsilon_of(events, delta=DELTA):
    accountant = rdp.RdpAccountant(orders=ORDERS)
    for event in events:
        accountant.compose(event)
    return accountant.get_epsilon(delta)


def gaussian(sigma2, sensitivity):
    return dp_accounting.GaussianDpEvent(math.sqrt(sigma2) / float(sensitivity))


def opendp_map(definition, scale, sensitivity):
    """The loss that OpenDP's own proof-carrying measurement states."""
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if definition == "zcdp":
        space = domain, dp.l2_distance(T=float)
        return dp.m.make_gaussian(*space, scale=scale).map(float(sensitivity))
    return dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=scale).map(int(sensitivity))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_zcdp_losses_agree(name, mode, phsafe_command, tmp_path):
    config, document = printed(phsafe_command, tmp_path, name, mode, "zcdp")
    events, all_noise = plan(config).events, []
    assert len(events) == len(document["levels"])
    for event, row in zip(events, document["levels"], strict=True):
        stated = 0.0
        for one in event.blocks:
            delta = one.block.delta.distance("zcdp")
            all_noise.append(gaussian(one.noise.variance, delta))
            stated += opendp_map("zcdp", one.noise.scale, delta)
        # In the mode tight-bounded, a level's budget is twice its loss for a record added or removed.
        loss = float(event.loss.unbounded)
        assert row["rho"] == pytest.approx(loss, rel=CLOSE)
        assert loss * (1 - CLOSE) <= stated <= loss * (1 + CLOSE), "OpenDP: no more than the loss, and no less"
        theirs = epsilon_of(all_noise[-len(event.blocks) :])
        assert epsilon_of([dp_accounting.ZCDpEvent(row["rho"])]) == pytest.approx(theirs, rel=CLOSE * 100)
        if len(event.blocks) == 1:
            from_print = opendp_map("zcdp", math.sqrt(row["sigma2"]), row["sensitivity"])
            kind = "rho_bounded" if mode == "tight-bounded" else "rho"
            assert from_print == pytest.approx(row[kind], rel=1e-6), "from the printed figures alone"
    total = document["total"]
    both = epsilon_of(all_noise)
    if mode == "published":
        assert total["epsilon"] == pytest.approx(both, rel=3e-4)
    assert total["epsilon"] <= both * (1 + CLOSE), "joint accounting never states more than plain composition"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ("us-measured", "pr"))
def test_pure_losses_agree(name, mode, phsafe_command, tmp_path):
    config, document = printed(phsafe_command, tmp_path, name, mode, "puredp")
    events = plan(config).events
    for event in events:
        parts = [
            opendp_map("puredp", one.noise.scale, one.block.delta.distance("puredp")) for one in event.blocks
        ]  # fmt: skip
        assert sum(parts) == pytest.approx(float(event.stated), rel=CLOSE)
        laplace = [dp_accounting.LaplaceDpEvent(1 / part) for part in parts]
        theirs = dp_accounting.pld.PLDAccountant().compose(dp_accounting.ComposedDpEvent(laplace))
        assert theirs.get_epsilon(1e-12) <= float(event.stated) * (1 + 1e-3) + 1e-3
    total = document["total"]
    plain = float(sum(event.stated for event in events))
    assert total["epsilon"] <= plain * (1 + CLOSE)
    if mode == "published":
        assert total["epsilon"] == pytest.approx(plain, rel=CLOSE)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_printed_epsilons_agree_with_both_libraries(name, mode):
    """The ε of the total for both kinds of neighbours, at the δ of manifests and registry entries."""
    total = plan(Config.load(parameters_2020(name) | {"sensitivity": mode})).total
    for rho, ours in ((total.unbounded, total.epsilon()), (total.bounded, total.epsilon_bounded())):
        theirs = epsilon_of([dp_accounting.ZCDpEvent(float(rho))])
        assert theirs * (1 - 3e-4) <= ours <= theirs * (1 + CLOSE)
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
        one = dp.m.make_gaussian(*space, scale=math.sqrt(1 / (2 * float(rho))))
        curve = dp.c.make_zCDP_to_approxDP(one).map(1.0)
        assert curve.epsilon(DELTA) == pytest.approx(ours, rel=1e-6)


def test_a_wrong_loss_is_noticed():
    """A sensitivity of 21 instead of 22, or noise smaller by a millionth, is seen by both libraries."""
    config = Config.load(parameters_2020("us"))
    event = next(e for e in plan(config).events if e.sensitivity == 22)
    one, stated = event.blocks[0], float(event.stated)
    assert opendp_map("zcdp", one.noise.scale, 23) > stated * (1 + CLOSE)
    assert opendp_map("zcdp", one.noise.scale * (1 - 1e-6), 22) > stated * (1 + CLOSE)
    wrong = epsilon_of([gaussian(one.noise.variance * (1 - 1e-6), 22)])
    assert wrong != pytest.approx(epsilon_of([dp_accounting.ZCDpEvent(stated)]), rel=CLOSE * 100)
    assert Fraction(Decimal("0.002619")) == event.stated
