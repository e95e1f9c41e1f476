"""Errors and coverage of count tables over many releases, by table, level, region and group size.

    python benchmarks/estimation_errors.py WORK                  the United States at one million households
    python benchmarks/estimation_errors.py WORK --states 06,56 --households 100000 --draws 300
    python benchmarks/estimation_errors.py WORK --config us-measured --households 126800000 --draws 8
    python benchmarks/estimation_errors.py WORK --data acs --config acs.json
    python benchmarks/estimation_errors.py WORK --config us-measured --households 126800000 --shares FILE

Exact counts are computed once and kept in WORK. Noise is normal (or geometric) from NumPy, which is fast and good
enough for a benchmark. Prints Markdown: first the errors of raw counts, of least squares (m̂), of the joint and the
independent points against truncated counts (with --target everybody, m̂ and joint points include everybody, and errors
are those against the untruncated truth), and how often a point is outside its own interval before widening; then
coverage of the untruncated truth by the intervals, with and without the people beyond the thresholds.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.grid import Counts
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation.beyond_threshold import everybody
from phsafe.estimation.densities import DENSITIES
from phsafe.estimation.estimate_release import joint
from phsafe.estimation.everybody_ties import tied
from phsafe.estimation.fit import Fit, Projection, fit_with, project
from phsafe.estimation.joint_model import count_intervals
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.public_shares import PublicShares
from phsafe.estimation.published_lines import PublishedLines, published_lines
from phsafe.estimation.table_lines import counted
from phsafe.model.conditions import Where
from phsafe.pipeline.scan import Settings, count
from phsafe.privacy.accountant import noise_by_level, plan
from phsafe.synthetic import synth

LEVELS = {"*": "*", "H": "H, I", "I": "H, I"}
KEYS = ["TABLE", "TYPE", "REGION", "LEVEL", "ITERATION", "CELL"]
METHODS = ("raw", "mhat", "joint", "independent")
#: The thresholds of public shares, and the most people in a synthetic household.
THRESHOLDS, LARGEST_HOUSEHOLD = range(1, 21), 100
SHARES_OF = (
    "synthetic households of the 50 states and DC (phsafe synth), drawn to match shares of the American Community "
    "Survey 2024"
)


def exact(config: Config, data: Path, cache: Path) -> dict[bool, Counts]:
    """Counts with and without truncation, computed once."""
    if not cache.exists():
        found = {cut: dict(count(config, data, Settings(truncate=cut, skip_validation=True))) for cut in (True, False)}
        cache.write_bytes(pickle.dumps(found))
    return pickle.loads(cache.read_bytes())


def skeleton(config: Config) -> Measured:
    """The measurements of a config, without counts."""
    noise, blocks, variances, distribution = noise_by_level(plan(config)), {}, [], ""
    for m in config.measurements():
        key = (m.tabulation.name, m.level.key)
        groups = tuple((region, i.code) for region, i in m.level.groups(config.states))
        blocks[key] = LevelBlock(m.tabulation, m.level, groups, len(variances))
        variances += [noise[key][cell][1] for cell in m.tabulation.cells] * len(groups)
        distribution = next(iter(noise[key].values()))[0]
    return Measured(config, blocks, np.zeros(len(variances)), np.array(variances), DENSITIES[distribution])


def noise(release: Measured, rng: np.random.Generator) -> np.ndarray:
    """One draw of all noise."""
    if release.config.privacy == "zcdp":
        return np.rint(rng.normal(0, np.sqrt(release.variances)))
    stop = 1 - np.exp(-1 / release.density.scale(release.variances))
    return (rng.geometric(stop) - rng.geometric(stop)).astype(float)


def line_keys(config: Config, lines: PublishedLines) -> tuple[np.ndarray, pl.DataFrame]:
    """The rows of published lines, and their keys."""
    shells = {t.name: table.shell for table in config.catalog.tables if (t := counted(table))}
    rows, keys = [], []
    for block in lines.blocks:
        where = lines.where[block.tabulation.name, block.level.key]
        for i, line in enumerate(shells[block.tabulation.name]):
            for j, (region, code) in enumerate(block.groups):
                rows.append(where[i, j])
                kind = block.level.geography.region_type
                keys.append((block.tabulation.name, kind, region, LEVELS.get(code, "A–G"), code, line.number))
    return np.array(rows), pl.DataFrame(keys, schema=KEYS, orient="row")


@dataclass(frozen=True)
class World:
    """Exact counts of a population, and what doesn't change between releases of it."""

    config: Config
    release: Measured
    kept: np.ndarray
    everyone: np.ndarray
    projection: Projection
    lines: PublishedLines
    #: The published lines of tables, with their keys, the truth and the households of their group.
    rows: np.ndarray
    keys: pl.DataFrame

    @classmethod
    def of(cls, config: Config, counts: dict[bool, Counts]) -> World:
        """Prepare a population. `counts[True]` are truncated, `counts[False]` are not."""
        release = skeleton(config)
        kept = np.concatenate([counts[True][key] for key in release.blocks]).astype(float)
        beyond = [block.tabulation.beyond is not None for block in release.blocks.values()]
        chosen = [counts[cut][key] for key, cut in zip(release.blocks, beyond, strict=True)]
        everyone = np.concatenate(chosen).astype(float)
        lines = published_lines(release)
        rows, keys = line_keys(config, lines)
        households = _households(release, counts[True])
        group = keys.select("TYPE", "REGION", "ITERATION").rows()
        keys = keys.with_columns(
            HOUSEHOLDS=np.array([households.get(key, 0) for key in group]), TRUTH=lines.sums[rows] @ everyone
        )
        return cls(config, release, kept, everyone, project(release), lines, rows, keys)

    def draws(self, number: int, seed: int) -> Iterator[tuple[Measured, Fit]]:
        """Yield noisy releases with their least-squares fit."""
        rng = np.random.default_rng(seed)
        for _ in range(number):
            y = self.kept + noise(self.release, rng)
            yield replace(self.release, counts=y), fit_with(self.projection, y)


