"""The config that docs/accuracy.md runs: the parameters of 2020 for Rhode Island, without tenure."""

from decimal import Decimal

import phsafe
from phsafe.parameters import parameters_2020

from .conftest import ROOT


def test_it_is_the_parameters_of_2020():
    document = parameters_2020() | {"state_filter": ["44"]}
    for name in ("PH7", "PH8_denom"):
        document["privacy_budget"][name] = dict.fromkeys(document["privacy_budget"][name], Decimal(0))
    assert phsafe.Config.load(ROOT / "examples" / "acs-ri.json") == phsafe.Config.load(document)
