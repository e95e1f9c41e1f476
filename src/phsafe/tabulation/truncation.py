"""Which persons a threshold drops: those beyond the first τ of a household in the order of 2020.

The order looks at the records of one household that passed the person filter, and at nothing else (claim C1.1 of
docs/privacy.md). Identical records are numbered inside the household, so that each has its own key.
"""

from __future__ import annotations

import ibis
from ibis import _
from ibis.expr.types import StringValue, Table

from phsafe.schema import PERSONS
from phsafe.tabulation.households import kind_columns
from phsafe.tabulation.plan import Plan, Universe

#: Columns whose values are written in binary before they are hashed; the others are hashed as they are.
BINARY = ("MAFID", "QAGE", "CENHISP")


def _bin(number: int) -> str:  # type: ignore[empty-body]
    """Both engines' own `bin`: binary digits without prefix or leading zeros."""


_binary = ibis.udf.scalar.builtin(_bin, name="bin")


def size_of(table: Table, plan: Plan, universe: Universe) -> ibis.expr.types.IntegerValue:
    """How many persons of a universe a household has, before truncation."""
    total = ibis.literal(0, "int64")
    for name, codes in zip(kind_columns(plan), plan.kinds, strict=True):
        if plan.kind_coding.mask(codes[:1], universe.persons)[0]:
            total = total + table[name]
    return total


def sizes(households: Table, plan: Plan) -> Table:
    """One row: for each universe, its persons before truncation (total0, …) and those beyond τ (beyond0, …).

    Each row of `households` stands for n of them.
    """
    columns = {}
    for i, universe in enumerate(plan.universes):
        size = size_of(households, plan, universe)
        columns[f"total{i}"] = (size * households.n).sum().cast("int64")
        columns[f"beyond{i}"] = (ibis.greatest(size - universe.tau, 0) * households.n).sum().cast("int64")
    return households.aggregate(**columns)


def universe_of(persons: Table, universe: Universe) -> Table:
    """The persons who pass a universe's filter."""
    passes = [persons[column].isin(sorted(codes)) for column, codes in universe.persons.terms]
    return persons.filter(passes) if passes else persons


def oversized(households: Table, plan: Plan) -> Table:
    """Households above the threshold of some universe: their MAFID, unit, region and universe sizes."""
    sizes = {f"size{i}": size_of(households, plan, u) for i, u in enumerate(plan.universes)}
    table = households.select("MAFID", "unit", "region", **sizes)
    above = [table[f"size{i}"] > u.tau for i, u in enumerate(plan.universes)]
    return table.filter(ibis.or_(*above))


def members(persons: Table, oversized_households: Table) -> Table:
    """The persons of oversized households, each with its key in the order of 2020 and its household's columns."""
    joined = persons.select(*PERSONS.names).inner_join(oversized_households, "MAFID")
    columns = list(PERSONS.names)
    numbered = joined.mutate(
        twin=(ibis.row_number().over(group_by=columns, order_by=columns) + 1).cast("int64")
    )
    return numbered.mutate(key=order_key(numbered))


def order_key(table: Table) -> StringValue:
    """h(h(h(RTYPE),h(MAFID),…,h(d))), h being lower-case hex SHA-256."""
    digests = [_digest(table[name], name in BINARY) for name in PERSONS.names]
    digests.append(_digest(table.twin, binary=True))
    return ibis.literal(",").join(digests).hexdigest("sha256").hexdigest("sha256")


def _digest(column: ibis.expr.types.Column, binary: bool) -> StringValue:
    text = _binary(column.cast("int64")) if binary else column.cast("string")
    return text.fill_null("").hexdigest("sha256")


def dropped(members: Table, plan: Plan, index: int) -> Table:
    """How many persons of a universe are dropped, by person code, unit and region."""
    universe = plan.universes[index]
    large = members.filter(members[f"size{index}"] > universe.tau)
    passing = universe_of(large, universe)
    # Keys differ unless SHA-256 collides; the record itself then decides, so that the order is always total.
    order = ["key", *(name for name in PERSONS.names if name != "MAFID"), "twin"]
    ranked = passing.mutate(rank=ibis.row_number().over(group_by="MAFID", order_by=order))
    beyond = ranked.filter(_.rank >= universe.tau)
    coded = beyond.select("unit", "region", code=plan.persons.expression(beyond))
    return coded.group_by("code", "unit", "region").agg(n=_.count().cast("int64"))
