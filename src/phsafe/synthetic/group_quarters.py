"""Group quarters (nursing homes, prisons, student housing and others) and the people in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from phsafe.synthetic.random_draws import Bytes, Ints, LookupTable, Words, piecewise_linear

#: People in group quarters per 10,000 people in households: 2.5 % of the population.
PEOPLE_PER_10000 = 256


@dataclass(frozen=True)
class QuartersType:
    """A type of group quarters: RELSHIP of its residents, odds, ages (knots and odds), and typical sizes."""

    relship: int
    odds: float
    ages: tuple[float, ...]
    age_odds: tuple[float, ...]
    sizes: tuple[int, ...]


TYPES = (
    QuartersType(37, 17, (18, 22, 45, 85), (0, 1, 0.8, 0), (4, 9, 25, 60, 110, 260, 900)),  # prisons and jails
    QuartersType(37, 20, (50, 65, 85, 104), (0, 0.4, 1, 0), (12, 35, 55, 70, 90, 120)),  # nursing homes
    QuartersType(37, 8, (8, 13, 17, 20), (0, 0.6, 1, 0), (5, 9, 14, 30)),  # homes for young people
    QuartersType(38, 15, (17, 18, 20, 24), (0, 1, 1, 0), (9, 24, 60, 130, 260, 420)),  # student housing
    QuartersType(38, 30, (18, 30, 60, 90), (0.5, 1, 1, 0), (3, 4, 5, 6, 8, 10)),  # group homes
    QuartersType(38, 10, (0, 20, 55, 80), (0.6, 1, 1, 0), (6, 12, 25, 45, 90)),  # shelters and others
)
RELSHIP = np.array([quarters.relship for quarters in TYPES], dtype=np.uint8)
_WIDEST = max(len(quarters.sizes) for quarters in TYPES)
_SIZES = np.array([quarters.sizes + (0,) * (_WIDEST - len(quarters.sizes)) for quarters in TYPES])
_TYPE = LookupTable([quarters.odds for quarters in TYPES])
_SIZE = LookupTable([[*np.ones(len(q.sizes)), *np.zeros(_WIDEST - len(q.sizes))] for q in TYPES])
#: Average size in hundredths, from which the number of units follows.
MEAN_SIZE_E2 = round(100 * sum(q.odds * sum(q.sizes) / len(q.sizes) for q in TYPES) / sum(q.odds for q in TYPES))


@cache
def _ages() -> LookupTable:
    return LookupTable([piecewise_linear(np.arange(116), q.ages, q.age_odds) for q in TYPES], bits=10)


def types_and_sizes(u: Words, v: Words, w: Words) -> tuple[Bytes, Ints]:
    """Draw the type of each group quarters and its number of residents, within 25 % of a typical size."""
    quarter_type = _TYPE.draw(0, u)
    typical = _SIZES[quarter_type, _SIZE.draw(quarter_type, v)]
    spread = typical // 4
    return quarter_type, typical - spread + (w.astype(np.int64) * (2 * spread + 1) >> 16)


def ages(quarter_type: Bytes, u: Words) -> Bytes:
    """Draw the ages of residents, given the type of their group quarters."""
    return _ages().draw(quarter_type, u)
