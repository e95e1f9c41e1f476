"""What structured noise and ties of blind counts gain: errors and coverage of finished count tables, by mode.

    python benchmarks/structured_gains.py WORK                         one million households, 4 releases of each mode
    python benchmarks/structured_gains.py WORK --config us --draws 20

Budgets of every mode are scaled to the unbounded loss of the published one. Exact counts are computed once and kept in
WORK. Noise is normal from NumPy, which is good enough for a benchmark. Prints Markdown: for each table and level, and
for the total lines of everyone, the RMSE of finished lines against the untruncated truth, and the share of 90 %
intervals that contain it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
from estimation_errors import World, exact

from phsafe.configs.config import Config
from phsafe.configs.grid import Counts
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation.beyond_threshold import everybody
from phsafe.estimation.everybody_ties import tied
from phsafe.estimation.joint_model import count_intervals
from phsafe.privacy.accountant import plan
from phsafe.synthetic import synth

#: Column → sensitivity mode, and whether blind counts are tied to truncated ones.
COLUMNS = {
    "published": ("published", True),
    "tight": ("tight", True),
    "structured, untied": ("structured", False),
    "structured": ("structured", True),
}


def at_loss_of(config: Config, other: Config) -> Config:
    """The config with budgets scaled to the unbounded loss of another one."""
    factor = Decimal(float(plan(other).total.unbounded / plan(config).total.unbounded))
    budgets = {
        name: {key: (b * factor).quantize(Decimal("1e-9")) for key, b in levels.items()}
        for name, levels in config.budgets.items()
    }
    return replace(config, budgets=budgets)


def run(config: Config, counts: dict[bool, Counts], draws: int, is_tied: bool) -> dict[tuple[str, str], np.ndarray]:
    """Squared errors, hits and the number of intervals, summed over lines and draws, by tabulation and level."""
    world = World.of(config, counts)
    lines, truth = world.lines, world.lines.sums @ world.everyone
    found: dict[tuple[str, str], np.ndarray] = {}
    for drawn, fit in world.draws(draws, 2020):
        model = everybody(drawn, fit)
        model = tied(drawn, model) if is_tied else model
        low, high = count_intervals(model, lines.sums, np.sqrt(model.variance(lines.sums)))
        center = lines.sums @ model.estimates
        inside = (np.floor(low) <= truth) & (truth <= np.ceil(high))
        for block in lines.blocks:
            where = lines.where[block.tabulation.name, block.level.key]
            parts = {block.tabulation.name: where.ravel()}
            if block.level.iteration_level.is_total:
                parts[f"{block.tabulation.name}, total"] = where[0]
            for name, rows in parts.items():
                sums = [np.square(center - truth)[rows].sum(), inside[rows].sum(), len(rows)]
                found[name, block.level.key] = found.get((name, block.level.key), np.zeros(3)) + sums
    return found


def main() -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--config", default="us-measured", help="name of a shipped config")
    parser.add_argument("--households", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=4)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    published = Config.load(parameters_2020(arguments.config))
    data = arguments.work / f"data-{arguments.households}"
    if not data.exists():
        synth(data, arguments.households, published.states, seed=2020)
    results = {}
    for name, (mode, is_tied) in COLUMNS.items():
        config = at_loss_of(published.with_sensitivity(mode), published)
        kind = "structured" if mode == "structured" else "joined"
        counts = exact(config, data, arguments.work / f"{arguments.config}-{arguments.households}-{kind}.pickle")
        results[name] = run(config, counts, arguments.draws, is_tied)
    print("| table | level |" + "".join(f" {name}: RMSE | covers, % |" for name in COLUMNS))
    print("|---|---|" + "---|---|" * len(COLUMNS))
    for key in results["published"]:
        cells = [results[name][key] for name in COLUMNS]
        shown = "".join(f" {np.sqrt(c[0] / c[2]):,.0f} | {100 * c[1] / c[2]:.1f} |" for c in cells)
        print(f"| {key[0]} | `{key[1]}` |{shown}")


if __name__ == "__main__":
    main()
