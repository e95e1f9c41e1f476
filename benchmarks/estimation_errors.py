"""Errors and coverage of count tables over many releases, by table, level, region and group size.

    python benchmarks/estimation_errors.py WORK                  the United States at one million households
    python benchmarks/estimation_errors.py WORK --states 06,56 --households 100000 --draws 300
    python benchmarks/estimation_errors.py WORK --config us-measured --households 126800000 --draws 8
    python benchmarks/estimation_errors.py WORK --data acs --config acs.json
    python benchmarks/estimation_errors.py WORK --config us-measured --households 126800000 --shares FILE

Exact counts are computed once and kept in WORK. Noise is normal (or geometric) from NumPy, which is fast and good
enough for a benchmark. Prints Markdown: first the errors of raw counts, of least squares (m̂), of the joint and the
independent points against truncated counts, and how often a point is outside its own interval before widening; then
coverage of the untruncated truth by the intervals of everybody.
"""

from __future__ import annotations

import argparse
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from phsafe.configs.config import Config
from phsafe.configs.grid import Counts
from phsafe.configs.parameters import parameters_2020
from phsafe.estimation.beyond_threshold import everybody
from phsafe.estimation.consistent_points import points
from phsafe.estimation.constraints import implies
from phsafe.estimation.densities import DENSITIES, NORMAL
from phsafe.estimation.fit import fit_with, project
from phsafe.estimation.joint_model import Joint
from phsafe.estimation.measurement_vector import LevelBlock, Measured
from phsafe.estimation.published_lines import PublishedLines, published_lines
from phsafe.estimation.table_lines import counted
from phsafe.pipeline.scan import Settings, count
from phsafe.privacy.accountant import plan
from phsafe.synthetic import synth

LEVELS = {"*": "*", "H": "H, I", "I": "H, I"}
KEYS = ["TABLE", "TYPE", "REGION", "LEVEL", "ITERATION", "CELL"]
METHODS = ("raw", "mhat", "joint", "independent")


def exact(config: Config, data: Path, cache: Path) -> dict[bool, Counts]:
    """Counts with and without truncation, computed once."""
    if not cache.exists():
        found = {cut: dict(count(config, data, Settings(truncate=cut, skip_validation=True))) for cut in (True, False)}
        cache.write_bytes(pickle.dumps(found))
    return pickle.loads(cache.read_bytes())


def skeleton(config: Config) -> Measured:
    """The measurements of a config, without counts."""
    blocks, variances, start, distribution = {}, [], 0, ""
    for event, m in zip(plan(config).events, config.measurements(), strict=True):
        groups = tuple((region, i.code) for region, i in m.level.groups(config.states))
        blocks[m.tabulation.name, m.level.key] = LevelBlock(m.tabulation, m.level, groups, start)
        size = len(groups) * len(m.tabulation.cells)
        variances.append(np.full(size, event.noise.variance))
        start, distribution = start + size, event.noise.distribution
    return Measured(config, blocks, np.zeros(start), np.concatenate(variances), DENSITIES[distribution])


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


