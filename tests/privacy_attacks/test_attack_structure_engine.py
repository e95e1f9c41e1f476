"""Neighbours through the real engine, mode by mode: no block and no tabulation exceeds what its structure allows.

Claims C16 to C19. Each world is a region of its own with two households, so one run tries hundreds of neighbours.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from engine import count
from population import FIRST_MAFID, frames, hostile_unit, random_person, realistic_unit
from test_attack_neighbours import config_of, worlds_catalog

from phsafe.model.schema import GROUP_QUARTERS
from phsafe.privacy.accountant import plan

WORLDS = 200
MODES = ("tight", "tight-bounded", "structured")


def vanishing_unit(mafid, members):
    """A unit that becomes group quarters, or vanishes, with every other member, and is otherwise hostile."""
    (unit,) = hostile_unit(mafid, members)[:1] or realistic_unit(mafid, members)
    if len(members) % 2:
        return [unit._replace(rtype=2)]
    return [unit._replace(rtype=GROUP_QUARTERS)] if len(members) % 4 else []


def family_gate(mafid, members):
    """A unit whose only change is between a family and a nonfamily household."""
    (unit,) = realistic_unit(mafid, members)
    return [unit._replace(hht="1" if len(members) % 2 else "5", hhrace="01", hhspan=1, ten="1", hht2="01", cplt="1")]


def tables(people, homes, unit_of):
    """The input tables; in geo, too, the record type of a household is that of its unit."""
    found = frames(people, homes, unit_of)
    units = found["units"].to_pydict()
    rtype = dict(zip(units["MAFID"], units["RTYPE"], strict=True))
    geo = found["geo"]
    column = pa.array([rtype.get(m, 2) for m in geo["MAFID"].to_pylist()], pa.int32())
    return found | {"geo": geo.set_column(0, "RTYPE", column)}


@cache
def counted(unit_of, tau: int, mode: str):
    """The counts of a population, with one record more, and with one record replaced."""
    rng = np.random.default_rng(2020 + tau)
    config = config_of(tau, worlds_catalog(WORLDS), "tract").with_sensitivity(mode)
    homes, populations = {}, {"base": [], "added": [], "replaced": []}
    for world in range(WORLDS):
        pair = (FIRST_MAFID + 2 * world, FIRST_MAFID + 2 * world + 1)
        homes |= dict.fromkeys(pair, ("44", f"{world:06d}"))
        people = [random_person(rng, int(rng.choice(pair))) for _ in range(rng.integers(1, 3 * tau + 4))]
        extra = random_person(rng, int(rng.choice(pair)))
        populations["base"] += people
        populations["added"] += [*people, extra]
        populations["replaced"] += [*people[1:], extra]
    return config, {name: count(config, tables(p, homes, unit_of)) for name, p in populations.items()}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("unit_of", "tau"), [(vanishing_unit, 2), (family_gate, 3), (hostile_unit, 1)])
def test_no_block_and_no_tabulation_exceeds_its_claim(unit_of, tau, mode):
    """C16 to C19: the distances of every block, and the joint loss of every tabulation and of the run."""
    config, counts = counted(unit_of, tau, mode)
    account = plan(config)
    reached = 0
    for other, bounded in (("added", False), ("replaced", True)):
        losses: dict[str, np.ndarray] = {}
        for m, event in zip(config.measurements(), account.events, strict=True):
            key = (m.tabulation.name, m.level.key)
            change = (counts[other][key] - counts["base"][key]).reshape(WORLDS, -1, len(m.tabulation.cells))
            for one in event.blocks:
                columns = [list(m.tabulation.cells).index(cell) for cell in one.block.cells]
                moved = change[:, :, columns].reshape(WORLDS, -1)
                l1, l2 = np.abs(moved).sum(axis=1), (moved**2).sum(axis=1)
                delta = one.block.delta
                assert l1.max() <= (delta.bounded_l1 if bounded else delta.l1), (key, one.block)
                assert l2.max() <= (delta.bounded_l2_squared if bounded else delta.l2_squared), (key, one.block)
                reached += int(l2.max() == (delta.bounded_l2_squared if bounded else delta.l2_squared))
                loss = l2 / (2 * one.noise.variance)
                losses[m.tabulation.name] = losses.get(m.tabulation.name, np.zeros(WORLDS)) + loss
        for name, claimed in account.totals("tabulation").items():
            assert losses[name].max() <= float(claimed.bounded if bounded else claimed.unbounded) * (1 + 1e-9), name
        everything = sum(losses.values())
        assert everything.max() <= float(account.total.bounded if bounded else account.total.unbounded) * (1 + 1e-9)
    assert reached > 3, "the bounds are attained, so the test could fail"


def test_a_joined_count_treated_as_blind_would_be_caught():
    """With units that vanish, the joined total moves by τ; counted without units, it moves by one."""
    for mode, square in (("tight", 2**2), ("structured", 1)):
        _, counts = counted(vanishing_unit, 2, mode)
        change = counts["added"]["PH1_num", "tract_*"] - counts["base"]["PH1_num", "tract_*"]
        assert (change.reshape(WORLDS, -1) ** 2).sum(axis=1).max() == square


def test_blind_counts_do_not_depend_on_units():
    """Whatever the unit function, and wherever truncation cuts, blind cells are the same."""
    found = [counted(unit_of, 2, "structured")[1]["base"] for unit_of in (vanishing_unit, family_gate, hostile_unit)]
    for key in (("PH1_num", "tract_*"), ("PH3", "tract_*"), ("PH3", "tract_A-G"), ("PH3", "tract_H,I")):
        cells = slice(None) if key[0] == "PH1_num" else [0, 5, 6]
        vectors = [counts[key].reshape(-1, 2 if key[0] == "PH1_num" else 7)[:, cells] for counts in found]
        assert all((vector == vectors[0]).all() for vector in vectors)
        assert vectors[0].sum() > 100


def ties(unit_of, tau):
    """For every world and cell of PH1_num: the blind count less dropped persons, and the truncated count."""
    _, counts = counted(unit_of, tau, "structured")
    for counted_once in counts.values():
        blind, beyond = (
            counted_once[key].reshape(WORLDS, 2) for key in (("PH1_num", "tract_*"), ("PH1_dropped", "tract_*"))
        )
        kept = counted_once["PH1_num", "tract_A-G"].reshape(WORLDS, 7, 2).sum(axis=1)
        totals = [counted_once[name, "tract_*"].reshape(WORLDS, -1).sum(axis=1) for name in ("PH2", "PH7")]
        yield blind - beyond, kept, totals


@pytest.mark.parametrize("tau", [1, 2, 3])
def test_a_blind_count_is_the_truncated_count_plus_dropped_persons(tau):
    """Joint estimation relies on it, for households whose unit counts; in every world, for every truncation."""
    for untied, kept, totals in ties(family_gate, tau):
        assert (untied == kept).all()
        assert all((total == kept.sum(axis=1)).all() for total in totals)
        assert kept.sum() > 100


@pytest.mark.parametrize("unit_of", [vanishing_unit, hostile_unit])
def test_persons_without_a_unit_that_counts_break_the_tie(unit_of):
    """Why estimation assumes what validation checks: they are in the blind count and in no other."""
    assert any((untied > kept).any() for untied, kept, _ in ties(unit_of, 2))
    assert all((untied >= kept).all() for untied, kept, _ in ties(unit_of, 2))
