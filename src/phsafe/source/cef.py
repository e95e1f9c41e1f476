"""The Census Edited File as it stands: fixed-width units and persons, and blocks between pipes.

A small TOML file names the files (`cef_files`). Everything is an expression over lines, so that any engine can read
it; see docs/cef.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

import ibis
from ibis.expr.types import ArrayValue, StringValue, Table, Value

from phsafe.engine import Engine, Location
from phsafe.errors import DataError
from phsafe.schema import FAMILY, GEO, HOUSING_UNIT, KEY, LAYOUTS, PERSONS, UNITS, Layout
from phsafe.source.canonical import canonical
from phsafe.source.cef_files import BLOCK, BLOCK_KEY, PIPE, STATE, Files, Slices
from phsafe.source.tables import Tables

#: What stands for "not in universe" where the file has blanks.
BLANKS = {"HHSPAN": "0", "HHRACE": "00"}


def is_cef(data: object, reader: str | None) -> TypeGuard[Location]:
    """Whether a data source is read as a Census Edited File: as the config's reader says, or else by its looks."""
    if isinstance(data, Mapping):
        return False
    named = str(data).endswith(".toml")
    if reader == "cef" and not named:
        raise DataError(
            f"{data}: the config's reader is cef, so expected a TOML file that names the files, got another ending"
        )
    if reader == "csv" and named:
        raise DataError(
            f'{data}: expected a folder with persons, units and geo; to read a Census Edited File, set "reader": "cef" '
            "in the config"
        )
    return named


def load(files: Files, engine: Engine) -> Tables:
    """The canonical tables, or a `DataError` with every problem of the files' form."""
    lines = {layout.name: engine.read_lines(files.paths[layout.name]) for layout in LAYOUTS}
    problems = [
        problem for layout in LAYOUTS for problem in _line_problems(files, layout, lines[layout.name], engine)
    ]
    if problems:
        raise DataError(problems)

    def stored(table: Table, layout: Layout) -> Table:
        return engine.stored(canonical(table, layout), KEY)

    persons = stored(_sliced(lines["persons"], files.slices["persons"], PERSONS), PERSONS)
    homes = _sliced(lines["units"], files.slices["units"], UNITS)
    geo = _places(homes, lines["geo"], files.header)
    return Tables(persons, stored(_with_family(homes, persons), UNITS), stored(geo, GEO))


def _line_problems(files: Files, layout: Layout, lines: Table, engine: Engine) -> list[str]:
    """Whether every line has the form of its file; which one doesn't, and how, is not said."""
    if layout is GEO:
        fits = _values(lines).length() == len(files.header)
        expected = f"as many values between pipes in every line as in the header ({len(files.header)})"
    else:
        width, (start, end) = files.widths[layout.name], files.slices[layout.name][STATE]
        fits = (lines.line.length() == width) & lines.line.substr(start, end - start).re_search("^[0-9]{2}$")
        expected = f"every line as long as the first ({width}), with a state's two digits at {start}:{end}"
    bad = engine.fetch(lines.aggregate(bad=(~fits).fill_null(True).cast("int64").sum().fill_null(0)))
    if not bad["bad"][0].as_py():
        return []
    return [f"{', '.join(map(str, files.paths[layout.name]))}: expected {expected}, got others"]


def _sliced(lines: Table, slices: Slices, layout: Layout) -> Table:
    """The columns of a layout that stand in lines, and the key of the block."""
    fields = {name: lines.line.substr(start, end - start) for name, (start, end) in slices.items()}
    return lines.select(
        **{name: _value(name, text, layout) for name, text in fields.items() if name != STATE}
    )


def _value(name: str, text: StringValue, layout: Layout) -> Value:
    if name == BLOCK:
        return text.strip()
    if name in BLANKS:
        text = (text.strip() == "").ifelse(BLANKS[name], text)
    if not layout[name].is_integer:
        return text
    # Zeros or blanks may stand in front.
    is_whole = text.re_search("^ *[0-9]+ *$")
    return ibis.cases((is_whole, text.strip().try_cast("int32")), else_=ibis.null("int32"))


def _with_family(units: Table, persons: Table) -> Table:
    """Units with NPF: the householder and relatives, where there are two at least."""
    relatives = persons.filter(persons.RELSHIP.isin(FAMILY))
    family = relatives.group_by(key=relatives.MAFID).agg(family=relatives.count())
    joined = units.left_join(family, units.MAFID == family.key)
    counts = (joined.RTYPE == HOUSING_UNIT) & (joined.FINAL_POP >= 2) & (joined.family >= 2)
    npf = ibis.cases((counts, joined.family.try_cast("int32")), else_=ibis.literal(0, "int32"))
    return joined.select(*units.columns, NPF=npf)


def _places(units: Table, lines: Table, header: tuple[str, ...]) -> Table:
    """Where each unit is: its block's columns of the layout. A unit whose block is unknown has no row.

    The header is a block with a key that no unit has.
    """
    values = _values(lines)
    columns = {name: values[place] for place, name in enumerate(header) if name in GEO and name not in UNITS}
    blocks = lines.select(**columns, key=values[header.index(BLOCK_KEY)].strip())
    return units.select("RTYPE", "MAFID", BLOCK).join(blocks, ibis._[BLOCK] == blocks.key)


def _values(lines: Table) -> ArrayValue:
    """The values between pipes. By a pattern, which every engine reads alike; some take a plain text for one too."""
    return lines.line.re_split(rf"\{PIPE}")