def errors(world: World, draws: int, seed: int, target: str = "truncated") -> pl.DataFrame:
    """Squared errors against the target, and points outside their interval: means over draws, by line."""
    rows, density, everyone = world.rows, world.release.density, target == "everybody"
    sums, spread = world.lines.sums[rows], density.scale(world.release.variances)
    truth = sums @ (world.everyone if everyone else world.kept)
    found = {name: np.zeros(len(rows)) for name in (*METHODS, "OUTSIDE")}
    for drawn, fit in world.draws(draws, seed):
        model = joint(drawn, tied(drawn, everybody(drawn, fit)) if everyone else fit)
        cells = np.rint(drawn.counts + spread * density.mean_above(-drawn.counts / spread))
        shown = (sums @ drawn.counts, sums @ model.cells.estimates, sums @ model.points.counts, sums @ cells)
        for name, values in zip(METHODS, shown, strict=True):
            found[name] += np.square(values - truth)
        low, high = model.intervals(rows)
        found["OUTSIDE"] += (shown[2] < np.floor(low)) | (shown[2] > np.ceil(high))
    return world.keys.with_columns(**{name: values / draws for name, values in found.items()})


def coverage(world: World, draws: int, seed: int, shares: PublicShares | None = None) -> pl.DataFrame:
    """Coverage of the truth with and without the people beyond the thresholds: means over draws, by line."""
    sums = world.lines.sums[world.rows]
    truth = world.keys["TRUTH"].to_numpy()
    names = ("COVERED", "SQUARE", "WIDTH", "COVERED_CUT", "SQUARE_CUT", "WIDTH_CUT")
    found = {name: np.zeros(len(truth)) for name in names}
    held = []
    for drawn, fit in world.draws(draws, seed):
        for end, cells in (("", tied(drawn, everybody(drawn, fit, shares))), ("_CUT", fit)):
            low, high = count_intervals(cells, sums, np.sqrt(cells.variance(sums)))
            low, high = np.floor(low), np.ceil(high)
            inside = (low <= truth) & (truth <= high)
            found["COVERED" + end] += inside
            found["WIDTH" + end] += high - low
            found["SQUARE" + end] += np.square(sums @ cells.estimates - truth)
            if not end:
                held.append(inside)
    means = {name: values / draws for name, values in found.items()}
    return world.keys.with_columns(**means, HELD=np.array(held, float).T, SEED=pl.lit(seed))


