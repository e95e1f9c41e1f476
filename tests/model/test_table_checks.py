"""Tables and catalogs are checked when they are made; every typo that would be charged, or print a wrong total."""

import pytest

from phsafe.errors import PHSafeError
from phsafe.model.conditions import where
from phsafe.model.levels import NATION, STATE, UNATTRIBUTED, Geography, Iteration, IterationLevel, Level
from phsafe.model.spec import Average, Catalog, Derived, Line, Table, Tabulation
from phsafe.model.tables import AGE_SHELL, BY_AGE, CENSUS_2020, HOUSEHOLD_PERSON, OCCUPIED, PH2

LEVELS = (Level(NATION, UNATTRIBUTED),)
PEOPLE = Tabulation("P_num", persons=HOUSEHOLD_PERSON, cells=BY_AGE)
HOMES = Tabulation("P_denom", units=OCCUPIED, cells={1: where()})
PER = {1: 1, 2: 1, 3: 1}


def counts(shell=AGE_SHELL, tabulations=(PEOPLE,), name="P", **fields):
    return Table(name, "Title", "Universe", tuple(shell), tuple(tabulations), **fields)


def averages(numerator="P_num", denominator="P_denom", per=PER, tabulations=(PEOPLE, HOMES), **fields):
    return counts(tabulations=tabulations, average=Average(numerator, denominator, per, 1), **fields)


def shell(*lines):
    """Lines as (number, indent, what it adds up)."""
    return [Line(number, f"Line {number}", indent, tuple(of)) for number, indent, of in lines]


def derived(cells, source="P_num", name="D_num"):
    return Derived(name, source, cells)


def one_iteration(key, code="*", label="Total population", geography=NATION, **fields):
    return Level(geography, IterationLevel(key, "x", (Iteration(code, label, **fields),), covers=not fields))


def many_tables(number, cells=1, **columns):
    """Tables of units by number of people."""
    by_number = {i: where(NPF=i, **columns) for i in range(2, 2 + cells)}
    lines = [Line(i, "x") for i in by_number]
    return tuple(counts(lines, (Tabulation(f"P{i}", by_number),), name=f"P{i}") for i in range(number))


def catalog_of_derived(cells, source="P_num"):
    homes = Tabulation("D_denom", units=OCCUPIED, cells={1: where()})
    table = averages("D_num", "D_denom", tabulations=(homes,), derived=(derived(cells, source),), name="D")
    return Catalog((counts(), table), LEVELS)


