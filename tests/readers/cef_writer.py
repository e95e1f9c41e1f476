"""Writes data as a Census Edited File, so that tests can read the same data in both formats."""

from __future__ import annotations

from pathlib import Path

import polars as pl

#: (column, begin, end) of the 2020 layout; the rest of a line is filled with x.
UNITS = (
    ("RTYPE", 0, 1), ("MAFID", 1, 10), ("TABBLKST", 10, 12), ("FINAL_POP", 17, 22), ("HHSPAN", 25, 26),
    ("HHRACE", 27, 29), ("TEN", 29, 30), ("OIDTB", 37, 59), ("HHT", 59, 60), ("HHT2", 60, 62), ("CPLT", 62, 63),
)  # fmt: skip
PERSONS = (
    ("RTYPE", 0, 1), ("MAFID", 1, 10), ("TABBLKST", 15, 17), ("QAGE", 23, 26), ("CENHISP", 47, 48),
    ("CENRACE", 81, 83), ("RELSHIP", 85, 87),
)  # fmt: skip
BLANK = {("HHSPAN", "0"): " ", ("HHRACE", "00"): "  "}
AREA = [
    "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "TABBLKGRPCE", "REGIONCE", "DIVISIONCE", "PLACEFP", "AIANNHCE"
]  # fmt: skip


def line(row, slices, width, pad="0"):
    """Format a record as a line; quantities are padded with zeros (or blanks)."""
    text = ["x"] * width
    for name, begin, end in slices:
        value = BLANK.get((name, row[name]), row[name])
        text[begin:end] = value.rjust(end - begin, pad) if name in {"FINAL_POP", "QAGE"} else value
    assert len(text) == width
    return "".join(text)


def write(folder: Path, frames: dict[str, pl.DataFrame], pad: str = "0", end: str = "\n") -> Path:
    """Write frames of text columns as a Census Edited File; return the path of its TOML file."""
    folder.mkdir(parents=True, exist_ok=True)
    places = frames["geo"].with_columns(OIDTB=pl.concat_str(AREA[:4]).str.pad_end(22, "9"))
    block = dict(places.select("MAFID", "OIDTB").iter_rows())
    state = dict(places.select("MAFID", "TABBLKST").iter_rows())
    for name, slices, width in (("units", UNITS, 70), ("persons", PERSONS, 99)):
        lines = [
            line(row | {"OIDTB": block[row["MAFID"]], "TABBLKST": state[row["MAFID"]]}, slices, width, pad)
            for row in frames[name].iter_rows(named=True)
        ]
        _text(folder / f"{name}.txt", lines, end)
    blocks = places.select(pl.lit("x").alias("EXTRA"), pl.col("OIDTB").alias("OIDTABBLK"), *AREA).unique(
        maintain_order=True
    )
    _text(folder / "blocks.txt", ["|".join(row) for row in (blocks.columns, *blocks.iter_rows())], end)
    toml = folder / "cef.toml"
    toml.write_text('units = "units.txt"\npersons = ["persons.txt"]\ngeo = "blocks.txt"\n')
    return toml


def _text(path: Path, lines: list[str], end: str) -> None:
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())
