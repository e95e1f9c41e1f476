"""The config of docs/explanation/accuracy.md: the 2020 parameters for Rhode Island, without the tables on tenure."""

from decimal import Decimal

import phsafe
from phsafe.configs.parameters import parameters_2020

from .conftest import ROOT


def test_example_has_the_2020_parameters():
    document = parameters_2020() | {"state_filter": ["44"]}
    for name in ("PH7", "PH8_denom"):
        document["privacy_budget"][name] = dict.fromkeys(document["privacy_budget"][name], Decimal(0))
    assert phsafe.Config.load(ROOT / "examples" / "acs-ri.json") == phsafe.Config.load(document)