def _households(release: Measured, counts: Counts) -> dict[tuple[str, str, str], int]:
    """The households of each group, from the first tabulation of units that has one cell."""
    found: dict[tuple[str, str, str], int] = {}
    for (name, level), block in release.blocks.items():
        if block.tabulation.kind == "units" and len(block.tabulation.cells) == 1:
            for group, number in zip(block.groups, counts[name, level], strict=True):
                found.setdefault((block.level.geography.region_type, *group), int(number))
    return found


def error_report(lines: pl.DataFrame) -> str:
    """Format errors as Markdown."""
    rmse = [pl.col(name).mean().sqrt() for name in METHODS]
    out = [
        "| table | level | raw | m̂ | joint | independent | joint / m̂ | worst region | outside, % |",
        "|---" * 9 + "|",
    ]
    regions = lines.group_by("TABLE", "TYPE", "LEVEL", "REGION").agg(*rmse)
    regions = regions.with_columns(
        RATIO=pl.col("joint") / pl.col("mhat"), OTHER=pl.col("joint") / pl.col("independent")
    )
    by = lines.group_by("TABLE", "TYPE", "LEVEL").agg(*rmse, pl.col("OUTSIDE").mean()).sort("TABLE", "TYPE", "LEVEL")
    for table, kind, level, raw, mhat, shown, alone, outside in by.iter_rows():
        worst = regions.filter(TABLE=table, TYPE=kind, LEVEL=level).sort("RATIO").row(-1, named=True)
        out.append(
            f"| {table} | {kind} {level} | {raw:.1f} | {mhat:.1f} | {shown:.1f} | {alone:.1f} | {shown / mhat:.2f} "
            f"| {worst['REGION']}: {worst['RATIO']:.2f} | {100 * outside:.2f} |"
        )
    outside = 100 * lines["OUTSIDE"].mean()
    top = regions.sort("OTHER").row(-1, named=True)
    is_empty = (pl.col("LEVEL") == "H, I") & (pl.col("TRUTH") == 0)
    empty, others = (lines.filter(is_empty == own)["OUTSIDE"].mean() or 0 for own in (True, False))
    ratio = {own: regions.filter((pl.col("LEVEL") == "H, I") == own)["RATIO"].max() for own in (False, True)}
    out.append(
        f"\nLargest joint / m̂: {ratio[False]:.3f} in * and A–G, {ratio[True] or 0:.3f} in H, I. Largest joint / "
        f"independent: {top['OTHER']:.3f} ({top['TABLE']}, {top['LEVEL']}, region {top['REGION']}). Outside: "
        f"{outside:.2f} %; in empty H, I cells {100 * empty:.1f} %, elsewhere {100 * others:.2f} %.\n"
    )
    return "\n".join(out)


def coverage_report(lines: pl.DataFrame) -> str:
    """Format coverage as Markdown: by table, level and group size; nation rows pooled; and the worst region."""
    out = [
        "| table | level | coverage, ≥ 100 households | without | 10–99 | 1–9 | 0 | RMSE | without | width | without |",
        "|---" * 11 + "|",
    ]
    n = pl.col("HOUSEHOLDS")
    sizes = {"large": n >= 100, "ten": n.is_between(10, 99), "one": n.is_between(1, 9), "none": n == 0}
    shares = [pl.col("COVERED").filter(sizes[name]).mean().alias(name) for name in sizes]
    old = [pl.col("COVERED_CUT").filter(sizes["large"]).mean().alias("old")]
    squares = pl.col("SQUARE", "SQUARE_CUT").mean().sqrt()
    by = lines.group_by("TABLE", "TYPE", "LEVEL").agg(*shares, *old, squares, pl.col("WIDTH", "WIDTH_CUT").mean())
    for row in by.sort("TABLE", "TYPE", "LEVEL").iter_rows(named=True):
        share = [f"{100 * row[k]:.1f}" if row[k] is not None else "–" for k in ("large", "old", "ten", "one", "none")]
        out.append(
            f"| {row['TABLE']} | {row['TYPE']} {row['LEVEL']} | {' | '.join(share)} "
            f"| {row['SQUARE']:.1f} | {row['SQUARE_CUT']:.1f} | {row['WIDTH']:.0f} | {row['WIDTH_CUT']:.0f} |"
        )
    nation = lines.filter(n >= 100, TYPE="USA")
    pooled = ", ".join(f"{table} {_pooled(nation.filter(TABLE=table))}" for table in sorted(set(nation["TABLE"])))
    regions = lines.filter(n >= 100, TYPE="STATE").group_by("TABLE", "REGION").agg(pl.col("COVERED").mean())
    worst = [f"{t} {100 * s:.1f} ({r})" for t, r, s in regions.sort("COVERED").group_by("TABLE").first().iter_rows()]
    return "\n".join([*out, f"\nNation rows pooled: {pooled}. Worst state: {', '.join(sorted(worst))}."])


