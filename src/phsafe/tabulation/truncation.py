"""Which persons a threshold drops: those beyond the first τ of a household in the order of 2020.

The order looks at the records of one household that passed the person filter, and at nothing else (claim C1.1 of
docs/privacy.md). Identical records are numbered inside the household, so that each has its own key. Only households
with more persons than some threshold are looked at: *numerous* ones have more persons than the lowest, *crowded* ones
may be above one, *oversized* ones are.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis
from ibis.expr.types import StringValue, Table

from phsafe.engine import Engine
from phsafe.schema import PERSONS
from phsafe.tabulation.people import kind, passes, passing
from phsafe.tabulation.plan import Plan

#: Columns whose values are written in binary before they are hashed; the others are hashed as they are.
BINARY = ("MAFID", "QAGE", "CENHISP")


def _bin(number: int) -> str:  # type: ignore[empty-body]
    """Both engines' own `bin`: binary digits without prefix or leading zeros."""


_binary = ibis.udf.scalar.builtin(_bin, name="bin")


def numerous(persons: Table, households: Table, plan: Plan, engine: Engine) -> Table:
    """The households with more persons than the lowest threshold: no other can be above any."""
    keys = engine.frequent(passing(persons, plan.anybody).select("MAFID"), min(plan.thresholds))
    return keys.semi_join(households, "MAFID")


def larger(sizes: Table, households: Table, plan: Plan) -> Table:
    """As `numerous`, where somebody has counted the persons of each MAFID, and none too few."""
    keys = sizes.filter(sizes.persons > min(plan.thresholds)).select("MAFID")
    return keys.semi_join(households, "MAFID")


def persons_of(numerous_keys: Table, persons: Table, columns: Sequence[str]) -> Table:
    """The persons of some MAFIDs."""
    return persons.select(*columns).semi_join(numerous_keys, "MAFID")


def crowded(persons: Table, households: Table, plan: Plan, engine: Engine) -> Table:
    """MAFID and place of the households that may be above a threshold: so many may be in a universe with it."""
    keys = [
        engine.frequent(passing(persons, condition).select("MAFID"), tau)
        for tau, condition in plan.thresholds.items()
    ]
    return households.semi_join(ibis.union(*keys, distinct=False), "MAFID")


def members(persons: Table, crowded_households: Table) -> Table:
    """The persons of crowded households, each with its household's place."""
    return persons.inner_join(crowded_households, "MAFID")


def oversized(crowded_members: Table, plan: Plan) -> Table:
    """MAFID and size in each universe (size0, …) of the households above the threshold of some universe."""
    sizes = {
        f"size{i}": crowded_members.count(where=passes(crowded_members, u.persons)).cast("int64")
        for i, u in enumerate(plan.universes)
    }
    table = crowded_members.group_by("MAFID").agg(**sizes)
    return table.filter(ibis.or_(*(table[f"size{i}"] > u.tau for i, u in enumerate(plan.universes))))


def beyond(oversized_households: Table, plan: Plan) -> Table:
    """One row: how many persons of each universe are beyond its threshold (beyond0, …)."""
    table = oversized_households
    return table.aggregate(
        **{
            f"beyond{i}": ibis.greatest(table[f"size{i}"] - u.tau, 0).sum().fill_null(0).cast("int64")
            for i, u in enumerate(plan.universes)
        }
    )


def keyed(crowded_members: Table, oversized_households: Table) -> Table:
    """The persons of oversized households, each with its key in the order of 2020."""
    persons = crowded_members.semi_join(oversized_households, "MAFID")
    columns = list(PERSONS.names)
    numbered = persons.mutate(
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


def dropped(keyed_members: Table, plan: Plan) -> Table:
    """How many persons of each universe are dropped (n0, …), by kind."""
    # Keys differ unless SHA-256 collides; the record itself then decides, so that the order is always total.
    order = ["key", *(name for name in PERSONS.names if name != "MAFID"), "twin"]
    table = keyed_members.mutate(
        **{
            f"inside{i}": passes(keyed_members, u.persons).fill_null(False)
            for i, u in enumerate(plan.universes)
        }
    )
    # Those inside a universe are ranked among themselves: by how many of them stand no later in the household's order.
    up_to_here = ibis.window(group_by="MAFID", order_by=order, preceding=None, following=0)
    ranked = table.select(
        "place",
        code=plan.persons.expression(table),
        **{
            f"is_dropped{i}": table[f"inside{i}"]
            & (table[f"inside{i}"].cast("int64").sum().over(up_to_here) > u.tau)
            for i, u in enumerate(plan.universes)
        },
    )
    counts = {
        f"n{i}": ranked.count(where=ranked[f"is_dropped{i}"]).cast("int64")
        for i in range(len(plan.universes))
    }
    return ranked.group_by(kind=kind(ranked, plan)).agg(**counts)
