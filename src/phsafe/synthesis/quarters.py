"""Group quarters: nursing homes, prisons, dormitories and the like, with the people in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from phsafe.synthesis.draws import Bytes, Ints, Table, Words, bent_line

#: People in group quarters for 10,000 people in households: 2.5 % of everybody.
PEOPLE_PER_10000 = 256


@dataclass(frozen=True)
class Quarters:
    """A type of group quarters: RELSHIP of its people, odds, ages (knots and odds), and sizes."""

    relship: int
    odds: float
    ages: tuple[float, ...]
    age_odds: tuple[float, ...]
    sizes: tuple[int, ...]


TYPES = (
    Quarters(37, 17, (18, 22, 45, 85), (0, 1, 0.8, 0), (4, 9, 25, 60, 110, 260, 900)),  # prisons and jails
    Quarters(37, 20, (50, 65, 85, 104), (0, 0.4, 1, 0), (12, 35, 55, 70, 90, 120)),  # nursing homes
    Quarters(37, 8, (8, 13, 17, 20), (0, 0.6, 1, 0), (5, 9, 14, 30)),  # homes for young people
    Quarters(38, 15, (17, 18, 20, 24), (0, 1, 1, 0), (9, 24, 60, 130, 260, 420)),  # student housing
    Quarters(38, 30, (18, 30, 60, 90), (0.5, 1, 1, 0), (3, 4, 5, 6, 8, 10)),  # group homes
    Quarters(38, 10, (0, 20, 55, 80), (0.6, 1, 1, 0), (6, 12, 25, 45, 90)),  # shelters and the like
)
RELSHIP = np.array([quarters.relship for quarters in TYPES], dtype=np.uint8)
_WIDEST = max(len(quarters.sizes) for quarters in TYPES)
_SIZES = np.array([quarters.sizes + (0,) * (_WIDEST - len(quarters.sizes)) for quarters in TYPES])
_TYPE = Table([quarters.odds for quarters in TYPES])
_SIZE = Table([[*np.ones(len(q.sizes)), *np.zeros(_WIDEST - len(q.sizes))] for q in TYPES])
#: Average size in hundredths, to know how many units hold the people that there should be.
MEAN_SIZE_E2 = round(100 * sum(q.odds * sum(q.sizes) / len(q.sizes) for q in TYPES) / sum(q.odds for q in TYPES))


@cache
def _ages() -> Table:
    return Table([bent_line(np.arange(116), q.ages, q.age_odds) for q in TYPES], bits=10)


def types_and_sizes(u: Words, v: Words, w: Words) -> tuple[Bytes, Ints]:
    """The type of each group quarters and the number of people in it, within a quarter of its typical size."""
    kind = _TYPE.draw(0, u)
    typical = _SIZES[kind, _SIZE.draw(kind, v)]
    spread = typical // 4
    return kind, typical - spread + (w.astype(np.int64) * (2 * spread + 1) >> 16)


def ages(kind: Bytes, u: Words) -> Bytes:
    """Ages of people, given the type of their group quarters."""
    return _ages().draw(kind, u)
