"""Number formats, and the flag △ of wide intervals. A report's script formats the same way; a test compares the two."""

from __future__ import annotations

import math

from phsafe.model.spec import Table

#: Estimate, lower bound and upper bound.
Cell = tuple[float, float, float]
#: Shown in place of a number that isn't published.
NOTHING = "–"
#: Marks a cell whose interval is wider than its estimate, and says why.
FLAG = "△"
FLAG_TEXT = "interval wider than the estimate"


def digits(cell: Cell) -> int:
    """The number of decimals to show for an average: as many as its estimate and bounds have, and at least two.

    >>> digits((2.5, 2.25, 2.75)), digits((2.4584, 2.4536, 2.463))
    (2, 4)
    """
    return max(2, *(len(repr(float(value)).partition(".")[2]) for value in cell))


def number(value: float, places: int) -> str:
    """Format a number with thousands separators."""
    return f"{value:,.{places}f}" if places else f"{int(value):,}"


def texts(cell: Cell, table: Table) -> tuple[str, str]:
    """Format the estimate and the interval of a cell. Counts have no decimals.

    >>> from phsafe.model.tables import PH1, PH2
    >>> texts((2.5, 2.25, 2.75), PH1), texts((1234, 1000, 1500), PH2)
    (('2.50', '2.25 – 2.75'), ('1,234', '1,000 – 1,500'))
    """
    places = digits(cell) if table.average is not None else 0
    estimate, lower, upper = (number(value, places) for value in cell)
    return estimate, f"{lower} – {upper}"


def supported_place(cell: Cell, average: bool) -> int:
    """The last decimal place that an interval supports: 2 rounds to hundreds, -1 to tenths.

    It is the largest power of ten that is at most a quarter of the margin of error (half of the interval's length), so
    that rounding never changes the estimate by more than an eighth of its margin. Counts have no decimals; averages are
    rounded to whole numbers at most.

    >>> supported_place((109_276, 108_094, 109_674), False), supported_place((2.4533, 2.4484, 2.4583), True)
    (2, -3)
    """
    margin = (cell[2] - cell[1]) / 2
    if margin <= 0:
        return -digits(cell) if average else 0
    place = -digits(cell) if average else 0
    most = 0 if average else 15
    while place < most and 4 * 10.0 ** (place + 1) <= margin:
        place += 1
    return place


def rounded_texts(cell: Cell, table: Table) -> tuple[str, str]:
    """Format the estimate and the interval of a cell with the digits that the interval supports.

    The estimate is rounded to the nearest, the bounds outwards, so that the interval never gets shorter.

    >>> from phsafe.model.tables import PH1, PH3
    >>> rounded_texts((109_276, 108_094, 109_674), PH3), rounded_texts((2.4533, 2.4484, 2.4603), PH1)
    (('109,300', '108,000 – 109,700'), ('2.453', '2.448 – 2.461'))
    """
    place = supported_place(cell, table.average is not None)

    def at(whole: float) -> str:
        return number(whole * 10.0**place if place >= 0 else whole / 10.0**-place, max(0, -place))

    # A value such as 2.449 is stored as slightly less or more, which must not move it to the next digit.
    slack = 1e-6
    estimate, lower, upper = (value / 10.0**place if place >= 0 else value * 10.0**-place for value in cell)
    bounds = at(math.floor(lower + slack)), at(math.ceil(upper - slack))
    return at(math.floor(estimate + 0.5)), f"{bounds[0]} – {bounds[1]}"


def is_wide(cell: Cell) -> bool:
    """Whether the interval of a cell is wider than its estimate. Such cells are flagged."""
    estimate, lower, upper = cell
    return upper - lower > estimate


def share(part: float) -> str:
    """Format a share as a percentage.

    >>> share(0), share(0.0004), share(0.625)
    ('0 %', '0.04 %', '62.5 %')
    """
    if part in (0, 1):
        return f"{100 * part:.0f} %"
    return f"{100 * part:.2f} %" if 0 < part < 0.001 else f"{100 * part:.1f} %"


def plural(count: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun, singular or plural.

    >>> plural(1, "table"), plural(2600, "group"), plural(2, "entry", "entries")
    ('1 table', '2,600 groups', '2 entries')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"
