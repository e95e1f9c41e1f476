"""What makes tables and catalogs inconsistent, found when they are created, before anything is counted or charged.

The limits are far above any table that people read. They keep a hostile catalog from using up time or memory.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from phsafe.errors import CatalogError

if TYPE_CHECKING:
    from phsafe.model.spec import Average, Catalog, Derived, Line, Table, Tabulation

#: Tables and tabulations name folders, files, columns and sheets, of which the last have the shortest names.
NAME = re.compile("[A-Za-z][A-Za-z0-9_]{0,30}")
#: The file that marks a folder of exact counts. A tabulation's folder there can't have its name.
RESERVED = "not_private"
MAX_TEXT = 500
MAX_INDENT = 20
MAX_NUMBER = 10_000
#: The most cells of a tabulation and of a catalog, and the most tabulations, levels and regions of a catalog.
MAX_CELLS, MAX_ALL_CELLS = 500, 5_000
MAX_TABULATIONS, MAX_LEVELS, MAX_REGIONS = 200, 100, 300_000
#: The most cells of a tabulation times iterations of a level: these are compared in pairs.
MAX_PLACES = 1_000
#: The most codes in all conditions of a catalog: several times the largest code list.
MAX_CODES = 400_000


def refuse(problems: Iterable[str]) -> None:
    """Raise all problems together, if there are any."""
    found = list(problems)
    if found:
        raise CatalogError(found)


def listed(items: Iterable[object], most: int = 10) -> str:
    """The items with commas between them; the first of them if there are many."""
    shown = [str(item) for item in items]
    return ", ".join(shown if len(shown) <= most else [*shown[:most], f"and {len(shown) - most} more"])


def name_problems(what: str, name: object) -> Iterator[str]:
    """Check the name of a table or tabulation."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        yield f"expected a {what} name of at most 31 letters, digits and _, got {str(name)[:60]!r}"
    elif name.lower() == RESERVED:
        yield f"{name}: expected another {what} name, because exact counts have a file of this name"


def text_problems(context: str, **texts: object) -> Iterator[str]:
    """Check texts that people read."""
    for what, text in texts.items():
        if not is_text(text):
            yield f"{context}: expected a {what} of at most {MAX_TEXT} characters, got {_show(text)}"


def is_text(value: object) -> bool:
    """Whether a value is a text that isn't too long and can be written as UTF-8."""
    return isinstance(value, str) and len(value) <= MAX_TEXT and value.encode("utf-8", "ignore").decode() == value


def cell_problems(name: str, cells: Mapping[int, object]) -> Iterator[str]:
    """Check the numbers of a tabulation's cells."""
    if not cells:
        yield f"{name}: expected at least one cell, got none"
    if len(cells) > MAX_CELLS:
        yield f"{name}: expected at most {MAX_CELLS} cells, got {len(cells)}"
    wrong = [number for number in cells if not _is_number(number)]
    if wrong:
        yield f"{name}: expected line numbers from 0 to {MAX_NUMBER} as cells, got {_show(wrong[0])}"


def derived_problems(derived: Derived) -> Iterator[str]:
    """Check a derived tabulation by itself: each cell adds up cells of its source, and none is added up twice."""
    yield from name_problems("tabulation", derived.name)
    yield from cell_problems(derived.name, derived.cells)
    empty = [number for number, sources in derived.cells.items() if not sources]
    if empty:
        yield f"{derived.name}: expected source cells in every cell, got none in {listed(empty)}"
    twice = _repeated(source for sources in derived.cells.values() for source in sources)
    if twice:
        yield f"{derived.name}: expected every source cell at most once, got {listed(twice)} repeatedly"


def line_problems(line: Line) -> Iterator[str]:
    """Check a line by itself."""
    if not _is_number(line.number):
        yield f"expected a line number from 0 to {MAX_NUMBER}, got {_show(line.number)}"
    yield from text_problems(f"line {_show(line.number)}", label=line.label)
    if type(line.indent) is not int or not 0 <= line.indent <= MAX_INDENT:
        yield f"line {_show(line.number)}: expected an indent from 0 to {MAX_INDENT}, got {_show(line.indent)}"
    twice = _repeated(line.of)
    if twice:
        yield f"line {_show(line.number)}: expected every line at most once in a total, got {listed(twice)} repeatedly"


def average_problems(average: Average) -> Iterator[str]:
    """Check an average by itself."""
    if type(average.at_least) is not int or not 0 <= average.at_least <= MAX_NUMBER:
        yield f"average: expected at_least as a number from 0 to {MAX_NUMBER}, got {_show(average.at_least)}"
    if average.numerator == average.denominator:
        yield f"average: expected two tabulations, got {average.numerator} as numerator and denominator"


