"""Step 4, truncate: which persons a threshold drops, those after the first τ of a household in the order of 2020.

The order depends on the records of one household that pass the person filter, and on nothing else (claim C1.1 of
docs/privacy.md). Identical records are numbered within the household, so that each has an order key of its own. Only
households above a threshold are ever ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from phsafe.counting.encode import MISSING, SEPARATOR
from phsafe.counting.households import Households
from phsafe.counting.records import Array, RecordFormat, Rows
from phsafe.schema import KEY, PERSONS

#: Columns whose values are written in binary before they are hashed; the others are hashed as they are.
BINARY = ("MAFID", "QAGE", "CENHISP")
#: The key stands second among the hashed values; the duplicate index comes last.
KEY_POSITION = PERSONS.names.index(KEY)
VALUE_NAMES = tuple(name for name in PERSONS.names if name != KEY)


@dataclass(frozen=True)
class UniverseCut:
    """A person filter with its threshold: for each class of persons whether it passes, and how many are kept."""

    passes: Array
    tau: int


@dataclass(frozen=True)
class OrderDigests:
    """The digest of each code of each person column except the key, in the layout's order."""

    columns: tuple[tuple[int, int, tuple[bytes, ...]], ...]
    #: What `of_record` found before. There are few different records.
    known: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    @classmethod
    def of(cls, record_format: RecordFormat) -> OrderDigests:
        """Hash every value of every domain once. Code 0 is never looked up."""
        fields = [record_format[name] for name in VALUE_NAMES]
        return cls(
            tuple(
                (f.shift, (1 << f.bits) - 1, (b"", *(digest(f.column.name, code) for code in f.column.codes)))
                for f in fields
            )
        )

    def of_record(self, record: int, raw: str | None) -> tuple[bytes, bytes]:
        """The digests of one record's values, those before the key and those after it, joined by commas.

        Args:
            record: The packed record.
            raw: Its values as text if one of its codes is unknown.

        """
        if raw is None and record in self.known:
            return self.known[record]
        if raw is None:
            found = [digests[record >> shift & mask] for shift, mask, digests in self.columns]
        else:
            texts = [None if text == MISSING else text for text in raw.split(SEPARATOR)]
            found = [digest(name, text) for name, text in zip(VALUE_NAMES, texts, strict=True)]
        joined = b",".join(found[:KEY_POSITION]), b",".join(found[KEY_POSITION:])
        if raw is None:
            self.known[record] = joined
        return joined


def digest(column: str, value: int | str | None) -> bytes:
    """The digest of one value: lower-case hex SHA-256 of its text, or of its binary digits without leading zeros."""
    if value is None:
        text = ""
    elif column in BINARY:
        text = f"{int(value) % 2**64:b}"
    else:
        text = str(value)
    return sha256(text.encode()).hexdigest().encode()


def order_key(values: tuple[bytes, bytes], key: bytes, duplicate: bytes) -> bytes:
    """What records of a household are sorted by: all digests joined by commas, hashed twice.

    Args:
        values: The digests of the columns before the key and of those after it, joined by commas.
        key: The digest of the household key.
        duplicate: The digest of the record's number among identical records, from 1.

    """
    before, after = values
    return sha256(sha256(b"%b,%b,%b,%b" % (before, key, after, duplicate)).hexdigest().encode()).digest()


def dropped(
    persons: Rows, person_class: Array, countable: Array, households: Households,
    cuts: Sequence[UniverseCut], digests: OrderDigests,
) -> list[Array]:  # fmt: skip
    """For each universe, the positions of the person rows that its threshold drops.

    Args:
        persons: Person rows in key order.
        person_class: The class of each person.
        countable: For each household, whether it counts at all; in others, nobody needs to be dropped.
        households: The households of these persons.
        cuts: The universes.
        digests: The digests of all codes.

    """
    sizes = households.sizes
    large = countable[households.inhabited] & (sizes > min((cut.tau for cut in cuts), default=0))
    if not large.any() or not cuts:
        return [np.zeros(0, np.int64) for _ in cuts]
    first, sizes = households.first_person[large], sizes[large]
    starts = np.cumsum(sizes) - sizes
    household = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.repeat(first - starts, sizes) + np.arange(len(household))
    inside = [cut.passes[person_class[rows]] for cut in cuts]
    above = [np.add.reduceat(m, starts, dtype=np.int64) > c.tau for m, c in zip(inside, cuts, strict=True)]
    chosen = np.logical_or.reduce(above)[household]
    rows, household = rows[chosen], household[chosen]
    order = _in_order(persons.take(rows), household, digests)
    rows, household = rows[order], household[order]
    return [
        rows[_beyond(member[chosen][order] & over[household], household, cut.tau)]
        for member, over, cut in zip(inside, above, cuts, strict=True)
    ]


def _beyond(member: Array, household: Array, tau: int) -> Array:
    """Whether each row, ordered within its household, is a member after the first τ members."""
    seen = np.cumsum(member)
    starts = np.flatnonzero(np.diff(household, prepend=-1))
    before = (seen - member)[starts]
    rank = seen - np.repeat(before, np.diff(starts, append=len(household)))
    return member & (rank > tau)


def duplicate_index(household: Array, record: Array, raw: Array) -> Array:
    """The number of each row, from 1, among the identical rows of its household."""
    order = np.lexsort((raw, record, household))
    same = np.ones(len(order), dtype=bool)
    same[:1] = False
    for column in (household, record, raw):
        values = column[order]
        same[1:] &= values[1:] == values[:-1]
    starts = np.flatnonzero(~same)
    numbers = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order))) + 1
    found = np.empty(len(order), np.int64)
    found[order] = numbers
    return found


def _in_order(rows: Rows, household: Array, digests: OrderDigests) -> Array:
    """The positions of some rows, household by household, in the order of 2020."""
    raw = np.zeros(len(rows), np.int64)
    texts: list[str | None] = [None] * len(rows)
    if rows.raw is not None:
        texts = rows.raw.to_pylist()
        raw = rows.raw.dictionary_encode().indices.fill_null(-1).to_numpy()
    duplicate = duplicate_index(household, rows.record, raw)
    numbers = [b"", *(digest(KEY, n) for n in range(1, int(duplicate.max(initial=0)) + 1))]
    key_digest, last_key, order_keys = b"", None, []
    for key, record, text, number in zip(
        rows.key.tolist(), rows.record.tolist(), texts, duplicate.tolist(), strict=True
    ):
        if key != last_key:
            key_digest, last_key = digest(KEY, key), key
        order_keys.append(order_key(digests.of_record(record, text), key_digest, numbers[number]))
    words = np.frombuffer(b"".join(order_keys), ">u8").reshape(-1, 4)
    # Order keys differ unless SHA-256 collides; the record itself then decides, so that the order is always total.
    return np.lexsort((duplicate, raw, rows.record, *words.T[::-1].astype(np.uint64), household))
