"""The lines of a table shell, and the basis cells that each one sums."""

from __future__ import annotations

from dataclasses import dataclass

from phsafe.model.spec import Catalog, Derived, Table, Tabulation


def basis(catalog: Catalog, table: Table, output: Tabulation | Derived, line: int) -> tuple[int, ...]:
    """Return the basis cells that a line sums.

    Args:
        catalog: The catalog of the table.
        table: The table whose shell has the line.
        output: The measured or derived tabulation to take the line from.
        line: The number of the line.

    Returns:
        Basis cells of the measured tabulation behind `output`.

    >>> from phsafe.model.tables import CENSUS_2020 as catalog, PH2, PH8
    >>> basis(catalog, PH2, catalog.tabulation("PH2"), 2), basis(catalog, PH8, PH8.derived[0], 1)
    ((3, 4), (2, 3, 4))
    """
    if line not in output.cells:
        parts = next(shown.of for shown in table.shell if shown.number == line)
        return tuple(cell for part in parts for cell in basis(catalog, table, output, part))
    return (line,) if isinstance(output, Tabulation) else output.cells[line]


def output(catalog: Catalog, name: str) -> Tabulation | Derived:
    """Return the output with the given name, measured or derived."""
    return next(o for o in catalog.outputs if o.name == name)


@dataclass(frozen=True)
class Ratio:
    """The lines of an average table that share a denominator.

    Attributes:
        numerator: The tabulation that counts people.
        denominator: The tabulation that counts units.
        parts: The separate unknowns of the numerator, each as basis cells. Together they cover everyone in the units
            of the denominator.
        per: The basis cells of the denominator.
        lines: (line number, indices of the parts that it sums).
        at_least: The fewest people in a unit.
    """

    numerator: Tabulation
    denominator: Tabulation
    parts: tuple[tuple[int, ...], ...]
    per: tuple[int, ...]
    lines: tuple[tuple[int, tuple[int, ...]], ...]
    at_least: int


def ratios(catalog: Catalog, table: Table) -> list[Ratio]:
    """Return the ratios of an average table, one per denominator line.

    >>> from phsafe.model.tables import CENSUS_2020 as catalog, PH1, PH8
    >>> [(r.parts, r.per, r.lines) for r in ratios(catalog, PH1)]
    [(((2,), (3,)), (1,), ((1, (0, 1)), (2, (0,)), (3, (1,))))]
    >>> [(r.parts, r.per) for r in ratios(catalog, PH8)]
    [(((2, 3, 4),), (2, 3)), (((2, 3),), (2,)), (((4,),), (3,))]
    """
    average = table.average
    if average is None:
        return []
    above, below = output(catalog, average.numerator), output(catalog, average.denominator)
    found = []
    for per in dict.fromkeys(average.per.values()):
        cells = {
            line.number: basis(catalog, table, above, line.number)
            for line in table.shell
            if average.per.get(line.number) == per
        }
        parts = [c for c in cells.values() if not any(set(other) < set(c) for other in cells.values())]
        lines = [(n, tuple(i for i, p in enumerate(parts) if set(p) <= set(c))) for n, c in cells.items()]
        found.append(
            Ratio(
                numerator=catalog.measured(above),
                denominator=catalog.measured(below),
                parts=tuple(parts),
                per=basis(catalog, table, below, per),
                lines=tuple(lines),
                at_least=average.at_least,
            )
        )
    return found


def counted(table: Table) -> Tabulation | None:
    """Return the tabulation whose counts a table shows; None for a table of averages."""
    return None if table.average is not None else table.tabulations[0]
