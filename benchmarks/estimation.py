"""RMSE and coverage of finished tables on a synthetic nation: raw, independent and joint, over many releases.

    python benchmarks/estimation.py WORK [--households 1000000] [--releases 20] [--config examples/us.json]
    python benchmarks/estimation.py WORK --picture docs/images/small-state.svg

WORK is a folder for the synthetic records, created on the first run. Prints Markdown: RMSE and coverage for each table
and level, the ratios that the joint method must reach, and the time and memory of one fit. The picture shows the
averages by race of one small state, with intervals and true values; it needs Matplotlib.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from phsafe.configs import grid
from phsafe.configs.config import Config
from phsafe.estimation import estimate_frames
from phsafe.estimation.table_lines import basis, counted, ratios
from phsafe.pipeline.scan import Settings, count
from phsafe.privacy.mechanism import open_session
from phsafe.synthetic import synth

KEYS = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CELL"]
LEVELS = {"*": "*", "H": "H, I", "I": "H, I"}
Z = 1.6448536269514722
#: (label, table, cells, region type, level, minimum of households, required ratio)
REQUIRED_RATIOS = [
    ("PH7 cell 1, state by race", "PH7", [1], "STATE", "A–G", 0, 0.70),
    ("PH7 cell 1, state `*`", "PH7", [1], "STATE", "*", 0, 0.50),
    ("PH2 cell 1, state", "PH2", [1], "STATE", "*", 0, 0.40),
    ("PH3 basis cells, state `*`", "PH3", [2, 4, 5, 6, 7, 9, 10], "STATE", "*", 0, 0.35),
    ("PH3 basis cells, nation by race", "PH3", [2, 4, 5, 6, 7, 9, 10], "USA", "A–G", 0, 0.35),
    ("PH4 basis cells, state `*`", "PH4", [2, 3], "STATE", "*", 0, 0.75),
    ("PH1 cell 1, state by race, ≥ 500 households", "PH1", [1], "STATE", "A–G", 500, 0.87),
    ("PH8 cell 1, state by race, ≥ 500 households", "PH8", [1], "STATE", "A–G", 500, 0.68),
]


def noisy_frames(config: Config, counts: grid.Counts) -> dict[str, pl.DataFrame]:
    """The noisy measurements of a release, in memory, with OpenDP's noise."""
    session = open_session(config, counts)
    noisy = {(m.tabulation.name, m.level.key): np.array(session.measure(m)) for m in config.measurements()}
    noise = {(m.tabulation.name, m.level.key): used for m, used in session.completed}
    frames = defaultdict(list)
    for (name, level), used in noise.items():
        frame = level_frame(config, name, level, noisy)
        frames[name].append(
            frame.with_columns(NOISE_DISTRIBUTION=pl.lit(used.distribution), VARIANCE=pl.lit(used.variance))
        )
    return {name: pl.concat(parts) for name, parts in frames.items()}


def level_frame(config: Config, name: str, key: str, counts: grid.Counts) -> pl.DataFrame:
    """The counts of one measurement, with their keys."""
    tabulation = config.catalog.tabulation(name)
    level = next(level for level in config.levels_of(tabulation) if level.key == key)
    rows = grid.level_rows(config, tabulation, level)
    return pl.DataFrame(rows, schema=list(grid.KEYS), orient="row").with_columns(COUNT=pl.Series(counts[name, key]))


