"""Exact decimals and fractions as text and JSON. Rounding is always up, the safe direction for a loss."""

from __future__ import annotations

import json
import math
import re
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import Any

Exact = int | Decimal | Fraction


def text(value: Exact) -> str:
    """The shortest exact decimal representation of a number, or a fraction if it has none.

    >>> text(Decimal("2.2e-05")), text(Fraction(5, 4)), text(Fraction(2, 3)), text(Fraction(500))
    ('0.000022', '1.25', '2/3', '500')
    """
    fraction = Fraction(value)
    places = _decimal_places(fraction.denominator)
    if places is None:
        return f"{fraction.numerator}/{fraction.denominator}"
    return round_up(fraction, places)


def round_up(value: Exact, places: int) -> str:
    """Round up to `places` decimal places. Losses are displayed this way, so never understated.

    >>> round_up(Fraction(2, 3), 4), round_up(Fraction(-1, 3), 2), round_up(Fraction(1, 2), 1)
    ('0.6667', '-0.33', '0.5')
    """
    scaled = math.ceil(Fraction(value) * 10**places)
    sign, digits = ("-" if scaled < 0 else ""), str(abs(scaled)).rjust(places + 1, "0")
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"


def float_above(value: Fraction) -> float:
    """Round a fraction up to a float.

    >>> Fraction(float_above(Fraction(1, 10))) >= Fraction(1, 10)
    True
    """
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _decimal_places(denominator: int) -> int | None:
    """The number of decimal places of 1/denominator, or None if its expansion is infinite."""
    twos = fives = 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    return max(twos, fives) if denominator == 1 else None


def dumps(document: Any, indent: int | None = 2) -> str:  # noqa: ANN401
    """Write JSON in which decimals and fractions are numbers with all their digits.

    A fraction without a finite decimal representation is written as the smallest float that is not below it.

    >>> dumps({"rho": Decimal("0.000022"), "half": Fraction(1, 2), "n": 3}, indent=None)
    '{"rho": 0.000022, "half": 0.5, "n": 3}'
    """
    # json can write a Decimal only as a float or a string: write it as a uniquely marked string, then unquote it.
    mark = uuid.uuid4().hex

    def digits(value: Any) -> str | float:  # noqa: ANN401
        if not isinstance(value, Decimal | Fraction):
            raise TypeError(f"can't write a {type(value).__name__} as JSON")
        shown = text(value)
        return float_above(Fraction(value)) if "/" in shown else f"{mark}{shown}{mark}"

    encoded = json.dumps(document, indent=indent, allow_nan=False, ensure_ascii=False, default=digits)
    return re.sub(f'"{mark}([-0-9.]+){mark}"', r"\1", encoded)
