"""Persons joined with their households, counted by kind (code and place): what every person tabulation is made from."""

from __future__ import annotations

import ibis
from ibis import _
from ibis.expr.types import BooleanValue, IntegerValue, Table

from phsafe.conditions import Where
from phsafe.tabulation.coding import among
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


def joined(persons: Table, households: Table, plan: Plan) -> Table:
    """How many persons (n) of each kind there are, before truncation."""
    people = passing(persons, plan.anybody)
    coded = people.select("MAFID", code=plan.persons.expression(people))
    pairs = coded.inner_join(households, "MAFID")
    return pairs.group_by(kind=kind(pairs, plan)).agg(n=_.count().cast("int64"))


def kind(pairs: Table, plan: Plan) -> IntegerValue:
    """A person's code and the place of its household in one number: engines are quick at grouping by one column."""
    return pairs.place.cast("int64") * plan.persons.size + pairs.code
