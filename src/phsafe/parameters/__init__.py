"""The parameters of the 2020 run, as the production config files have them."""

from __future__ import annotations

import json
from decimal import Decimal
from importlib.resources import files
from typing import Any


def parameters_2020(run: str = "us") -> dict[str, Any]:
    """The config document of the United States ("us") or Puerto Rico ("pr") run, with exact decimals.

    >>> parameters_2020()["tau"]["PH3"]
    6
    """
    text = files("phsafe.parameters").joinpath(f"{run}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return document
