"""Coverage of the truth on real public microdata, with shares learned elsewhere or on other states.

    python benchmarks/acs_holdout.py WORK PUMS_FILE... [--config us-measured] [--draws 100] [--worlds 10]

PUMS files are person files of the American Community Survey, expanded by weight. Three tests, printed as Markdown:

- the states as they are, with the shares that ship with the program;
- hold-out: every other state is estimated with shares learned on the rest, and the other way round;
- with --worlds, resampled populations: households are drawn with replacement within each state, then expanded. An
  expanded sample repeats each household about a hundred times. The few dozen large ones decide the truth of a whole
  table, so one population is one draw, however many releases of it are made.

Person files have no tenure, so PH7 and PH8 are left out.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
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

SETTINGS = Settings(skip_validation=True)
WITHOUT_TENURE = ("PH7", "PH8_denom", "PH7_oversized")
#: Thresholds beyond the one used, for the sizes of large households.
BEYOND = 8
#: Sampled households that draw learned factors towards 1, and about how many people they drop in an expanded sample.
FEW = 10 * 200.0


def config_of(name: str, states: list[str]) -> Config:
    """A shipped config for some states, without tables by tenure."""
    document = parameters_2020(name) | {"state_filter": states}
    for tabulation in set(WITHOUT_TENURE) & set(document["privacy_budget"]):
        document["privacy_budget"][tabulation] = dict.fromkeys(document["privacy_budget"][tabulation], 0)
    return Config.load(document)


def learned(config: Config, data: Path, counts: dict[bool, Counts]) -> PublicShares:
    """Shares of dropped people in some states. The sizes of a few more households are as in the shipped shares."""
    shipped = public_shares()
    dropped: dict[str, list[float]] = {}
    for j in range(BEYOND + 1):
        kept = count(replace(config, tau={n: tau + j for n, tau in config.tau.items()}), data, SETTINGS)
        for t in config.catalog.tabulations:
            if t.is_truncated and (t.name, "usa_*") in kept:
                lost = counts[False][t.name, "usa_*"].sum() - kept[t.name, "usa_*"].sum()
                dropped.setdefault(t.name, []).append(float(lost))
    curves = {}
    for name, lost in dropped.items():
        tau, people = config.tau[name], counts[False][name, "usa_*"].sum()
        usual = [shipped.dropped(name, tau + j) for j in range(BEYOND + 1)]
        weight = FEW / usual[0]
        curves[name] = {
            str(tau + j): 100 * (n + weight * u) / (people + weight) for j, (n, u) in enumerate(zip(lost, usual, strict=True))
        }
    return PublicShares("other states", study.public_shares(config, counts, curves, FEW))


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


def world(config: Config, data: Path, cache: Path) -> tuple[study.World, dict[bool, Counts]]:
    """A population, with its counts computed once."""
    counts = study.exact(config, data, cache)
    return study.World.of(config, counts), counts


def main() -> None:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--config", default="us-measured")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--worlds", type=int, default=0)
    arguments = parser.parse_args()
    arguments.work.mkdir(exist_ok=True)
    data = arguments.work / "acs"
    if not data.exists():
        pums(data, arguments.files, expand=True)
    states = sorted(p.stem for p in (data / "units").iterdir())
    print(json.dumps({"states": states, "config": arguments.config, "draws": arguments.draws}))
    everywhere = config_of(arguments.config, states)
    whole, _ = world(everywhere, data, arguments.work / f"acs-{arguments.config}.pickle")
    print("\n**Shipped shares**\n")
    print(study.coverage_report(study.coverage(whole, arguments.draws, 0)))
    halves = (states[::2], states[1::2])
    for train, test in (halves, halves[::-1]):
        name = "-".join(train)
        source = config_of("us-measured", train)
        _, counts = world(source, data, arguments.work / f"acs-{name}-us-measured.pickle")
        config = config_of(arguments.config, test)
        tested, _ = world(config, data, arguments.work / f"acs-{'-'.join(test)}-{arguments.config}.pickle")
        print(f"\n**Shares of {', '.join(train)}, tested on {', '.join(test)}**\n")
        print(study.coverage_report(study.coverage(tested, arguments.draws, 0, learned(source, data, counts))))
    parts = []
    for seed in range(arguments.worlds):
        folder = arguments.work / f"acs-{seed}"
        if not folder.exists():
            pums(folder, resampled(arguments.files, arguments.work / f"files-{seed}", seed), expand=True)
        one, _ = world(everywhere, folder, arguments.work / f"acs-{seed}-{arguments.config}.pickle")
        parts.append(study.coverage(one, max(arguments.draws // arguments.worlds, 1), seed))
    if parts:
        print(f"\n**{arguments.worlds} resampled populations**\n")
        print(study.coverage_report(pl.concat(parts)))


if __name__ == "__main__":
    main()