def _pooled(lines: pl.DataFrame) -> str:
    """Coverage of some lines with its standard error: lines of one release share noise, releases don't."""
    by_release = 100 * np.concatenate([part["HELD"].to_numpy().mean(axis=0) for part in lines.partition_by("SEED")])
    if len(by_release) == 1:
        return f"{by_release[0]:.1f}"
    return f"{by_release.mean():.1f} ± {by_release.std(ddof=1) / len(by_release) ** 0.5:.1f}"


def curves(config: Config, data: Path) -> dict[str, dict[str, float]]:
    """For each tabulation and threshold, the percentage of people that the threshold drops in synthetic data."""
    found = {t: np.zeros(LARGEST_HOUSEHOLD + 1, np.int64) for t in config.catalog.tabulations if t.is_truncated}
    for file in sorted((data / "persons").iterdir()):
        persons, units = (pl.read_parquet(data / name / file.name) for name in ("persons", "units"))
        for t in found:
            chosen = restricted(persons, t.persons).join(restricted(units, t.units), on="MAFID", how="semi")
            found[t] += np.bincount(chosen.group_by("MAFID").len()["len"], minlength=LARGEST_HOUSEHOLD + 1)
    size = np.arange(LARGEST_HOUSEHOLD + 1)
    return {
        t.name: {str(tau): 100 * households @ np.maximum(size - tau, 0) / (households @ size) for tau in THRESHOLDS}
        for t, households in found.items()
    }


def restricted(frame: pl.DataFrame, condition: Where) -> pl.DataFrame:
    """The rows that satisfy a condition."""
    return frame.filter(*(pl.col(name).is_in(list(codes)) for name, codes in condition.terms))