def plain(config: Config, frames: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Every table line directly from counts: VALUE and, for noisy counts, SPREAD, the noise's standard deviation."""
    catalog = config.catalog
    tables = {}
    for table in catalog.tables:
        if (tabulation := counted(table)) is not None:
            lines = [
                line_sums(frames[tabulation.name], basis(catalog, table, tabulation, line.number), line.number)
                for line in table.shell
            ]
        else:
            lines = [
                line_sums(frames[r.numerator.name], [c for p in parts for c in r.parts[p]], number)
                .join(line_sums(frames[r.denominator.name], r.per, number), on=KEYS, suffix="_D")
                .with_columns(
                    VALUE=pl.when(pl.col("VALUE_D") != 0).then(pl.col("VALUE") / pl.col("VALUE_D")),
                    SPREAD=(
                        pl.col("SPREAD") ** 2 + (pl.col("VALUE") / pl.col("VALUE_D") * pl.col("SPREAD_D")) ** 2
                    ).sqrt()
                    / pl.col("VALUE_D").abs(),
                )
                for r in ratios(catalog, table)
                for number, parts in r.lines
            ]
        tables[table.name] = pl.concat([line.select(*KEYS, "VALUE", "SPREAD") for line in lines])
    return tables


def line_sums(frame: pl.DataFrame, cells: object, number: int) -> pl.DataFrame:
    """One table line: the sum of some cells in every population group."""
    variance = pl.col("VARIANCE").sum() if "VARIANCE" in frame.columns else pl.lit(0.0)
    return (
        frame.filter(pl.col("DATA_CELL").is_in(list(cells)))
        .group_by(KEYS[:3], maintain_order=True)
        .agg(VALUE=pl.col("COUNT").sum().cast(pl.Float64), SPREAD=variance.sqrt())
        .with_columns(CELL=pl.lit(number, pl.Int64))
    )


def errors(config: Config, counts: grid.Counts, releases: int) -> Iterator[pl.DataFrame]:
    """For every release, table, group, line and method: squared error and whether the interval covers the truth."""
    exact = {
        name: pl.concat([level_frame(config, name, key, counts) for n, key in counts if n == name])
        for name in {n for n, _ in counts}
    }
    truth = plain(config, exact)
    households = exact["PH1_denom"].select(*KEYS[:3], HOUSEHOLDS="COUNT")
    for number in range(releases):
        frames = noisy_frames(config, counts)
        raw = plain(config, frames)
        shown = {"raw": {}} | {
            method: estimate_frames(config, frames, method, "truncated").tables for method in METHODS
        }
        shown["raw"] = {
            name: frame.select(
                *KEYS, ESTIMATE="VALUE", LOWER_90=pl.col("VALUE") - Z * pl.col("SPREAD"),
                UPPER_90=pl.col("VALUE") + Z * pl.col("SPREAD"),
            )
            for name, frame in raw.items()
        }  # fmt: skip
        for method, tables in shown.items():
            for name, frame in tables.items():
                both = truth[name].join(frame, on=KEYS).join(households, on=KEYS[:3])
                both = both.filter(pl.col("VALUE").is_finite() & pl.col("ESTIMATE").is_finite())
                yield both.select(
                    "REGION_TYPE", "CELL", "HOUSEHOLDS",
                    TABLE=pl.lit(name), METHOD=pl.lit(method), RELEASE=pl.lit(number),
                    LEVEL=pl.col("ITERATION_CODE").replace_strict(LEVELS, default="A–G"),
                    SQUARE=(pl.col("ESTIMATE").cast(pl.Float64) - pl.col("VALUE")) ** 2,
                    COVERED=pl.col("VALUE").is_between(pl.col("LOWER_90") - 1e-9, pl.col("UPPER_90") + 1e-9),
                )  # fmt: skip


METHODS = ("independent", "joint")


def report(all_errors: pl.DataFrame) -> str:
    """Format the results as Markdown tables."""
    rmse, covered = pl.col("SQUARE").mean().sqrt(), 100 * pl.col("COVERED").mean()
    large = pl.col("HOUSEHOLDS") >= 100
    by_level = all_errors.group_by("TABLE", "REGION_TYPE", "LEVEL", "METHOD").agg(
        rmse=rmse,
        large=100 * pl.col("COVERED").filter(large).mean(),
        small=100 * pl.col("COVERED").filter(~large).mean(),
    )
    found = {tuple(row[:4]): row[4:] for row in by_level.iter_rows()}
    lines = [
        "| table | level | RMSE raw | independent | joint | joint / independent "
        "| coverage ≥ 100 households: raw | independent | joint | < 100: independent | joint |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for table, region, level in sorted({key[:3] for key in found}, key=lambda k: (k[0], k[1] != "USA", k[2])):
        raw, alone, joint = (found[table, region, level, method] for method in ("raw", *METHODS))
        name = f"{'nation' if region == 'USA' else 'state'} {level.replace('*', '`*`')}"
        lines.append(
            f"| {table} | {name} | {raw[0]:.3g} | {alone[0]:.3g} | {joint[0]:.3g} | {joint[0] / alone[0]:.2f} "
            f"| {percent(raw[1])} | {percent(alone[1])} | {percent(joint[1])} "
            f"| {percent(alone[2])} | {percent(joint[2])} |"
        )
    lines += ["", "| | joint / independent | required |", "|---|---|---|"]
    for label, table, cells, region, level, minimum, required in REQUIRED_RATIOS:
        part = all_errors.filter(pl.col("CELL").is_in(cells), TABLE=table, REGION_TYPE=region, LEVEL=level).filter(
            pl.col("HOUSEHOLDS") >= minimum
        )
        value = {m: part.filter(METHOD=m).select(rmse).item() for m in METHODS}
        lines.append(f"| {label} | {value['joint'] / value['independent']:.3f} | {required:.2f} |")
    lines += ["", "| table | coverage, groups ≥ 100 households: independent | joint |", "|---|---|---|"]
    overall = all_errors.filter(large).group_by("TABLE", "METHOD").agg(covered)
    share = {(t, m): c for t, m, c in overall.iter_rows()}
    for table in sorted({t for t, _ in share}):
        lines.append(f"| {table} | {percent(share[table, 'independent'])} | {percent(share[table, 'joint'])} |")
    return "\n".join(lines)


def picture(config: Config, counts: grid.Counts, path: Path) -> None:
    """Average household size in Wyoming by race: raw, independent, joint, and tight noise with the joint fit."""
    import matplotlib as mpl  # noqa: PLC0415  (only the picture needs it)

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "phsafe"
    import matplotlib.pyplot as plt  # noqa: PLC0415

    here = (pl.col("REGION_TYPE") == "STATE") & (pl.col("REGION_ID") == "56") & (pl.col("CELL") == 1)
    exact = {n: pl.concat([level_frame(config, m, k, counts) for m, k in counts if m == n]) for n, _ in counts}
    truth = plain(config, exact)["PH1"].filter(here)
    households = exact["PH1_denom"].filter(REGION_ID="56", REGION_TYPE="STATE")["COUNT"].to_list()
    published = noisy_frames(config, counts)
    tight = config.with_sensitivity("tight")
    raw = plain(config, published)["PH1"].filter(here)
    shown = {"raw ratio": (raw["VALUE"], raw["VALUE"] - Z * raw["SPREAD"], raw["VALUE"] + Z * raw["SPREAD"])}
    for name, of, frames, method in (
        ("independent (the 2020 model)", config, published, "independent"),
        ("joint", config, published, "joint"),
        ("tight noise, joint", tight, noisy_frames(tight, counts), "joint"),
    ):
        frame = truth.join(estimate_frames(of, frames, method).tables["PH1"], on=KEYS, maintain_order="left")
        shown[name] = tuple(frame[column] for column in ("ESTIMATE", "LOWER_90", "UPPER_90"))
    figure, axes = plt.subplots(figsize=(10, 4.5), layout="constrained")
    x = np.arange(len(truth))
    for i, (name, (point, low, high)) in enumerate(shown.items()):
        at = x + 0.16 * (i - 1.5)
        axes.vlines(at, low.to_numpy().clip(-2, 12), high.to_numpy().clip(-2, 12), colors=f"C{i}", lw=2)
        axes.plot(at, point, "o", ms=4, color=f"C{i}", label=name)
    axes.hlines(truth["VALUE"], x - 0.35, x + 0.35, colors="black", lw=1, label="truth")
    codes = truth["ITERATION_CODE"]
    axes.set_xticks(x, [f"{c}\n{n:,}\nhouseholds" for c, n in zip(codes, households, strict=True)])
    axes.set(ylim=(0, 11.5), ylabel="people per household", title="Average household size, a small made-up state")
    axes.legend(ncols=5, fontsize=8, loc="upper center")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def percent(value: float | None) -> str:
    """Format with one decimal, or as a dash if missing."""
    return "–" if value is None else f"{value:.1f}"


def main() -> None:
    """Generate or reuse the nation, release it many times, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--households", type=int, default=1_000_000)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--config", type=Path, default=Path("examples/us.json"))
    parser.add_argument("--picture", type=Path, help="only draw the picture, to this file")
    arguments = parser.parse_args()
    config = Config.load(arguments.config)
    if not arguments.work.exists():
        synth(arguments.work, arguments.households, config.states, seed=1)
    counts = count(config, arguments.work, Settings(skip_validation=True))
    if arguments.picture:
        picture(config, counts, arguments.picture)
        return
    print(report(pl.concat(errors(config, counts, arguments.releases))))
    frames = noisy_frames(config, counts)
    for method in METHODS:
        begin, used = time.perf_counter(), time.process_time()
        estimate_frames(config, frames, method)
        spent = f"{time.perf_counter() - begin:.1f} s ({time.process_time() - used:.1f} s of CPU time)"
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(f"\n{method}: {spent}, at most {memory:.2f} GB")


if __name__ == "__main__":
    main()
