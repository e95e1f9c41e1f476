"""Coverage of the truth on real public microdata, with shares learned elsewhere or on other states.

    python benchmarks/acs_holdout.py WORK PUMS_FILE... [--config us-measured] [--draws 40] [--worlds 10]

PUMS files are person files of the American Community Survey, expanded by weight. Printed as Markdown:

- the states as they are, with the shares that ship with the program;
- hold-out: shares learned on half of the states, tested on the other half, for every choice of a half. They are shrunk
  towards the shipped shares of the nation, since a sample of three states has few large households;
- with --worlds, both again for resampled populations: households are drawn with replacement within each state, then
  expanded. An expanded sample repeats each household about a hundred times. The few dozen large ones decide the truth
  of a whole table, so one population is one draw, however many releases of it are made.

Person files have no tenure, so PH7 and PH8 are left out.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from math import comb
from pathlib import Path
from zipfile import ZipFile

import estimation_errors as study
import numpy as np
import polars as pl

from phsafe.acs_pums import pums
from phsafe.configs.config import Config
from phsafe.configs.grid import Counts
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation.public_shares import PublicShares, public_shares
from phsafe.pipeline.scan import Settings, count

WITHOUT_TENURE = ("PH7", "PH8_denom", "PH7_oversized")
#: Thresholds beyond the one used, for the sizes of large households.
BEYOND = 8
#: What the shipped shares weigh against learned ones: about the people that ten sampled households drop when expanded.
#: States differ from the nation by about as much as the share of ten sampled households varies.
FEW = 10 * 200.0
#: The standard deviation of the logarithm of states' shipped shares: how far off the share of one state may be.
STATES_DIFFER = 0.8
#: The config whose counts serve all others.
FULL = "us-measured"


def config_of(name: str, states: Sequence[str]) -> Config:
    """A shipped config for some states, without tables by tenure."""
    document = parameters_2020(name) | {"state_filter": list(states)}
    for tabulation in set(WITHOUT_TENURE) & set(document["privacy_budget"]):
        document["privacy_budget"][tabulation] = dict.fromkeys(document["privacy_budget"][tabulation], 0)
    return Config.load(document)


class Population:
    """The exact counts of some states, from which those of fewer states follow.

    Attributes:
        states: The states.
        kept: Counts at the thresholds of the config, then at thresholds higher by 1, 2, …
        everyone: Counts without truncation.
    """

    def __init__(self, data: Path, cache: Path) -> None:
        self.states = sorted(path.stem for path in (data / "units").iterdir())
        self._config = config_of(FULL, self.states)
        if not cache.exists():
            cache.write_bytes(pickle.dumps(self._count(data)))
        self.kept, self.everyone = pickle.loads(cache.read_bytes())

    def _count(self, data: Path) -> tuple[list[Counts], Counts]:
        taus = [{name: tau + j for name, tau in self._config.tau.items()} for j in range(BEYOND + 1)]
        settings = Settings(skip_validation=True)
        kept = [dict(count(replace(self._config, tau=tau), data, settings)) for tau in taus]
        return kept, dict(count(self._config, data, replace(settings, truncate=False)))

    def of(self, counts: Counts, config: Config) -> Counts:
        """The counts of the states of a config: the nation is their sum."""
        chosen = [self.states.index(state) for state in config.states]
        found = {}
        for m in config.measurements():
            name, iterations = m.tabulation.name, m.level.key.split("_")[1]
            by_state = counts[name, f"state_{iterations}"].reshape(len(self.states), -1)[chosen]
            is_nation = m.level.key.startswith("usa")
            found[name, m.level.key] = by_state.sum(axis=0) if is_nation else by_state.ravel()
        return found

    def pair(self, config: Config) -> dict[bool, Counts]:
        """The counts of the states of a config, with truncation and without."""
        return {True: self.of(self.kept[0], config), False: self.of(self.everyone, config)}

    def learned(self, states: Sequence[str]) -> PublicShares:
        """Shares of dropped people in some states, drawn towards the shipped ones: large households are few."""
        shipped, config = public_shares(), config_of(FULL, states)
        curves = {}
        for t in config.catalog.tabulations:
            key = (t.name, "usa_*")
            if t.is_truncated and key in self.of(self.everyone, config):
                people = self.of(self.everyone, config)[key].sum()
                lost = [people - self.of(kept, config)[key].sum() for kept in self.kept]
                usual = [shipped.dropped(t.name, config.tau[t.name] + j) for j in range(BEYOND + 1)]
                weight = FEW / usual[0]
                shares = [(n + weight * u) / (people + weight) for n, u in zip(lost, usual, strict=True)]
                curves[t.name] = {str(config.tau[t.name] + j): 100 * share for j, share in enumerate(shares)}
        deviation = float(np.hypot(shipped.deviation, STATES_DIFFER / len(states) ** 0.5))
        return PublicShares("other states", study.public_shares(config, self.pair(config), curves, FEW), deviation)

    def shipped(self, name: str, draws: int, seed: int) -> pl.DataFrame:
        """Coverage of all states with the shipped shares."""
        config = config_of(name, self.states)
        return study.coverage(study.World.of(config, self.pair(config)), draws, seed)

    def hold_out(self, name: str, draws: int, seed: int) -> pl.DataFrame:
        """Coverage of every half of the states with shares learned on the other half."""
        # Halves share states: releases of all of them count as one.
        return pl.concat(list(self._halves(name, draws, seed))).with_columns(SEED=pl.lit(seed))

    def _halves(self, name: str, draws: int, seed: int) -> Iterator[pl.DataFrame]:
        for i, train in enumerate(combinations(self.states, len(self.states) // 2)):
            config = config_of(name, [state for state in self.states if state not in train])
            world = study.World.of(config, self.pair(config))
            yield study.coverage(world, draws, 1000 * seed + i, self.learned(train))


def resampled(files: list[Path], folder: Path, seed: int) -> list[Path]:
    """Person files with households drawn with replacement within each state."""
    rng = np.random.default_rng(seed)
    folder.mkdir()
    found = []
    for file in files:
        with ZipFile(file) as archive:
            name = next(n for n in archive.namelist() if n.lower().endswith(".csv"))
            people = pl.read_csv(archive.read(name), infer_schema=False)
        homes = people.select(pl.col("SERIALNO").unique(maintain_order=True))
        drawn = homes[rng.integers(0, len(homes), len(homes))].with_columns(
            # The year and the kind of unit, the state, and a number.
            NEW=pl.col("SERIALNO").str.head(6) + people["ST"][0] + pl.int_range(pl.len()).cast(pl.String).str.zfill(5)
        )
        result = drawn.join(people, on="SERIALNO", maintain_order="left")
        result = result.with_columns(SERIALNO="NEW").select(people.columns)
        found.append(folder / name)
        result.write_csv(found[-1])
    return found


def report(title: str, lines: pl.DataFrame) -> None:
    """Print coverage as Markdown."""
    print(f"\n**{title}**\n\n{study.coverage_report(lines)}", flush=True)


def main() -> None:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--config", default=FULL)
    parser.add_argument("--draws", type=int, default=40, help="releases of a population, divided over hold-outs")
    parser.add_argument("--worlds", type=int, default=0)
    arguments = parser.parse_args()
    name, draws = arguments.config, arguments.draws
    arguments.work.mkdir(exist_ok=True)
    data = arguments.work / "acs"
    if not data.exists():
        pums(data, arguments.files, expand=True)
    survey = Population(data, arguments.work / "acs.pickle")
    halves = comb(len(survey.states), len(survey.states) // 2)
    print(json.dumps({"states": survey.states, "config": name, "draws": draws, "halves": halves}))
    report("Shipped shares", survey.shipped(name, draws, 0))
    report("Hold-out", survey.hold_out(name, max(draws // halves, 1), 0))
    shipped, held_out = [], []
    for seed in range(arguments.worlds):
        folder = arguments.work / f"acs-{seed}"
        if not folder.exists():
            pums(folder, resampled(arguments.files, arguments.work / f"files-{seed}", seed), expand=True)
        world = Population(folder, arguments.work / f"acs-{seed}.pickle")
        shipped.append(world.shipped(name, max(draws // arguments.worlds, 1), seed))
        held_out.append(world.hold_out(name, 1, seed + 1))
    if shipped:
        report(f"{arguments.worlds} resampled populations, shipped shares", pl.concat(shipped))
        report(f"{arguments.worlds} resampled populations, hold-out", pl.concat(held_out))


if __name__ == "__main__":
    main()
