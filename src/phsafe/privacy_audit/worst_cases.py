"""Worst-case neighbours in many independent worlds; a world is one region that changes and one that doesn't.

The regions of a level get independent noise, so one run over many worlds gives as many independent trials. In each
world a person leaves a household, which moves its other members from one cell to the other; for bounded neighbours
that person joins a second household in the same region, with the same effect. By claims C4 and C5 no change is larger.
Where cells read ages alone, the unit can't move anyone, and becomes group quarters instead: all other members vanish if
the unit is joined (claim C16), and none of them if it is not (claim C17).

The two levels list the regions of a world in opposite order, so a mechanism that reuses its noise for both levels adds
the same noise to a count that changes and to one that doesn't.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from phsafe.configs.config import Config
from phsafe.engines import open_engine
from phsafe.model.conditions import Code, where
from phsafe.model.levels import UNATTRIBUTED, Geography, Level
from phsafe.model.schema import GROUP_QUARTERS, HOUSING_UNIT
from phsafe.model.spec import Catalog, Line, Table, Tabulation
from phsafe.pipeline.scan import scan_tables
from phsafe.readers import load

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from phsafe.configs.grid import Counts
    from phsafe.privacy_math.sensitivity import Definition, Mode

STATE = "44"
TAU = 3
OWNER, RENTER = "1", "3"
BY_TENURE = {1: where(TEN=OWNER), 2: where(TEN=RENTER)}
BY_AGE = {1: where(QAGE=range(18)), 2: where(QAGE=range(18, 116))}
LEVELS = ("tract_*", "place_*")
#: Outputs of a world: two levels × two regions × two cells.
WORLD = 8


@dataclass(frozen=True)
class Neighbours:
    """The exact counts of two neighbouring populations over a number of worlds, with their config."""

    config: Config
    bounded: bool
    counts: tuple[Counts, Counts]

    @property
    def values(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The counts of each population as worlds × 8, in the order level, region, cell."""
        first, second = (by_world({k[1]: v for k, v in counts.items()}) for counts in self.counts)
        return first, second


def by_world(vectors: dict[str, NDArray[np.int64]]) -> NDArray[np.int64]:
    """Rearrange the vectors of both levels as worlds × 8."""
    return np.concatenate([vectors[key].reshape(-1, WORLD // 2) for key in LEVELS], axis=1)


def neighbours(
    worlds: int,
    definition: Definition,
    mode: Mode,
    stated: tuple[str, str],
    *,
    units: bool = False,
    bounded: bool = False,
    by_age: bool = False,
) -> Neighbours:
    """Build worst-case neighbours and count them with the real engine.

    Args:
        worlds: Number of worlds.
        definition: Privacy definition of the config.
        mode: Sensitivity mode of the config.
        stated: Budgets of the two levels.
        units: Count housing units rather than persons.
        bounded: Replace a person's record rather than removing it.
        by_age: Count by age rather than tenure.
    """
    catalog = _catalog(worlds, units, by_age)
    config = Config.load(
        {
            "privacy_budget": {"AUDIT": {k: float(v) for k, v in zip(LEVELS, stated, strict=True)}},
            "tau": {} if units else {"AUDIT": TAU},
            "state_filter": [STATE],
            "privacy_defn": definition,
            "sensitivity": mode,
        },
        catalog,
    )
    before, after = (_counts(config, _frames(worlds, bounded, moved, by_age)) for moved in (False, True))
    return Neighbours(config, bounded, (before, after))


def _counts(config: Config, frames: dict[str, pa.Table]) -> Counts:
    with open_engine() as engine:
        return scan_tables(load(frames, engine), config, engine).counts()


def _catalog(worlds: int, units: bool, by_age: bool) -> Catalog:
    """A catalog with one tabulation by tenure or by age, at two levels with two regions per world."""
    tracts = [f"{STATE}{region:06d}" for region in range(2 * worlds)]
    # The second level lists the unchanged region of each world first.
    places = [f"{STATE}{region:05d}" for world in range(worlds) for region in (2 * world + 1, 2 * world)]
    columns = {"tract": "TABTRACTCE", "place": "PLACEFP"}
    levels = tuple(
        Level(
            Geography(key, key, key.upper(), ("TABBLKST", columns[key]), tuple((r, r) for r in regions)),
            UNATTRIBUTED,
        )
        for key, regions in (("tract", tracts), ("place", places))
    )
    tabulation = Tabulation(
        "AUDIT",
        cells=BY_AGE if by_age else BY_TENURE,
        persons=None if units else where(RTYPE=3),
        iterate_by=None,
    )
    shell = (Line(1, "First cell"), Line(2, "Second cell"))
    return Catalog((Table("AUDIT", "Audit", "Synthetic people", shell, (tabulation,)),), levels)


def _frames(worlds: int, bounded: bool, moved: bool, by_age: bool) -> dict[str, pa.Table]:
    """The records of all worlds, before or after the change."""
    persons: list[tuple[int, int]] = []
    units: list[tuple[int, str, int, int]] = []
    for world in range(worlds):
        mafid = 100_000_001 + 3 * world
        tenure = RENTER if moved else OWNER
        homes = [(mafid, 2 * world, tenure, TAU if moved else TAU + 1)]
        if bounded:
            homes.append((mafid + 1, 2 * world, tenure, TAU + 1 if moved else TAU))
        homes.append((mafid + 2, 2 * world + 1, OWNER, 1))
        for home, region, tenure_code, people in homes:
            vanished = by_age and moved and home != mafid + 2
            units.append((home, tenure_code, region, GROUP_QUARTERS if vanished else HOUSING_UNIT))
            persons += [(home, age) for age in range(30, 30 + people)]
    people_of, ages = np.array(persons).T
    homes_of, regions, rtypes = np.array([(home, region, rtype) for home, _, region, rtype in units]).T
    tenures = [tenure for _, tenure, _, _ in units]
    constant = {"NPF": 0, "HHSPAN": 1, "HHRACE": "01", "HHT": "1", "HHT2": "01", "CPLT": "1", "FINAL_POP": 1}
    return {
        "persons": _table(
            {"RTYPE": 3, "MAFID": people_of, "QAGE": ages, "CENHISP": 1, "CENRACE": "01", "RELSHIP": "20"}
        ),
        "units": _table({"RTYPE": rtypes.tolist(), "MAFID": homes_of, "TEN": tenures} | constant),
        "geo": _table(
            {
                "RTYPE": rtypes.tolist(),
                "MAFID": homes_of,
                "TABBLKST": STATE,
                "TABTRACTCE": [f"{region:06d}" for region in regions],
                "PLACEFP": [f"{region:05d}" for region in regions],
            }
        ),
    }


def _table(columns: Mapping[str, Code | Sequence[Code]]) -> pa.Table:
    """A table in which single values are repeated to the length of MAFID."""
    mafids = columns["MAFID"]
    assert not isinstance(mafids, int | str)
    return pa.table({k: [v] * len(mafids) if isinstance(v, int | str) else list(v) for k, v in columns.items()})