def run(config: Config, counts: dict[bool, Counts], draws: int, seed: int) -> pl.DataFrame:
    """Squared errors, points outside their interval, and coverage, as means over draws, one row per published line."""
    release = skeleton(config)
    kept = np.concatenate([counts[True][key] for key in release.blocks]).astype(float)
    beyond = [block.tabulation.beyond is not None for block in release.blocks.values()]
    everyone = np.concatenate([counts[cut][key] for key, cut in zip(release.blocks, beyond, strict=True)]).astype(float)
    projection, lines = project(release), published_lines(release)
    scale = np.sqrt(projection.variance(lines.sums))
    rows, keys = line_keys(config, lines)
    sums, rng = lines.sums[rows], np.random.default_rng(seed)
    cut, truth = sums @ kept, sums @ everyone
    found = {
        name: np.zeros(len(rows))
        for name in (*METHODS, "OUTSIDE", "COVERED", "COVERED_CUT", "WIDTH", "EVERYBODY", "CUT")
    }
    spread = release.density.scale(release.variances)
    for _ in range(draws):
        y = kept + noise(release, rng)
        drawn, fit = replace(release, counts=y), fit_with(projection, y)
        model = Joint(drawn, fit, lines, scale, points(drawn, fit.estimates, lines, scale))
        cells = np.rint(y + spread * release.density.mean_above(-y / spread))
        shown = (sums @ y, sums @ fit.estimates, sums @ model.points.counts, sums @ cells)
        for name, values in zip(METHODS, shown, strict=True):
            found[name] += np.square(values - cut)
        low, high = (np.floor(model.intervals(rows)[0]), np.ceil(model.intervals(rows)[1]))
        found["OUTSIDE"] += (shown[2] < low) | (shown[2] > high)
        found["COVERED_CUT"] += (np.maximum(low, 0) <= truth) & (truth <= high)
        found["CUT"] += np.square(shown[1] - truth)
        whole = everybody(drawn, fit)
        center, width = sums @ whole.estimates, np.sqrt(whole.variance(sums))
        low, high = NORMAL.shortest(-center / width)
        low, high = np.maximum(np.floor(center + width * low), 0), np.ceil(center + width * high)
        found["COVERED"] += (low <= truth) & (truth <= high)
        found["WIDTH"] += high - low
        found["EVERYBODY"] += np.square(center - truth)
    households = _households(release, counts[True])
    group = keys.select("TYPE", "REGION", "ITERATION").rows()
    return keys.with_columns(
        HOUSEHOLDS=np.array([households.get(key, 0) for key in group]),
        TRUTH=truth,
        **{name: values / draws for name, values in found.items()},
    )


def _households(release: Measured, counts: Counts) -> dict[tuple[str, str, str], int]:
    """The households of each group, from the first tabulation of units that has one cell."""
    found: dict[tuple[str, str, str], int] = {}
    for (name, level), block in release.blocks.items():
        if block.tabulation.kind == "units" and len(block.tabulation.cells) == 1:
            for group, number in zip(block.groups, counts[name, level], strict=True):
                found.setdefault((block.level.geography.region_type, *group), int(number))
    return found


def report(lines: pl.DataFrame) -> str:
    """Format the results as Markdown."""
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
    for table, kind, level, raw, mhat, joint, alone, outside in by.iter_rows():
        worst = regions.filter(TABLE=table, TYPE=kind, LEVEL=level).sort("RATIO").row(-1, named=True)
        out.append(
            f"| {table} | {kind} {level} | {raw:.1f} | {mhat:.1f} | {joint:.1f} | {alone:.1f} | {joint / mhat:.2f} "
            f"| {worst['REGION']}: {worst['RATIO']:.2f} | {100 * outside:.2f} |"
        )
    top = regions.sort("OTHER").row(-1, named=True)
    empty = lines.filter(LEVEL="H, I", TRUTH=0)["OUTSIDE"].mean() or 0
    out += [
        f"\nLargest joint / independent: {top['OTHER']:.2f} ({top['TABLE']}, {top['LEVEL']}, region {top['REGION']}). "
        f"Outside in empty H, I cells: {100 * empty:.1f} %.\n",
        "| table | level | coverage, ≥ 100 households | without | 10–99 | 1–9 | 0 | RMSE | without | width |",
        "|---" * 10 + "|",
    ]
    n = pl.col("HOUSEHOLDS")
    sizes = {"large": n >= 100, "ten": n.is_between(10, 99), "one": n.is_between(1, 9), "none": n == 0}
    shares = [pl.col("COVERED").filter(sizes[name]).mean().alias(name) for name in sizes]
    old = [pl.col("COVERED_CUT").filter(sizes["large"]).mean().alias("old")]
    by = lines.group_by("TABLE", "TYPE", "LEVEL").agg(
        *shares, *old, pl.col("EVERYBODY", "CUT").mean().sqrt(), pl.col("WIDTH").mean()
    )
    for row in by.sort("TABLE", "TYPE", "LEVEL").iter_rows(named=True):
        share = [f"{100 * row[k]:.1f}" if row[k] is not None else "–" for k in ("large", "old", "ten", "one", "none")]
        out.append(
            f"| {row['TABLE']} | {row['TYPE']} {row['LEVEL']} | {' | '.join(share)} "
            f"| {row['EVERYBODY']:.1f} | {row['CUT']:.1f} | {row['WIDTH']:.0f} |"
        )
    return "\n".join(out)


