"""Ways to damage a file: random bytes, CSV, Parquet and JSON, or a good one with something changed."""

from __future__ import annotations

import json
import random
from pathlib import Path

import polars as pl

#: Planted in data; no output may show it.
MARKER = "ZQX731MARK"
ODD = ["", "NaN", "-1", "1e999", "9" * 21, "'", '"', ";--", "\0", "é", "x" * 500, "01", " 1", "null", MARKER]
#: How often a file is random from end to end, rather than a good one with something changed.
RANDOM = 0.6
#: Rows of a row group, so that the small data have many of them.
ROW_GROUP = 50
NUMBERS = [None, True, -1, 0, 0.1, 1e-300, 10**400]


def damage_bytes(rng: random.Random, content: bytes) -> bytes:
    """Some bytes changed, cut out, put in; the rest cut off; or all of them random."""
    if rng.random() < RANDOM:
        return rng.randbytes(rng.randrange(2000))
    if rng.random() < 0.3:
        return content[: rng.randrange(len(content) + 1)]
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 10])):
        place = rng.randrange(len(changed) or 1)
        changed[place : place + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
    return bytes(changed)


def damage_csv(rng: random.Random, text: str) -> str:
    """Fields replaced, rows repeated or dropped, columns renamed or shuffled; or nothing but odd fields."""
    rows = [line.split(",") for line in text.splitlines()]
    if rng.random() < RANDOM:
        rows = [_odd_row(rng) for _ in range(rng.randrange(1, 6))]
    for _ in range(rng.choice([1, 2, 5])):
        row = rows[rng.choice([0, rng.randrange(len(rows))])]
        kind = rng.randrange(6)
        if kind == 0 and row:
            row[rng.randrange(len(row))] = rng.choice(ODD)
        elif kind == 1:
            row.append(rng.choice(ODD))
        elif kind == 2 and len(row) > 1:
            row.pop(rng.randrange(len(row)))
        elif kind == 3:
            rows.append(list(rng.choice(rows)))
        elif kind == 4 and len(rows) > 1:
            rows.remove(row)
        else:
            rng.shuffle(row)
    return rng.choice(["\n", "\r\n"]).join(",".join(row) for row in rows)


def _odd_row(rng: random.Random) -> list[str]:
    return rng.choices(ODD, k=rng.randrange(1, 12))


def damage_parquet(rng: random.Random, file: Path) -> None:
    """A column of another type, with nulls, renamed, missing or odd; no rows; other bytes; or a frame of anything."""
    frame = pl.read_parquet(file)
    name = rng.choice(frame.columns)
    kind = 6 if rng.random() < RANDOM else rng.randrange(8)
    if kind == 0:
        frame = frame.drop(name)
    elif kind == 1:
        number, text = pl.col(name).cast(pl.Int64, strict=False), pl.col(name).cast(pl.String)
        kinds = [pl.Int64, pl.Float64, pl.UInt8, pl.Boolean, pl.Datetime]
        others = [text, text.cast(pl.Categorical), text.cast(pl.Binary), pl.concat_list(name).alias(name)]
        frame = frame.with_columns(rng.choice([*(number.cast(kind, strict=False) for kind in kinds), *others]))
    elif kind == 2:
        frame = frame.with_columns(pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise(name).alias(name))
    elif kind == 3:
        frame = frame.rename({name: rng.choice(["_", "x", "é", name.lower(), MARKER])})
    elif kind == 4:
        frame = frame.head(0)
    elif kind == 5:
        odd = pl.lit(rng.choice(ODD)) if rng.random() < 0.5 else pl.lit(rng.randrange(-(2**63), 2**63))
        frame = frame.with_columns(odd.alias(name))
    elif kind == 6:
        names = rng.sample([*frame.columns, "x", MARKER], rng.randrange(1, 6))
        frame = pl.DataFrame({n: rng.choice([ODD[:3], [1, 2, None], [[1], [], None], [0.5, None, 1.0]]) for n in names})
    frame.write_parquet(file, row_group_size=ROW_GROUP)
    if kind == 7:
        file.write_bytes(damage_bytes(rng, file.read_bytes()))


def damage_json(rng: random.Random, content: bytes) -> bytes:
    """A document with a value replaced, a key dropped or added; one of random shape; or other bytes."""
    if rng.random() < 0.2:
        return damage_bytes(rng, content)
    changed = _random(rng, 0) if rng.random() < RANDOM else _changed(rng, json.loads(content), 0)
    return json.dumps(changed).encode()


def _changed(rng: random.Random, document: object, depth: int) -> object:
    if isinstance(document, dict) and document and rng.random() < 0.9 - 0.1 * depth:
        changed = dict(document)
        key = rng.choice(list(changed))
        kind = rng.randrange(6)
        if kind == 0:
            del changed[key]
        elif kind == 1:
            changed[rng.choice(ODD)] = rng.choice(ODD)
        else:
            changed[key] = _changed(rng, changed[key], depth + 1)
        return changed
    return rng.choice([*ODD, *NUMBERS, [], {}, [[[]]], ["01", "01"], {"usa_*": 1}])


def _random(rng: random.Random, depth: int) -> object:
    kind = rng.randrange(4) if depth < 4 else 3
    if kind == 0:
        return [_random(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind in (1, 2):
        keys = rng.choices([*ODD, "privacy_budget", "tau", "state_filter", "reader", "privacy_defn"], k=4)
        return {key: _random(rng, depth + 1) for key in keys}
    return rng.choice([*ODD, *NUMBERS])