def table_problems(table: Table) -> Iterator[str]:
    """Check a table: names, its shell, and that every line has a value and every cell a line."""
    yield from name_problems("table", table.name)
    yield from text_problems(table.name, title=table.title, universe=table.universe)
    if len(table.shell) > MAX_CELLS:
        yield f"{table.name}: expected at most {MAX_CELLS} lines, got {len(table.shell)}"
        return
    twice = _repeated(line.number for line in table.shell)
    if twice:
        yield f"{table.name}: expected every line once, got {listed(twice)} repeatedly"
        return
    wrong = [t.name for t in table.tabulations if t.beyond is not None]
    wrong += [t.name for t in table.truncation if t.beyond not in table.tabulations]
    if wrong:
        yield (
            f"{table.name}: expected tabulations beyond a threshold of this table, and no others, in truncation, "
            f"got {listed(wrong)}"
        )
        return
    outputs: dict[str, Tabulation | Derived] = {}
    outputs |= {output.name: output for output in table.derived}
    outputs |= {output.name: output for output in table.tabulations}
    average = table.average
    if average is None:
        if len(table.tabulations) != 1 or table.derived:
            yield f"{table.name}: expected one tabulation in a table of counts, got {listed(outputs) or 'none'}"
            return
        yield from _shell_problems(table, table.tabulations[0])
        return
    parts = {"numerator": average.numerator, "denominator": average.denominator}
    unknown = [f"{average_part} {name!r}" for average_part, name in parts.items() if name not in outputs]
    if unknown or len(outputs) != len(parts):
        yield (
            f"{table.name}: expected the numerator and the denominator of the average as its tabulations, "
            f"got {listed(outputs) or 'none'}" + (f" and the {' and the '.join(unknown)}" if unknown else "")
        )
        return
    yield from _shell_problems(table, outputs[average.numerator])
    yield from _per_problems(table, average, outputs[average.denominator])


def _shell_problems(table: Table, output: Tabulation | Derived) -> Iterator[str]:
    """Check that each line is a cell or a total, each cell a line, and that totals add up what is below them."""
    cells, numbers = set(output.cells), [line.number for line in table.shell]
    missing = sorted(cells - set(numbers))
    if missing:
        yield f"{table.name}: expected a line for every cell of {output.name}, got none for {listed(missing)}"
    empty = [line.number for line in table.shell if line.number not in cells and not line.of]
    if empty:
        yield f"{table.name}: expected a cell of {output.name} or a sum in every line, got neither in {listed(empty)}"
    both = [line.number for line in table.shell if line.number in cells and line.of]
    if both:
        yield f"{table.name}: expected lines that are cells or totals, got both in {listed(both)}"
    for i, line in enumerate(table.shell):
        below = _below(table.shell, i)
        outside = [number for number in line.of if number not in below]
        if outside:
            yield f"{table.name}: line {line.number} adds up {listed(outside)}, which is not indented below it"
        elif line.of:
            yield from _total_problems(table, line, below, cells)


def _below(shell: tuple[Line, ...], position: int) -> dict[int, Line]:
    """The lines indented below a line: those that follow it, up to the next that is indented no further."""
    found = {}
    for line in shell[position + 1 :]:
        if line.indent <= shell[position].indent:
            break
        found[line.number] = line
    return found


def _total_problems(table: Table, line: Line, below: Mapping[int, Line], cells: set[int]) -> Iterator[str]:
    """Check that a total adds up every basis cell below it, and each once."""
    added: Counter[int] = Counter()
    parts = list(line.of)
    while parts:
        number = parts.pop()
        added[number] += 1
        if added[number] > 1:
            yield f"{table.name}: line {line.number} adds up line {number} more than once"
            return
        if number in below:
            parts += below[number].of
    omitted = sorted((cells & set(below)) - set(added))
    if omitted:
        yield f"{table.name}: line {line.number} is a total that leaves out {listed(omitted)}, indented below it"


def _per_problems(table: Table, average: Average, denominator: Tabulation | Derived) -> Iterator[str]:
    """Check that each line is divided by a line that the denominator has, and that each of its cells is used."""
    lines = {line.number: line for line in table.shell}
    missing, foreign = [n for n in lines if n not in average.per], [n for n in average.per if n not in lines]
    if missing or foreign:
        parts = {"none for": missing, "unknown": foreign}
        found = "; ".join(f"{what} {listed(numbers)}" for what, numbers in parts.items() if numbers)
        yield f"{table.name}: expected a denominator (per) for every line of the table, got {found}"
    used: set[int] = set()
    for number in dict.fromkeys(average.per.values()):
        stack, seen = [number], 0
        while stack and seen <= len(lines):
            part = stack.pop()
            seen += 1
            if part in denominator.cells:
                used.add(part)
            elif part in lines and lines[part].of:
                stack += lines[part].of
            else:
                yield f"{table.name}: per divides by line {_show(number)}, of which {denominator.name} has no count"
                break
    unused = sorted(set(denominator.cells) - used)
    if unused:
        yield f"{table.name}: expected every cell of {denominator.name} in per, got none that uses {listed(unused)}"


