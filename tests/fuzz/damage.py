"""Ways to damage a file: fully random bytes, CSV, Parquet or JSON, or a valid file with changes."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl

#: A value planted in the data; no output may contain it.
MARKER = "ZQX731MARK"
UNUSUAL = ["", "NaN", "-1", "1e999", "9" * 21, "'", '"', ";--", "\0", "é", "x" * 500, "01", " 1", "null", MARKER]
#: The share of files that are fully random instead of a valid file with changes.
RANDOM = 0.6
#: Rows in a row group: few, so that the small data have many row groups.
ROW_GROUP = 50
NUMBERS = [None, True, -1, 0, 0.1, 1e-300, 10**400]


def damage_bytes(rng: random.Random, content: bytes) -> bytes:
    """Change, remove or insert some bytes, truncate the file, or make it fully random."""
    if rng.random() < RANDOM:
        return rng.randbytes(rng.randrange(2000))
    if rng.random() < 0.3:
        return content[: rng.randrange(len(content) + 1)]
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 10])):
        offset = rng.randrange(len(changed) or 1)
        changed[offset : offset + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    return bytes(changed)


def damage_csv(rng: random.Random, text: str) -> str:
    """Replace fields, repeat or drop rows, rename or shuffle columns, or write only unusual fields."""
    rows = [line.split(",") for line in text.splitlines()]
    if rng.random() < RANDOM:
        rows = [_unusual_row(rng) for _ in range(rng.randrange(1, 6))]
    for _ in range(rng.choice([1, 2, 5])):
        row = rows[rng.choice([0, rng.randrange(len(rows))])]
        change = rng.randrange(6)
        if change == 0 and row:
            row[rng.randrange(len(row))] = rng.choice(UNUSUAL)
        elif change == 1:
            row.append(rng.choice(UNUSUAL))
        elif change == 2 and len(row) > 1:
            row.pop(rng.randrange(len(row)))
        elif change == 3:
            rows.append(list(rng.choice(rows)))
        elif change == 4 and len(rows) > 1:
            rows.remove(row)
        else:
            rng.shuffle(row)
    return rng.choice(["\n", "\r\n"]).join(",".join(row) for row in rows)


def _unusual_row(rng: random.Random) -> list[str]:
    return rng.choices(UNUSUAL, k=rng.randrange(1, 12))


def damage_parquet(rng: random.Random, file: Path) -> None:
    """Change a column's type or name, add nulls, drop it, remove all rows, damage bytes, or write a random frame."""
    frame = pl.read_parquet(file)
    name = rng.choice(frame.columns)
    change = 6 if rng.random() < RANDOM else rng.randrange(8)
    if change == 0:
        frame = frame.drop(name)
    elif change == 1:
        number, text = pl.col(name).cast(pl.Int64, strict=False), pl.col(name).cast(pl.String)
        types = [pl.Int64, pl.Float64, pl.UInt8, pl.Boolean, pl.Datetime]
        others = [text, text.cast(pl.Categorical), text.cast(pl.Binary), pl.concat_list(name).alias(name)]
        frame = frame.with_columns(rng.choice([*(number.cast(dtype, strict=False) for dtype in types), *others]))
    elif change == 2:
        frame = frame.with_columns(pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise(name).alias(name))
    elif change == 3:
        frame = frame.rename({name: rng.choice(["_", "x", "é", name.lower(), MARKER])})
    elif change == 4:
        frame = frame.head(0)
    elif change == 5:
        unusual = pl.lit(rng.choice(UNUSUAL)) if rng.random() < 0.5 else pl.lit(rng.randrange(-(2**63), 2**63))
        frame = frame.with_columns(unusual.alias(name))
    elif change == 6:
        names = rng.sample([*frame.columns, "x", MARKER], rng.randrange(1, 6))
        frame = pl.DataFrame(
            {n: rng.choice([UNUSUAL[:3], [1, 2, None], [[1], [], None], [0.5, None, 1.0]]) for n in names}
        )
    frame.write_parquet(file, row_group_size=ROW_GROUP)
    if change == 7:
        file.write_bytes(damage_bytes(rng, file.read_bytes()))


def damage_json(rng: random.Random, content: bytes) -> bytes:
    """Replace a value, drop or add a key, write a document of random shape, or damage bytes."""
    if rng.random() < 0.2:
        return damage_bytes(rng, content)
    changed = _random_document(rng, 0) if rng.random() < RANDOM else _changed(rng, json.loads(content), 0)
    return json.dumps(changed).encode()


def _changed(rng: random.Random, document: object, depth: int) -> object:
    if isinstance(document, dict) and document and rng.random() < 0.9 - 0.1 * depth:
        changed = dict(document)
        key = rng.choice(list(changed))
        change = rng.randrange(6)
        if change == 0:
            del changed[key]
        elif change == 1:
            changed[rng.choice(UNUSUAL)] = rng.choice(UNUSUAL)
        else:
            changed[key] = _changed(rng, changed[key], depth + 1)
        return changed
    if isinstance(document, list) and document and rng.random() < 0.9 - 0.1 * depth:
        place = rng.randrange(len(document))
        return [*document[:place], _changed(rng, document[place], depth + 1), *document[place + 1 :]]
    return rng.choice([*UNUSUAL, *NUMBERS, [], {}, [[[]]], ["01", "01"], {"usa_*": 1}])


def _random_document(rng: random.Random, depth: int) -> object:
    change = rng.randrange(4) if depth < 4 else 3
    if change == 0:
        return [_random_document(rng, depth + 1) for _ in range(rng.randrange(4))]
    if change in (1, 2):
        keys = rng.choices([*UNUSUAL, "privacy_budget", "tau", "state_filter", "reader", "privacy_defn"], k=4)
        return {key: _random_document(rng, depth + 1) for key in keys}
    return rng.choice([*UNUSUAL, *NUMBERS])