def public_shares(config: Config, counts: dict[bool, Counts]) -> dict[str, object]:
    """Public shares from exact counts of the nation: a curve over thresholds, and factors at the thresholds used."""
    curves = json.loads(Path("src/phsafe/explorer/truncation.json").read_text())["shares"]

    def factor(people: float, kept: float, share: float) -> float:
        return float(f"{(people - kept) / kept / share:.4g}") if kept and share else 1.0

    found: dict[str, object] = {}
    for t in config.catalog.tabulations:
        if t.is_truncated:
            all_people, kept = (counts[cut][t.name, "usa_*"] for cut in (False, True))
            share = (all_people.sum() - kept.sum()) / kept.sum()
            entry = {
                "tau": config.tau[t.name],
                "shares": {k: float(f"{v / (100 - v):.4g}") for k, v in curves[t.name].items() if 0 < v < 100},
                "cells": {str(c): factor(a, b, share) for c, a, b in zip(t.cells, all_people, kept, strict=True)},
                "regions": {},
                "iterations": {},
            }
            for kind, level in (("regions", "state_*"), ("iterations", "usa_A-G"), ("iterations", "usa_H,I")):
                if (t.name, level) in counts[True]:
                    groups = [g for lv in config.levels_of(t) if lv.key == level for g in lv.groups(config.states)]
                    sums = [counts[cut][t.name, level].reshape(len(groups), -1).sum(axis=1) for cut in (False, True)]
                    entry[kind] |= {
                        (region if kind == "regions" else i.code): factor(a, b, share)
                        for (region, i), a, b in zip(groups, *sums, strict=True)
                    }
            found[t.name] = entry
        elif t.kind == "oversized" and t.beyond is not None:
            curve = {int(k): v for k, v in curves[t.beyond.name].items()}
            tau = config.tau[t.beyond.name]
            mean = curve[tau] / (curve[tau] - curve[tau + 1])
            dropped = counts[False][t.beyond.name, "usa_*"] - counts[True][t.beyond.name, "usa_*"]
            households = counts[True][t.name, "usa_*"]
            per = {}
            for (number, cell), n in zip(t.cells.items(), households, strict=True):
                people = dropped[[implies(c, cell) for c in t.beyond.cells.values()]].sum()
                per[str(number)] = float(f"{people / n / mean:.4g}") if n else 1.0
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
    parser.add_argument("--drop", nargs="*", default=[], help="tabulations and levels without budget")
    parser.add_argument("--shares", type=Path, help="write public shares to this file, and nothing else")
    arguments = parser.parse_args()
    is_file = Path(arguments.config).exists()
    document = json.loads(Path(arguments.config).read_text()) if is_file else parameters_2020(arguments.config)
    if arguments.states:
        document["state_filter"] = arguments.states.split(",")
    for name, levels in document["privacy_budget"].items():
        levels.update({level: 0 for level in levels if {name, level} & set(arguments.drop)})
    document |= {"sensitivity": arguments.sensitivity, "privacy_defn": arguments.privacy}
    config = Config.load(document)
    arguments.work.mkdir(exist_ok=True)
    name = f"{'-'.join(config.states[:6])}-{arguments.households}-{arguments.seed}"
    data = arguments.data or arguments.work / name
    if not data.exists():
        synth(data, arguments.households, config.states, seed=arguments.seed)
    cache = arguments.work / f"{data.name}-{Path(arguments.config).stem}-{'-'.join(arguments.drop)}.pickle"
    counts = exact(config, data, cache)
    if arguments.shares:
        text = {"source": "synthetic households (phsafe synth)", "tabulations": public_shares(config, counts)}
        arguments.shares.write_text(json.dumps(text) + "\n")
        return
    print(report(run(config, counts, arguments.draws, seed=arguments.seed)))


if __name__ == "__main__":
    main()