def public_shares(
    config: Config, counts: dict[bool, Counts], curves: dict[str, dict[str, float]], few: float = 0.0
) -> dict[str, object]:
    """Public shares from exact counts: a curve over thresholds, and factors at the thresholds used.

    Args:
        config: A config that measures what truncation drops.
        counts: Its counts, with and without truncation.
        curves: Tabulation → threshold → percentage of people dropped.
        few: Dropped people of a small sample, which draw its factors towards 1.
    """

    def factor(people: float, kept: float, share: float) -> float:
        return float(f"{(people - kept + few) / (kept * share + few):.4g}") if kept * share + few else 1.0

    found: dict[str, object] = {}
    for t in config.catalog.tabulations:
        if (t.name, "usa_*") not in counts[True]:
            continue
        if t.is_truncated:
            all_people, kept = (counts[cut][t.name, "usa_*"] for cut in (False, True))
            share = (all_people.sum() - kept.sum()) / kept.sum()
            entry = {
                "tau": config.tau[t.name],
                "shares": {k: float(f"{v / (100 - v):.4g}") for k, v in curves[t.name].items() if 0 < v < 100},
                "cells": {str(c): factor(a, b, share) for c, a, b in zip(t.cells, all_people, kept, strict=True)},
                "regions": {},
                "iterations": {},
                "others": {},
            }
            for kind, level in (("regions", "state_*"), ("iterations", "usa_A-G"), ("iterations", "usa_H,I")):
                if (t.name, level) in counts[True]:
                    own = next(lv for lv in config.levels_of(t) if lv.key == level)
                    groups = list(own.groups(config.states))
                    sums = [counts[cut][t.name, level].reshape(len(groups), -1).sum(axis=1) for cut in (False, True)]
                    entry[kind] |= {
                        (region if kind == "regions" else i.code): factor(a, b, share)
                        for (region, i), a, b in zip(groups, *sums, strict=True)
                    }
                    if not own.iteration_level.covers:
                        rest = all_people.sum() - sums[0].sum(), kept.sum() - sums[1].sum()
                        entry["others"][own.iteration_level.key] = factor(*rest, share)
            found[t.name] = entry
        elif t.kind == "oversized" and t.beyond is not None:
            curve = {int(k): v for k, v in curves[t.beyond.name].items()}
            tau = config.tau[t.beyond.name]
            mean = curve[tau] / (curve[tau] - curve[tau + 1])
            dropped = counts[False][t.beyond.name, "usa_*"] - counts[True][t.beyond.name, "usa_*"]
            households = counts[True][t.name, "usa_*"]
            per = {}
            for (number, cell), n in zip(t.cells.items(), households, strict=True):
                people = dropped[[c.implies(cell) for c in t.beyond.cells.values()]].sum()
                per[str(number)] = float(f"{(people + few) / (n * mean + few):.4g}") if n + few else 1.0
            found[t.name] = {"per_household": per}
    return found


def main() -> None:
    """Make or reuse data and exact counts, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--config", default="us", help="a shipped config or a file")
    parser.add_argument("--states", help="FIPS codes")
    parser.add_argument("--households", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="a data folder instead of a made-up one")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the made-up data")
    parser.add_argument("--sensitivity", default="published")
    parser.add_argument("--privacy", default="zcdp")
    parser.add_argument("--epsilon", action="store_true", help="pure DP with ε = 2√ρ, for the same variance")
    parser.add_argument("--drop", nargs="*", default=[], help="tabulations and levels without budget")
    parser.add_argument("--only", choices=("errors", "coverage"), help="print one of the two")
    parser.add_argument("--target", choices=("truncated", "everybody"), default="truncated", help="of the errors")
    parser.add_argument("--shares", type=Path, help="write public shares to this file, and nothing else")
    arguments = parser.parse_args()
    is_file = Path(arguments.config).exists()
    document = json.loads(Path(arguments.config).read_text()) if is_file else parameters_2020(arguments.config)
    if arguments.states:
        document["state_filter"] = arguments.states.split(",")
    for name, levels in document["privacy_budget"].items():
        levels.update({level: 0 for level in levels if {name, level} & set(arguments.drop)})
    if arguments.epsilon:
        for levels in document["privacy_budget"].values():
            levels.update({level: round(2 * float(budget) ** 0.5, 6) for level, budget in levels.items()})
    privacy = "puredp" if arguments.epsilon else arguments.privacy
    document |= {"sensitivity": arguments.sensitivity, "privacy_defn": privacy}
    config = Config.load(document)
    arguments.work.mkdir(exist_ok=True)
    name = f"{'-'.join(config.states[:6])}-{arguments.households}-{arguments.seed}"
    data = arguments.data or arguments.work / name
    if not data.exists():
        synth(data, arguments.households, config.states, seed=arguments.seed)
    cache = arguments.work / f"{data.name}-{Path(arguments.config).stem}-{'-'.join(arguments.drop)}.pickle"
    counts = exact(config, data, cache)
    if arguments.shares:
        shares = public_shares(config, counts, curves(config, data))
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in shares.items())
        arguments.shares.write_text(f'{{"source": {json.dumps(SHARES_OF)},\n "tabulations": {{\n{lines}\n}}}}\n')
        return
    world = World.of(config, counts)
    if arguments.only != "coverage":
        print(error_report(errors(world, arguments.draws, arguments.seed, arguments.target)))
    if arguments.only != "errors":
        print(coverage_report(coverage(world, arguments.draws, arguments.seed)))


if __name__ == "__main__":
    main()
