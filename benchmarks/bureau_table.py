"""RMSE and coverage of all finished tables for states, in the columns of the Census Bureau's own report on its model.

    python benchmarks/bureau_table.py WORK --config us-measured --households 126800000 --draws 3

Uses the exact counts that `estimation_errors.py` keeps in WORK, or makes them. Prints Markdown: the RMSE of raw values
and of the independent method against truncated values, with coverage of these; and the RMSE and coverage of the joint
method against the untruncated truth.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import estimation_errors
import numpy as np
import polars as pl

from phsafe.accuracy_study.truth import LINE_KEYS
from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation import estimate_frames
from phsafe.pipeline.exact_tables import exact_lines
from phsafe.privacy.accountant import noise_by_level, plan
from phsafe.synthetic import synth


def release(config: Config, kept: grid.Counts, rng: np.random.Generator) -> tuple[dict[str, pl.DataFrame], grid.Counts]:
    """One noisy release: frames by tabulation, and counts by measurement."""
    measured = estimation_errors.skeleton(config)
    noisy = {}
    drawn = estimation_errors.noise(measured, rng).astype(np.int64)
    for (name, level), block in measured.blocks.items():
        places = block.positions().ravel()
        noisy[name, level] = kept[name, level] + drawn[places]
    names, noise = dict.fromkeys(name for name, _ in noisy), noise_by_level(plan(config))
    return {n: grid.output_frame(config, config.catalog.tabulation(n), noisy, noise) for n in names}, noisy


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--config", default="us")
    parser.add_argument("--households", type=int, default=1_000_000)
    parser.add_argument("--draws", type=int, default=3)
    arguments = parser.parse_args()
    config = Config.load(parameters_2020(arguments.config))
    data = arguments.work / f"{'-'.join(config.states[:6])}-{arguments.households}-0"
    cache = arguments.work / f"{data.name}-{arguments.config}-.pickle"
    if not data.exists() and not cache.exists():
        synth(data, arguments.households, config.states, seed=0)
    counts = estimation_errors.exact(config, data, cache)
    whole = {k: counts[config.catalog.tabulation(k[0]).beyond is not None][k] for k in counts[True]}
    values = {"TRUTH": exact_lines(config, whole), "CUT": exact_lines(config, counts[True])}
    parts, rng = [], np.random.default_rng(0)
    for _ in range(arguments.draws):
        frames, noisy = release(config, counts[True], rng)
        known = values | {"RAW": exact_lines(config, noisy)}
        for method in ("joint", "independent"):
            for name, frame in estimate_frames(config, frames, method).tables.items():
                both = frame.filter(REGION_TYPE="STATE")
                for column, tables in known.items():
                    both = both.join(tables[name].drop("LEVEL").rename({"VALUE": column}), on=LINE_KEYS)
                goal = pl.col("TRUTH" if method == "joint" else "CUT")
                parts.append(
                    both.filter(pl.col("TRUTH").is_finite() & pl.col("RAW").is_finite()).select(
                        pl.lit(name).alias("TABLE"),
                        pl.lit(method).alias("METHOD"),
                        RAW=pl.col("RAW") - pl.col("CUT"),
                        ERROR=pl.col("ESTIMATE").cast(pl.Float64) - goal,
                        COVERED=goal.is_between(pl.col("LOWER_90") - 1e-9, pl.col("UPPER_90") + 1e-9),
                    )
                )
    found = pl.concat(parts).group_by("TABLE", "METHOD")
    rows = found.agg(pl.col("RAW", "ERROR").pow(2).mean().sqrt(), 100 * pl.col("COVERED").mean())
    print("| table | noisy | independent | coverage, truncated | joint | coverage, truth |\n|---|---|---|---|---|---|")
    by = {(table, method): values for table, method, *values in rows.iter_rows()}
    for table in sorted({table for table, _ in by}):
        alone, joint = by[table, "independent"], by[table, "joint"]
        print(f"| {table} | {alone[0]:.2f} | {alone[1]:.2f} | {alone[2]:.1f} | {joint[1]:.2f} | {joint[2]:.1f} |")


if __name__ == "__main__":
    main()
