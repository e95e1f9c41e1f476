"""Step 4, truncate: find the persons whom a threshold drops, all after the first τ of a household in the 2020 order.

The order depends only on the household's records that pass the person filter (claim C1.1 of docs/privacy.md). Identical
records get a duplicate index within the household, which makes their order keys distinct. Only households above a
threshold are ordered at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from phsafe.counting.encode import raw_values
from phsafe.counting.households import Households
from phsafe.counting.records import Array, RecordFormat, Rows
from phsafe.model.schema import KEY, PERSONS

#: Columns whose values are hashed as binary digits; the others are hashed as text.
BINARY = ("MAFID", "QAGE", "CENHISP")
KEY_POSITION = PERSONS.names.index(KEY)
VALUES = tuple(name for name in PERSONS.names if name != KEY)


class UniverseCut(NamedTuple):
    """A person filter, as a mask over classes of persons, and the number of persons that each household may keep."""

    passes: Array
    tau: int


def digest(column: str, value: int | str | None) -> bytes:
    """The lower-case hex SHA-256 of a value's text, or of its binary digits without leading zeros."""
    text = "" if value is None else f"{int(value) % 2**64:b}" if column in BINARY else str(value)
    return sha256(text.encode()).hexdigest().encode()


def order_key(values: tuple[bytes, bytes], key: bytes, duplicate: bytes) -> bytes:
    """The sort key of a person record within its household: all digests joined by commas, hashed twice.

    Args:
        values: The digests of the columns before the household key, and of those after it, each joined by commas.
        key: The digest of the household key.
        duplicate: The digest of the record's duplicate index.

    """
    before, after = values
    return sha256(sha256(b"%b,%b,%b,%b" % (before, key, after, duplicate)).hexdigest().encode()).digest()


class ValueDigests:
    """The digests of record values, cached, because there are few distinct records."""

    def __init__(self, record_format: RecordFormat) -> None:
        self._fields = [record_format[name] for name in VALUES]
        self._known: dict[int, tuple[bytes, bytes]] = {}

    def __call__(self, record: int, raw: bytes) -> tuple[bytes, bytes]:
        """The `values` argument of `order_key`; `raw` holds the record's values if one of its codes is unknown."""
        if raw:
            return self._joined(raw_values(raw))
        if record not in self._known:
            values = [field.column.codes[int(field.codes(record)) - 1] for field in self._fields]
            self._known[record] = self._joined(values)
        return self._known[record]

    def _joined(self, values: Sequence[int | str | None]) -> tuple[bytes, bytes]:
        digests = [digest(name, value) for name, value in zip(VALUES, values, strict=True)]
        return b",".join(digests[:KEY_POSITION]), b",".join(digests[KEY_POSITION:])


def dropped(
    persons: Rows, person_class: Array, countable: Array, h: Households,
    cuts: Sequence[UniverseCut], digests: ValueDigests,
) -> list[Array]:  # fmt: skip
    """For each universe, the positions of the person rows that its threshold drops.

    Rows must be in key order. Households that are not `countable` are skipped.
    """
    large = countable[h.inhabited] & (h.sizes > min((cut.tau for cut in cuts), default=0))
    if not large.any() or not cuts:
        return [np.zeros(0, np.int64) for _ in cuts]
    sizes = h.sizes[large]
    starts, household = np.cumsum(sizes) - sizes, np.repeat(np.arange(len(sizes)), sizes)
    rows = np.repeat(h.first_person[large] - starts, sizes) + np.arange(len(household))
    inside = [cut.passes[person_class[rows]] for cut in cuts]
    above = [np.add.reduceat(m, starts, dtype=np.int64) > c.tau for m, c in zip(inside, cuts, strict=True)]
    chosen = np.flatnonzero(np.logical_or.reduce(above)[household])
    chosen = chosen[in_order(persons.take(rows[chosen]), digests)]
    household = household[chosen]
    return [
        rows[chosen[_beyond(member[chosen] & over[household], household, cut.tau)]]
        for member, over, cut in zip(inside, above, cuts, strict=True)
    ]


def _beyond(member: Array, household: Array, tau: int) -> Array:
    """Whether each row is beyond the first τ members of its household. Rows are ordered within households."""
    seen, starts = np.cumsum(member), np.flatnonzero(np.diff(household, prepend=-1))
    before = np.repeat((seen - member)[starts], np.diff(starts, append=len(household)))
    return member & (seen - before > tau)


def in_order(rows: Rows, digests: ValueDigests) -> Array:
    """The positions of the rows, sorted by household and within each household by the 2020 order."""
    raws = [b""] * len(rows) if rows.raw is None else rows.raw.fill_null(b"").to_pylist()
    duplicates, order_keys = Counter[tuple[int, int, bytes]](), []
    numbers: dict[int, bytes] = {}
    for key, record, raw in zip(rows.key.tolist(), rows.record.tolist(), raws, strict=True):
        duplicates[key, record, raw] += 1
        duplicate = duplicates[key, record, raw]
        for number in (key, duplicate):
            if number not in numbers:
                numbers[number] = digest(KEY, number)
        hashed = order_key(digests(record, raw), numbers[key], numbers[duplicate])
        # Order keys are distinct unless SHA-256 collides. Breaking ties by the record itself makes the order total.
        order_keys.append((key, hashed, record, raw, duplicate))
    return np.array(sorted(range(len(rows)), key=order_keys.__getitem__), np.intp)
