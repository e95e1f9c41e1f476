"""The position of each state on the tile map, which roughly follows geography."""

from __future__ import annotations

from phsafe.model.schema import POSTAL_CODES

_ROWS = (
    "AK .  .  .  .  .  .  .  .  .  ME",
    ".  .  .  .  .  .  .  .  .  VT NH",
    "WA ID MT ND MN IL WI MI NY RI MA",
    "OR NV WY SD IA IN OH PA NJ CT .",
    "CA UT CO NE MO KY WV VA MD DE .",
    ".  AZ NM KS AR TN NC SC DC .  .",
    ".  .  .  OK LA MS AL GA .  .  .",
    "HI .  .  TX .  .  .  .  FL .  PR",
)
#: FIPS code → (postal abbreviation, column, row); columns and rows are counted from 1.
TILES: dict[str, tuple[str, int, int]] = {
    POSTAL_CODES[letters]: (letters, column, row)
    for row, line in enumerate(_ROWS, start=1)
    for column, letters in enumerate(line.split(), start=1)
    if letters != "."
}
COLUMNS, ROWS = 11, len(_ROWS)