#: What is wrong → how it is made, and the sentence.
TYPOS = {
    "a line without a cell": (
        lambda: counts(shell((1, 0, (2, 3)), (2, 1, ()), (3, 1, ()), (4, 0, ()))),
        "P: expected a cell of P_num or a sum in every line, got neither in 4",
    ),
    "a cell without a line": (
        lambda: counts(shell((1, 0, (2,)), (2, 1, ()))),
        "P: expected a line for every cell of P_num, got none for 3",
    ),
    "a total that omits a cell": (
        lambda: counts(shell((1, 0, (2,)), (2, 1, ()), (3, 1, ()))),
        "P: line 1 is a total that leaves out 3, indented below it",
    ),
    "a total that omits a subtotal": (
        lambda: counts([Line(1, "Total:", 0, (2, 5, 8)), *PH2.shell[1:]], PH2.tabulations),
        "P: line 1 is a total that leaves out 12, 13, indented below it",
    ),
    "a subtotal that omits a cell": (
        lambda: counts([*PH2.shell[:1], Line(2, "Married:", 1, (3,)), *PH2.shell[2:]], PH2.tabulations),
        "P: line 2 is a total that leaves out 4, indented below it",
    ),
    "a total that repeats a cell": (
        lambda: counts(shell((1, 0, (2, 3, 3)), (2, 1, ()), (3, 1, ()))),
        "line 1: expected every line at most once in a total, got 3 repeatedly",
    ),
    "a total of a subtotal and its parts": (
        lambda: counts([Line(1, "Total:", 0, (2, 3, 5, 8, 11)), *PH2.shell[1:]], PH2.tabulations),
        "P: line 1 adds up line 3 more than once",
    ),
    "a total of lines that are not below it": (
        lambda: counts(shell((1, 0, (2, 3)), (2, 0, ()), (3, 0, ()))),
        "P: line 1 adds up 2, 3, which is not indented below it",
    ),
    "a cycle of totals": (
        lambda: counts(shell((1, 0, (4, 2, 3)), (4, 1, (1,)), (2, 1, ()), (3, 1, ()))),
        "P: line 4 adds up 1, which is not indented below it",
    ),
    "a total of itself": (
        lambda: counts(shell((1, 0, (1,)), (2, 1, ()), (3, 1, ()))),
        "P: line 1 adds up 1, which is not indented below it",
    ),
    "a line that is a cell and a total": (
        lambda: counts(shell((1, 0, (2, 3)), (2, 1, (3,)), (3, 2, ()))),
        "P: expected lines that are cells or totals, got both in 2",
    ),
    "a repeated line": (lambda: counts([*AGE_SHELL, Line(3, "Again")]), "P: expected every line once, got 3"),
    "no tabulation": (
        lambda: counts(tabulations=()), "P: expected one tabulation in a table of counts, got none",
    ),
    "a tabulation that no line shows": (
        lambda: counts(tabulations=(PEOPLE, HOMES)),
        "P: expected one tabulation in a table of counts, got P_num, P_denom",
    ),
    "an unknown denominator": (
        lambda: averages(denominator="P_denmo"),
        "P: expected the numerator and the denominator of the average as its tabulations, got P_num, P_denom and the "
        "denominator 'P_denmo'",
    ),
    "an unknown numerator": (lambda: averages(numerator="PH1_num"), "and the numerator 'PH1_num'"),
    "the same numerator and denominator": (
        lambda: averages(denominator="P_num"), "average: expected two tabulations, got P_num as numerator and",
    ),
    "a line that per leaves out": (
        lambda: averages(per={1: 1, 2: 1}),
        "P: expected a denominator (per) for every line of the table, got none for 3",
    ),
    "a line of per that the table doesn't have": (
        lambda: averages(per=PER | {4: 1}),
        "P: expected a denominator (per) for every line of the table, got unknown 4",
    ),
    "a denominator line without a count": (
        lambda: averages(per={1: 1, 2: 2, 3: 1}), "P: per divides by line 2, of which P_denom has no count",
    ),
    "a denominator cell that is never used": (
        lambda: averages(
            per={1: 2, 2: 2, 3: 2},
            tabulations=(PEOPLE, Tabulation("P_denom", cells={2: where(TEN="1"), 3: where(TEN="2")})),
        ),
        "P: expected every cell of P_denom in per, got none that uses 3",
    ),
    "a numerator that counts units": (
        lambda: Catalog((averages("P_denom", "P_num", tabulations=(
            Tabulation("P_denom", units=OCCUPIED, cells={2: where(TEN="1"), 3: where(TEN="2")}),
            Tabulation("P_num", persons=HOUSEHOLD_PERSON, cells={1: where()}),
        )),), LEVELS),
        "P: expected a numerator that counts persons, got P_denom, which counts units",
    ),
    "fewer than no people": (lambda: Average("a", "b", {}, -1), "average: expected at_least as a number from 0"),
    "a derived cell of an unknown cell": (
        lambda: catalog_of_derived({2: (2,), 3: (4,)}), "D_num: expected cells of P_num, got 4",
    ),
    "a derived cell of nothing": (
        lambda: derived({2: (2,), 3: ()}), "D_num: expected source cells in every cell, got none in 3",
    ),
    "a source cell in two derived cells": (
        lambda: derived({2: (2, 3), 3: (3,)}), "D_num: expected every source cell at most once, got 3 repeatedly",
    ),
    "an unknown source": (
        lambda: catalog_of_derived({2: (2,), 3: (3,)}, "P_nun"), "D_num: expected a tabulation as source, got 'P_nun'",
    ),
    "a derived tabulation as source": (
        lambda: catalog_of_derived({2: (2,), 3: (3,)}, "D_num"), "D_num: expected a tabulation as source, got 'D_num'",
    ),
    "a foreign code": (
        lambda: Tabulation("P", cells={1: where(TEN="5")}), "P, cell 1: expected codes of TEN among 0-4, got 5",
    ),
    "a foreign age in a filter": (
        lambda: Tabulation("P", cells={1: where()}, persons=where(QAGE=range(100, 120))),
        "P, person filter: expected codes of QAGE among 0-115, got 116, 117, 118, 119",
    ),
    "names that differ in case": (
        lambda: CENSUS_2020.extended((counts(AGE_SHELL, (Tabulation("ph1_NUM", persons=where(), cells=BY_AGE),)),)),
        "expected every tabulation once (upper and lower case are the same), got PH1_num, ph1_NUM",
    ),
    "tables whose names differ in case": (
        lambda: CENSUS_2020.extended((counts(name="ph1"),)),
        "expected every table once (upper and lower case are the same), got PH1, ph1",
    ),
    "a table name that leaves the folder": (lambda: counts(name="../P"), "expected a table name of at most 31 letters"),
    "a name too long for a sheet": (lambda: counts(name="P" * 32), "expected a table name of at most 31 letters"),
    "the name of a file of exact counts": (
        lambda: Tabulation("Not_Private", cells={1: where()}), "Not_Private: expected another tabulation name",
    ),
    "a cell that is no number": (lambda: Tabulation("P", cells={"1": where()}), "P: expected line numbers from 0 to"),
    "a line number that is no number": (lambda: Line("1", "x"), "expected a line number from 0 to 10000, got '1'"),
    "an indent below 0": (lambda: Line(1, "x", -1), "line 1: expected an indent from 0 to 20, got -1"),
    "a label that is no text": (lambda: Line(1, 3), "line 1: expected a label of at most 500 characters, got 3"),
    "a long title": (
        lambda: Table("P", "x" * 501, "u", AGE_SHELL, (PEOPLE,)), "P: expected a title of at most 500 characters",
    ),
    "a text that can't be written": (lambda: Line(1, "\ud800"), "line 1: expected a label of at most 500 characters"),
    "no table": (lambda: Catalog((), LEVELS), "expected a catalog with at least one table, got none"),
    "no level": (lambda: Catalog((counts(),), ()), "expected a catalog with at least one level, got none"),
    "two geographies with one key": (
        lambda: CENSUS_2020.extended(
            levels=(one_iteration("x", geography=Geography("state", "S", "S", ("TABBLKST",), (), covers=False)),)
        ),
        "expected every geography once (upper and lower case are the same), got state, state",
    ),
    "two iteration levels with one key": (
        lambda: CENSUS_2020.extended(levels=(one_iteration("a-g", "J", races=frozenset({"01"})),)),
        "expected every iteration level once",
    ),
    "an iteration at two levels": (
        lambda: CENSUS_2020.extended(
            levels=(one_iteration("x", "H", "Hispanic or Latino", ethnicities=frozenset({2})),)
        ),
        "expected every iteration at one level of USA, got H at several",
    ),
    "an iteration code with two meanings": (
        lambda: Catalog((counts(),), (*LEVELS, one_iteration("x", label="All", geography=STATE))),
        "expected one meaning for every iteration code, got several for *",
    ),
    "a foreign race": (
        lambda: Iteration("J", "x", races=frozenset({"64"})), "iteration J: expected races of the code list, got 64",
    ),
    "no race": (
        lambda: Iteration("J", "x", races=frozenset()), "iteration J: expected races of the code list, got none",
    ),
    "a code with a separator": (lambda: Iteration("A|B", "x"), "expected an iteration code of at most 40"),
    "an iteration level with a space": (
        lambda: IterationLevel("a b", "x", (Iteration("*", "x"),), covers=True), "expected an iteration level key",
    ),
    "iterations that don't cover everyone": (
        lambda: IterationLevel("x", "x", (Iteration("A", "x", races=frozenset({"01"})),), covers=True),
        "x: expected iterations that cover everyone, got some that don't",
    ),
    "no iteration": (lambda: IterationLevel("x", "x", (), covers=False), "x: expected 1 to 126 iterations, got 0"),
    "states that don't cover the country": (
        lambda: Geography("s", "S", "S", ("TABBLKST",), (("44", "Rhode Island"),)),
        "s: expected every state in regions that cover the country, got 1",
    ),
    "a region of no state": (
        lambda: Geography("c", "C", "C", ("TABBLKST", "TABBLKCOU"), (("99001", "x"),)),
        "c: expected regions of states, got the state codes 99",
    ),
    "a region code with letters": (
        lambda: Geography("c", "C", "C", ("TABBLKST", "TABBLKCOU"), (("44O01", "x"),)),
        "c: expected region codes of 5 digits, got '44O01'",
    ),
    "a region type with a separator": (
        lambda: Geography("c", "C", "A|B", ("TABBLKST",), (), covers=False), "expected a region type of at most 40",
    ),
    "a long region name": (
        lambda: Geography("c", "C", "C", ("TABBLKST",), (("44", "x" * 501),), covers=False),
        "c: expected names of at most 500 characters, got others in 44",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPOS)
def test_a_typo_is_refused_in_one_sentence(name):
    make, sentence = TYPOS[name]
    with pytest.raises(PHSafeError) as refused:
        make()
    assert any(sentence in reason for reason in refused.value.reasons), refused.value.reasons
    assert all("\n" not in reason for reason in refused.value.reasons)


def test_all_problems_of_a_table_are_reported_together():
    with pytest.raises(PHSafeError) as refused:
        counts(shell((1, 0, (2,)), (2, 1, ()), (4, 1, ()), (5, 0, (2,))), name="P" * 40)
    assert len(refused.value.reasons) == 4
    with pytest.raises(PHSafeError) as refused:
        Tabulation("P", cells={1: where(TEN="9"), 2: where(QAGE=3), 3: where()}, iterate_by="dog")
    assert len(refused.value.reasons) == 6  # A foreign code, a foreign column, three overlaps, and iterate_by.


@pytest.mark.parametrize("table", CENSUS_2020.tables, ids=lambda table: table.name)
def test_the_shipped_tables_pass_with_any_indent_that_shows_the_same_totals(table):
    wider = tuple(Line(line.number, line.label, 2 * line.indent, line.of) for line in table.shell)
    assert Table(table.name, table.title, table.universe, wider, table.tabulations, table.derived, table.average)


def test_a_table_may_have_several_totals_without_a_grand_total():
    lines = shell((1, 0, (3, 4)), (3, 1, ()), (4, 1, ()), (2, 0, (6, 7)), (6, 1, ()), (7, 1, ()))
    cells = {n: cell for n, cell in PH2.tabulations[0].cells.items() if n in (3, 4, 6, 7)}
    assert counts(lines, (Tabulation("P", cells, persons=where(RTYPE=3)),))


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (lambda: Tabulation("P", {i: where() for i in range(501)}), "at most 500 cells"),
        (lambda: counts([Line(i, "x") for i in range(501)]), "at most 500 lines"),
        (lambda: Catalog(many_tables(100, 60), LEVELS), "at most 5000 lines, got 6000"),
        (lambda: Catalog(many_tables(5, 1, FINAL_POP=range(100_000)), LEVELS), "at most 400000 codes, got 500005"),
        (
            lambda: Catalog(many_tables(201), LEVELS),
            "at most 200 tabulations",
        ),
        (
            lambda: Catalog((counts(),), tuple(one_iteration(str(i)) for i in range(101))),
            "at most 100 levels",
        ),
    ],
)  # fmt: skip
def test_catalogs_are_limited(make, most):
    with pytest.raises(PHSafeError, match=most):
        make()
