"""Every line of every table as a sum of measured basis cells: what a shell total or an average is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from phsafe.config import Config
from phsafe.levels import Level
from phsafe.spec import Derived, Line, Table, Tabulation


@dataclass(frozen=True)
class Part:
    """A sum of `cells` basis cells of one measured tabulation; their noises are independent and alike."""

    tabulation: str
    cells: int


@dataclass(frozen=True)
class Made:
    """What a line of a table is made of: a count, or a count divided by another."""

    line: Line
    count: Part
    per: Part | None = None


def made(config: Config, table: Table) -> tuple[Made, ...]:
    """The lines of a table, in the order of its shell.

    >>> from phsafe.tables import PH8
    >>> [(m.line.number, m.count, m.per) for m in made(Config.load("examples/us.json"), PH8)][1]
    (2, Part(tabulation='PH7', cells=2), Part(tabulation='PH8_denom', cells=1))
    """
    outputs: dict[str, Tabulation | Derived] = {}
    outputs |= {d.name: d for d in table.derived}
    outputs |= {t.name: t for t in table.tabulations}
    shell = {line.number: line for line in table.shell}
    if table.average is None:
        only = table.tabulations[0]
        return tuple(Made(line, _part(config, only, shell, line.number)) for line in table.shell)
    average = table.average
    return tuple(
        Made(
            line,
            _part(config, outputs[average.numerator], shell, line.number),
            _part(config, outputs[average.denominator], shell, average.per[line.number]),
        )
        for line in table.shell
    )


def levels_of(config: Config, table: Table) -> tuple[Level, ...]:
    """The levels at which every part of a table has a budget."""
    names = {part.tabulation for m in made(config, table) for part in (m.count, m.per) if part is not None}
    return tuple(
        level
        for level in config.catalog.levels
        if all(level in config.levels_of(config.catalog.tabulation(name)) for name in names)
    )


def output_cells(config: Config) -> Iterator[tuple[Tabulation | Derived, Mapping[int, int]]]:
    """Every published tabulation → the number of measured cells in each of its cells (1 unless derived)."""
    for output in config.catalog.outputs:
        if isinstance(output, Derived):
            yield output, {cell: len(sources) for cell, sources in output.cells.items()}
        else:
            yield output, dict.fromkeys(output.cells, 1)


def _part(config: Config, output: Tabulation | Derived, shell: Mapping[int, Line], number: int) -> Part:
    cells = sum(
        len(output.cells[basis]) if isinstance(output, Derived) else 1 for basis in _basis(output, shell, number)
    )
    return Part(config.catalog.measured(output).name, cells)


def _basis(output: Tabulation | Derived, shell: Mapping[int, Line], number: int) -> list[int]:
    """The basis cells that a line adds up; sums of sums are followed down."""
    if number in output.cells:
        return [number]
    return [basis for part in shell[number].of for basis in _basis(output, shell, part)]
