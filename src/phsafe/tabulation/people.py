"""Persons joined with their households, counted by kind (code and place): what every person tabulation is made from."""

from __future__ import annotations

import ibis
from ibis import _
from ibis.expr.types import BooleanValue, IntegerValue, Table

from phsafe.conditions import Where
from phsafe.tabulation.coding import among
from phsafe.tabulation.households import MoreColumns
from phsafe.tabulation.plan import Plan


def passing(table: Table, condition: Where) -> Table:
    """The rows that pass a condition."""
    return table.filter(passes(table, condition)) if condition.terms else table


def passes(table: Table, condition: Where) -> BooleanValue:
    """Whether each row passes a condition; unknown where a value is."""
    return ibis.and_(ibis.literal(True), *(among(table[column], codes) for column, codes in condition.terms))


def homes(households: Table) -> Table:
    """How many households (n) there are of each kind: there is no person to tell, so that is the place."""
    return households.group_by(kind=_.place.cast("int64")).agg(n=_.count().cast("int64"))


def coded(persons: Table, plan: Plan, more: MoreColumns | None) -> Table:
    """MAFID and code of everybody in any universe; or, with more columns, of everybody with a MAFID.

    Truncation may take numbers of persons from here, so nobody else may be left out (claim C1 of docs/privacy.md).
    """
    people = passing(persons, plan.anybody) if more is None else persons.filter(persons.MAFID.notnull())
    code = plan.persons.expression(people).cast("int16" if plan.persons.size <= 2**15 else "int64")
    return people.select("MAFID", code=code, **(more.of_persons(people) if more else {}))


def joined(coded_persons: Table, households: Table, plan: Plan) -> Table:
    """How many persons (n) of each kind there are, before truncation."""
    pairs = coded_persons.select("MAFID", "code").inner_join(households, "MAFID")
    return pairs.group_by(kind=kind(pairs, plan)).agg(n=_.count().cast("int64"))


def kind(pairs: Table, plan: Plan) -> IntegerValue:
    """A person's code and the place of its household in one number: engines are quick at grouping by one column."""
    return pairs.place.cast("int64") * plan.persons.size + pairs.code
