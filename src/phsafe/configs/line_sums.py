"""The lines of a table shell as sums, or ratios of sums, of measured basis cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from phsafe.configs.config import Config
from phsafe.model.levels import Level
from phsafe.model.spec import Derived, Line, Table, Tabulation


@dataclass(frozen=True)
class CellSum:
    """A sum of basis cells of one measured tabulation, with independent noise."""

    tabulation: str
    basis: tuple[int, ...]

    @property
    def cells(self) -> int:
        """The number of cells."""
        return len(self.basis)


@dataclass(frozen=True)
class LineSum:
    """How a line of a table is computed: a count, or for averages a count divided by another (`per`)."""

    line: Line
    count: CellSum
    per: CellSum | None = None


def line_sums(config: Config, table: Table) -> tuple[LineSum, ...]:
    """Express the lines of a table as sums of basis cells, in shell order.

    >>> from phsafe.model.tables import PH8
    >>> [(one.line.number, one.count, one.per) for one in line_sums(Config.load("examples/us.json"), PH8)][1]
    (2, CellSum(tabulation='PH7', basis=(2, 3)), CellSum(tabulation='PH8_denom', basis=(2,)))
    """
    outputs: dict[str, Tabulation | Derived] = {}
    outputs |= {d.name: d for d in table.derived}
    outputs |= {t.name: t for t in table.tabulations}
    shell = {line.number: line for line in table.shell}
    if table.average is None:
        tabulation = table.tabulations[0]
        return tuple(LineSum(line, _cell_sum(config, tabulation, shell, line.number)) for line in table.shell)
    average = table.average
    return tuple(
        LineSum(
            line,
            _cell_sum(config, outputs[average.numerator], shell, line.number),
            _cell_sum(config, outputs[average.denominator], shell, average.per[line.number]),
        )
        for line in table.shell
    )


def table_levels(config: Config, table: Table) -> tuple[Level, ...]:
    """The levels at which every tabulation behind a table has a budget."""
    names = {part.tabulation for one in line_sums(config, table) for part in (one.count, one.per) if part is not None}
    return tuple(
        level
        for level in config.catalog.levels
        if all(level in config.levels_of(config.catalog.tabulation(name)) for name in names)
    )


def output_cells(config: Config) -> Iterator[tuple[Tabulation | Derived, Mapping[int, tuple[int, ...]]]]:
    """Every output with the measured cells behind each of its cells (itself unless it is derived)."""
    for output in config.catalog.outputs:
        yield output, output.cells if isinstance(output, Derived) else {cell: (cell,) for cell in output.cells}


def _cell_sum(config: Config, output: Tabulation | Derived, shell: Mapping[int, Line], number: int) -> CellSum:
    cells = (output.cells[one] if isinstance(output, Derived) else (one,) for one in _basis(output, shell, number))
    return CellSum(config.catalog.measured(output).name, tuple(cell for part in cells for cell in part))


def _basis(output: Tabulation | Derived, shell: Mapping[int, Line], number: int) -> list[int]:
    """The basis cells that a line adds up, with nested sums resolved."""
    if number in output.cells:
        return [number]
    return [basis for part in shell[number].of for basis in _basis(output, shell, part)]
