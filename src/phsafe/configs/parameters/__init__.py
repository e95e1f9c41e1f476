"""The parameters of the 2020 release, as in the production config files."""

from __future__ import annotations

import json
from decimal import Decimal
from importlib.resources import files
from typing import Any


def parameters_2020(run: str = "us") -> dict[str, Any]:
    """The 2020 config document of the United States ("us") or Puerto Rico ("pr"), with exact decimals.

    >>> parameters_2020()["tau"]["PH3"]
    6
    """
    text = files("phsafe.configs.parameters").joinpath(f"{run}.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return document