def catalog_problems(catalog: Catalog) -> Iterator[str]:
    """Check the tables and levels of a catalog against each other."""
    yield from _size_problems(catalog)
    yield from _clashes("table", [table.name for table in catalog.tables])
    yield from _clashes("tabulation", [output.name for output in catalog.outputs])
    yield from _clashes("level", [level.key for level in catalog.levels])
    yield from _level_problems(catalog)
    measured = {tabulation.name: tabulation for tabulation in catalog.tabulations}
    sources = {derived.name: derived.source for derived in catalog.derived}
    for derived in catalog.derived:
        source = measured.get(derived.source)
        if source is None:
            yield f"{derived.name}: expected a tabulation as source, got {_show(derived.source)}"
            continue
        unknown = sorted({n for cells in derived.cells.values() for n in cells} - set(source.cells))
        if unknown:
            yield f"{derived.name}: expected cells of {source.name}, got {listed(unknown)}"
    for table in catalog.tables:
        if table.average is not None:
            parts = {"numerator": (table.average.numerator, True), "denominator": (table.average.denominator, False)}
            for part, (name, persons) in parts.items():
                behind = measured.get(sources.get(name, name))
                if behind is not None and behind.counts_persons != persons:
                    yield (
                        f"{table.name}: expected a {part} that counts {'persons' if persons else 'units'}, "
                        f"got {name}, which counts {'units' if persons else 'persons'}"
                    )


def _size_problems(catalog: Catalog) -> Iterator[str]:
    geographies = {level.geography for level in catalog.levels}
    sizes = {
        "tabulations": (len(catalog.outputs), MAX_TABULATIONS),
        "cells": (sum(len(output.cells) for output in catalog.outputs), MAX_ALL_CELLS),
        "lines": (sum(len(table.shell) for table in catalog.tables), MAX_ALL_CELLS),
        "codes": (_codes(catalog), MAX_CODES),
        "levels": (len(catalog.levels), MAX_LEVELS),
        "cells times iterations in a tabulation and level": (_places(catalog), MAX_PLACES),
        "regions": (sum(len(geography.regions) for geography in geographies), MAX_REGIONS),
    }
    for what, (size, most) in sizes.items():
        if size > most:
            yield f"expected a catalog of at most {most} {what}, got {size}"
    for what, items in (("table", catalog.tables), ("level", catalog.levels)):
        if not items:
            yield f"expected a catalog with at least one {what}, got none"


def _places(catalog: Catalog) -> int:
    cells = max((len(t.cells) for t in catalog.tabulations if t.iterate_by is not None), default=0)
    return cells * max((len(level.iteration_level.iterations) for level in catalog.levels), default=0)


def _codes(catalog: Catalog) -> int:
    """The number of codes in all conditions."""
    conditions = [c for t in catalog.tabulations for c in (t.units, t.persons, *t.cells.values()) if c is not None]
    iterations = [i for level in {level.iteration_level for level in catalog.levels} for i in level.iterations]
    lists = [codes for condition in conditions for _, codes in condition.terms]
    return sum(map(len, lists)) + sum(len(part or ()) for i in iterations for part in (i.races, i.ethnicities))


def _clashes(what: str, names: list[str]) -> Iterator[str]:
    """Names that are the same, or would be the same file where case doesn't matter."""
    twice = _repeated(name.lower() for name in names)
    if twice:
        found = [name for name in names if name.lower() in twice]
        yield f"expected every {what} once (upper and lower case are the same), got {listed(found)}"


def _level_problems(catalog: Catalog) -> Iterator[str]:
    """Check that a region type is one geography, and an iteration code one iteration, once in each geography."""
    yield from _clashes("geography", [g.key for g in dict.fromkeys(level.geography for level in catalog.levels)])
    yield from _clashes("iteration level", [i.key for i in dict.fromkeys(x.iteration_level for x in catalog.levels)])
    for region_type in dict.fromkeys(level.geography.region_type for level in catalog.levels):
        levels = [level for level in catalog.levels if level.geography.region_type == region_type]
        if len({level.geography for level in levels}) > 1:
            yield f"expected one geography of region type {region_type}, got several"
        codes = [i.code for level in levels for i in level.iteration_level.iterations]
        if twice := _repeated(codes):
            yield f"expected every iteration at one level of {region_type}, got {listed(twice)} at several"
    iterations = {i for level in catalog.levels for i in level.iteration_level.iterations}
    if twice := _repeated(iteration.code for iteration in iterations):
        yield f"expected one meaning for every iteration code, got several for {listed(twice)}"


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_NUMBER


def _repeated(items: Iterable[object]) -> list[object]:
    return [item for item, number in Counter(items).items() if number > 1]


def _show(value: object) -> str:
    return "a huge number" if isinstance(value, int) and value.bit_length() > 200 else repr(value)[:60]
